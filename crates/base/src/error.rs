//! User errors: what a caller did or met, in a form that it can act on.
//!
//! Each has a kind (which decides the protocol status), a stable five-character code (SQLSTATE
//! where the standard has one), a short message, and where there is more to say a detail and a hint
//! that says what to do. Operating errors (disk, network) have an enum in the crate that meets
//! them; programmer errors are assertions.

use std::borrow::Cow;
use std::fmt;

pub type UserResult<T> = Result<T, UserError>;

/// What sort of failure it was. `wire` codes and prefixes are derived from it at the door of the
/// node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ErrorKind {
    /// NOT NULL, UNIQUE, CHECK and the like. Rolled back.
    ConstraintViolation,
    /// A statement that is well-formed but cannot be carried out with these values: overflow,
    /// division by zero, bad cast.
    Sql,
    /// The text does not parse, or names something that is not there, or is not supported.
    Compile,
    /// Schema change refused.
    Ddl,
    /// Wrong number or type of parameters.
    Parameters,
    /// The procedure asked for a rollback.
    UserAbort,
    /// A compound procedure ended itself. What it had called stays.
    CompoundAbort,
    /// A compound procedure took too long. What it had called stays.
    CompoundTimeout,
    /// Nothing by that name.
    UnknownProcedure,
    /// The caller may not do that.
    Permission,
    /// A limit of `limits.rs` was reached.
    Limit,
    /// The call was sent to a partition that does not own its key (bulk load, destination
    /// extensions).
    Mispartitioned,
    /// The server does not take work: paused, stopping, log failed.
    Unavailable,
    /// The outcome is not known: executed, but not known to be durable.
    OutcomeUnknown,
    /// A fault of ours.
    Internal,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Body {
    kind: ErrorKind,
    code: Cow<'static, str>,
    message: Cow<'static, str>,
    detail: Option<String>,
    place: Option<TextPosition>,
    subject: Option<Box<str>>,
    hint: Option<Cow<'static, str>>,
}

/// Where in the caller's text: both counted from 1, the column in characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextPosition {
    pub line: u64,
    pub column: u64,
}

impl TextPosition {
    /// A place in a part of a text as one in the text. `start` is where the part begins.
    pub fn after(self, start: TextPosition) -> TextPosition {
        if self.line == 1 {
            TextPosition { line: start.line, column: start.column + self.column - 1 }
        } else {
            TextPosition { line: start.line + self.line - 1, column: self.column }
        }
    }
}

/// One pointer wide, so that `Result<Value, UserError>` stays small on the hot path.
#[derive(Clone, PartialEq, Eq)]
pub struct UserError(Box<Body>);

impl UserError {
    #[cold]
    #[inline(never)]
    pub fn new(kind: ErrorKind, code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        UserError(Box::new(Body {
            kind,
            code: Cow::Borrowed(code),
            message: message.into(),
            detail: None,
            place: None,
            subject: None,
            hint: None,
        }))
    }

    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Where it was met. Whoever knows it first knows it best: a place that is there already stays.
    #[must_use]
    pub fn at(mut self, place: TextPosition) -> Self {
        self.0.place.get_or_insert(place);
        self
    }

    /// The same error with its place, if it has one, in another text: the one around it. None: it
    /// means nothing there.
    #[must_use]
    pub fn moved(mut self, place: impl FnOnce(TextPosition) -> Option<TextPosition>) -> Self {
        self.0.place = self.0.place.and_then(place);
        self
    }

    /// The name that it is about, so that whoever has the text can look where it stands.
    #[must_use]
    pub fn about(mut self, name: impl Into<Box<str>>) -> Self {
        self.0.subject = Some(name.into());
        self
    }

    #[must_use]
    pub fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// With another code: five digits or upper-case letters, such as the SQLSTATE of a SIGNAL.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<Cow<'static, str>>) -> Self {
        self.0.code = code.into();
        debug_assert!(is_code(&self.0.code), "{} is a SQLSTATE", self.0.code);
        self
    }

    #[must_use]
    pub fn with_message(mut self, message: impl Into<Cow<'static, str>>) -> Self {
        self.0.message = message.into();
        self
    }

    /// The same error with other words in front: `context: message`.
    #[must_use]
    pub fn in_context(mut self, context: impl fmt::Display) -> Self {
        self.0.message = Cow::Owned(format!("{context}: {}", self.0.message));
        self
    }

    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// SQLSTATE or one of our own codes (class `FE`). docs/errors.md lists them.
    pub fn code(&self) -> &str {
        &self.0.code
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    pub fn place(&self) -> Option<TextPosition> {
        self.0.place
    }

    pub fn subject(&self) -> Option<&str> {
        self.0.subject.as_deref()
    }

    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    // The common ones, so that code and wording agree everywhere.

    #[cold]
    pub fn syntax(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Compile, "42601", message)
    }

    #[cold]
    pub fn not_supported(what: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Compile, "0A000", format!("{what} is not supported"))
    }

    /// Nothing by that name. Tables, columns and routines have functions of their own below.
    #[cold]
    pub fn not_found(name: impl fmt::Display) -> Self {
        let name = name.to_string();
        Self::new(ErrorKind::Compile, "42704", format!("object not found: {name}")).about(name)
    }

    /// No table, view or stream by that name.
    #[cold]
    pub fn unknown_table(name: impl fmt::Display) -> Self {
        Self::not_found(name).with_code("42P01")
    }

    /// No column, variable or alias by that name.
    #[cold]
    pub fn unknown_column(name: impl fmt::Display) -> Self {
        Self::not_found(name).with_code("42703")
    }

    /// No procedure or function by that name.
    #[cold]
    pub fn unknown_routine(name: impl fmt::Display) -> Self {
        Self::not_found(name).with_code("42883")
    }

    /// The same error of a schema change.
    #[must_use]
    pub fn in_ddl(self) -> Self {
        self.with_kind(ErrorKind::Ddl)
    }

    #[cold]
    pub fn compile(code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Compile, code, message)
    }

    #[cold]
    pub fn ddl(code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Ddl, code, message)
    }

    /// Nothing by that name, for a schema change.
    #[cold]
    pub fn ddl_not_found(name: impl fmt::Display) -> Self {
        Self::not_found(name).in_ddl()
    }

    #[cold]
    pub fn data(code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Sql, code, message)
    }

    #[cold]
    pub fn out_of_range(message: impl Into<Cow<'static, str>>) -> Self {
        Self::data("22003", message)
    }

    #[cold]
    pub fn division_by_zero() -> Self {
        Self::data("22012", "division by zero")
    }

    /// With what was to be divided.
    #[cold]
    pub fn division_of(dividend: impl std::fmt::Display) -> Self {
        Self::division_by_zero().with_detail(format!("{dividend} is divided by 0"))
    }

    #[cold]
    pub fn constraint(code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::ConstraintViolation, code, message)
    }

    #[cold]
    pub fn parameters(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Parameters, "22023", message)
    }

    #[cold]
    pub fn limit(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Limit, "54000", message)
    }

    #[cold]
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Internal, "XX000", message)
    }
}

/// Whether a text has the form of a SQLSTATE.
pub fn is_code(text: &str) -> bool {
    text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
}

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if let Some(detail) = &self.0.detail {
            write!(f, "\n{detail}")?;
        }
        if let Some(TextPosition { line, column }) = self.0.place {
            write!(f, "\nat line {line}, column {column}")?;
        }
        if let Some(hint) = &self.0.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}: {self}", self.0.kind, self.0.code)
    }
}

impl std::error::Error for UserError {}
