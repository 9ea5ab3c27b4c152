//! Command lines to commands: the backslash commands and the words that users of `sqlcmd` type.
//!
//! Pure. Says what was meant, or what is wrong with it and what was probably meant; carries nothing
//! out.

use crate::bad_command::BadCommand;
use crate::copy::{self, CopyCommand};
use crate::lexer::folded;
use crate::suggest;

/// What a command line asks for.
#[derive(Clone, PartialEq, Debug)]
pub enum Command {
    /// `\d` alone: everything there is. With a name: that table, view or procedure.
    Describe(Option<String>),
    Tables,
    Views,
    Indexes(Option<String>),
    Procedures,
    Streams,
    /// What @SystemCatalog answers to this selector.
    Catalog(&'static str),
    /// None: the other way round.
    Timing(Option<bool>),
    Expanded(Option<Expanded>),
    Format(String),
    /// Seconds between two runs of the last statement.
    Watch(f64),
    Include(String),
    /// A whole file as one call.
    Batch(String),
    /// None: back to the terminal.
    Output(Option<String>),
    Copy(CopyCommand),
    ExplainProcedure(String),
    ExplainView(String),
    LoadClasses(String),
    RemoveClasses(String),
    History,
    Recall(usize),
    Echo(String),
    EchoError(String),
    Help(Option<String>),
    Quit,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expanded {
    Off,
    On,
    /// When the rows are wider than the terminal.
    Auto,
}

/// The backslash commands with their arguments and what they do: what `\?` prints and completion
/// offers.
pub const BACKSLASH: &[(&str, &str, &str)] = &[
    ("\\d", "[NAME]", "list everything, or describe a table, view or procedure"),
    ("\\dt", "", "list tables"),
    ("\\di", "[TABLE]", "list indexes"),
    ("\\dv", "", "list views"),
    ("\\df", "", "list procedures"),
    ("\\timing", "[on|off]", "show rows, time, and whether one partition sufficed"),
    ("\\x", "[on|off|auto]", "one line per value instead of one per row"),
    ("\\format", "aligned|csv|json|markdown", "how results are written"),
    ("\\watch", "[SECONDS]", "run the last statement again and again, until Ctrl-C"),
    ("\\i", "FILE", "run the statements in a file"),
    ("\\o", "[FILE]", "write results to a file; alone: to the terminal again"),
    ("\\copy", "TABLE from 'FILE' [with ...]", "load a file; `\\copy TABLE|(QUERY) to 'FILE'` writes one"),
    ("\\s", "", "list the statements typed so far"),
    ("\\q", "", "leave"),
    ("\\?", "", "this list"),
];

/// The words, likewise.
pub const WORDS: &[(&str, &str, &str)] = &[
    ("exec", "PROCEDURE ARGUMENTS...", "call a procedure: numbers, 'text', NULL, x'CAFE', TIMESTAMP '...'"),
    ("explain", "STATEMENT", "show how a statement would run"),
    ("explainproc", "PROCEDURE", "show how a procedure's statements run"),
    ("explainview", "VIEW", "show how a view is kept up"),
    ("explainjson", "STATEMENT", "the same as JSON"),
    ("querystats", "SELECT", "query the server's figures: SELECT ... FROM statistics(PROCEDURE, 0)"),
    ("show", "tables|procedures|classes|...", "list them; also views, streams, indexes, functions, roles, tasks"),
    ("describe", "NAME", "the same as \\d NAME"),
    ("file", "[-batch] FILE", "run a file; -batch: as one call"),
    ("file -inlinebatch", "MARK", "run the lines up to MARK as one call"),
    ("load classes", "JAR", "load Java classes into the server"),
    ("remove classes", "PATTERN", "remove Java classes from the server"),
    ("recall", "NUMBER", "bring a statement of the history back"),
    ("history", "", "the same as \\s"),
    ("echo", "TEXT", "print a line; echoerror: to standard error"),
    ("help", "", "this list"),
    ("exit", "", "leave; also quit, bye"),
];

/// What `show` lists.
pub const SHOWN: [&str; 9] =
    ["tables", "views", "streams", "procedures", "indexes", "classes", "functions", "roles", "tasks"];

/// Parses a line that [`crate::script`] took for a command.
pub fn parse(line: &str) -> Result<Command, BadCommand> {
    let line = line.trim();
    if let Some(rest) = line.strip_prefix('\\') {
        return backslash(rest);
    }
    let (word, rest) = split_word(line);
    let argument = rest.trim_end_matches(';').trim();
    let required = |what: &str| {
        if argument.is_empty() { Err(BadCommand::new(format!("{word} needs {what}"))) } else { Ok(unquoted(argument)) }
    };
    Ok(match word.trim_end_matches(';').to_ascii_lowercase().as_str() {
        "show" | "list" => return show(argument),
        "describe" | "desc" => Command::Describe(Some(folded(&required("the name of a table or procedure")?))),
        "explainproc" => Command::ExplainProcedure(required("the name of a procedure")?),
        "explainview" => Command::ExplainView(required("the name of a view")?),
        "file" => {
            let (option, path) = split_word(argument);
            match option {
                "" => return Err(BadCommand::new("file needs a path")),
                "-batch" if path.is_empty() => return Err(BadCommand::new("file -batch needs a path")),
                "-batch" => Command::Batch(unquoted(path)),
                "-inlinebatch" => {
                    return Err(BadCommand::new("file -inlinebatch needs a mark, which ends the batch")
                        .with_hint("file -inlinebatch END_OF_BATCH, then the statements, then a line END_OF_BATCH"));
                }
                _ => Command::Include(unquoted(argument)),
            }
        }
        "load" => Command::LoadClasses(classes_argument(argument, "the path of a jar file")?),
        "remove" => Command::RemoveClasses(classes_argument(argument, "a pattern of class names")?),
        "recall" => Command::Recall(
            argument
                .parse()
                .map_err(|_| BadCommand::new("recall needs the number of a statement").with_hint("\\s lists them"))?,
        ),
        "history" => Command::History,
        // Spaces in front are part of what is printed, one behind the word excepted.
        "echo" => Command::Echo(rest.to_owned()),
        "echoerror" => Command::EchoError(rest.to_owned()),
        "help" | "?" => Command::Help((!argument.is_empty()).then(|| argument.to_owned())),
        "exit" | "quit" | "bye" => Command::Quit,
        other => return Err(BadCommand::new(format!("unknown command: {other}"))),
    })
}

fn backslash(rest: &str) -> Result<Command, BadCommand> {
    let (name, rest) = split_word(rest);
    let argument = rest.trim_end_matches(';').trim();
    let optional = || (!argument.is_empty()).then(|| unquoted(argument));
    Ok(match name.trim_end_matches(';') {
        "d" => Command::Describe(optional().map(|_| folded(argument))),
        "dt" => Command::Tables,
        "di" => Command::Indexes(optional().map(|_| folded(argument))),
        "dv" => Command::Views,
        "df" => Command::Procedures,
        "timing" => Command::Timing(on_or_off("\\timing", argument)?),
        "x" => Command::Expanded(match argument {
            "auto" => Some(Expanded::Auto),
            other => on_or_off("\\x", other)?.map(|on| if on { Expanded::On } else { Expanded::Off }),
        }),
        "format" => Command::Format(
            optional().ok_or_else(|| BadCommand::new("\\format needs one of aligned, csv, json, markdown"))?,
        ),
        "watch" => Command::Watch(match argument {
            "" => 2.0,
            number => number.parse().ok().filter(|seconds| (0.05..=86_400.0).contains(seconds)).ok_or_else(|| {
                BadCommand::new(format!("\\watch needs seconds between 0.05 and 86400, not {number}"))
            })?,
        }),
        "i" => Command::Include(optional().ok_or_else(|| BadCommand::new("\\i needs the path of a file"))?),
        "o" => Command::Output(optional()),
        "copy" => Command::Copy(copy::parse(rest)?),
        "s" => Command::History,
        "q" => Command::Quit,
        "?" | "h" => Command::Help(optional()),
        other => {
            let known = BACKSLASH.iter().map(|(name, _, _)| &name[1..]);
            let bad = BadCommand::new(format!("unknown command: \\{other}"));
            return Err(match suggest::nearest(other, known) {
                Some(near) => bad.with_hint(format!("did you mean \\{near}?")),
                None => bad.with_hint("\\? lists the commands"),
            });
        }
    })
}

fn show(argument: &str) -> Result<Command, BadCommand> {
    Ok(match argument.to_ascii_lowercase().as_str() {
        "tables" => Command::Tables,
        "views" => Command::Views,
        "procedures" | "procs" => Command::Procedures,
        "indexes" => Command::Indexes(None),
        "streams" => Command::Streams,
        "classes" => Command::Catalog("CLASSES"),
        "functions" => Command::Catalog("FUNCTIONS"),
        "roles" => Command::Catalog("ROLES"),
        "tasks" => Command::Catalog("TASKS"),
        "topics" => Command::Catalog("TOPICS"),
        "users" => Command::Catalog("USERS"),
        other => {
            let bad = BadCommand::new(match other {
                "" => "show needs to know what".to_owned(),
                other => format!("nothing called {other} can be shown"),
            });
            return Err(match suggest::nearest(other, SHOWN.into_iter()) {
                Some(near) => bad.with_hint(format!("did you mean show {near}?")),
                None => bad.with_hint(format!("show one of {}", SHOWN.join(", "))),
            });
        }
    })
}

fn classes_argument(argument: &str, what: &str) -> Result<String, BadCommand> {
    let (_, rest) = split_word(argument);
    if rest.is_empty() { Err(BadCommand::new(format!("this command needs {what}"))) } else { Ok(unquoted(rest)) }
}

fn on_or_off(command: &str, argument: &str) -> Result<Option<bool>, BadCommand> {
    match argument.to_ascii_lowercase().as_str() {
        "" => Ok(None),
        "on" | "true" | "1" => Ok(Some(true)),
        "off" | "false" | "0" => Ok(Some(false)),
        other => Err(BadCommand::new(format!("{command} takes on or off, not {other}"))),
    }
}

/// The first word and what follows the blank behind it.
fn split_word(text: &str) -> (&str, &str) {
    match text.find(char::is_whitespace) {
        Some(end) => {
            let blank = text[end..].chars().next().map_or(0, char::len_utf8);
            (&text[..end], &text[end + blank..])
        }
        None => (text, ""),
    }
}

/// A path or name, its quotes taken off.
fn unquoted(text: &str) -> String {
    let text = text.trim();
    for quote in ['\'', '"'] {
        if text.len() >= 2 && text.starts_with(quote) && text.ends_with(quote) {
            let doubled: String = [quote, quote].iter().collect();
            return text[1..text.len() - 1].replace(&doubled, quote.encode_utf8(&mut [0; 4]));
        }
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_mean_what_their_users_expect() {
        let cases = [
            ("\\d", Command::Describe(None)),
            ("\\d votes", Command::Describe(Some("VOTES".into()))),
            ("\\d \"Mixed\";", Command::Describe(Some("Mixed".into()))),
            ("describe votes;", Command::Describe(Some("VOTES".into()))),
            ("SHOW TABLES;", Command::Tables),
            ("show procedures", Command::Procedures),
            ("list functions;", Command::Catalog("FUNCTIONS")),
            ("\\timing", Command::Timing(None)),
            ("\\timing off", Command::Timing(Some(false))),
            ("\\x auto", Command::Expanded(Some(Expanded::Auto))),
            ("\\watch 0.5", Command::Watch(0.5)),
            ("\\i 'a file.sql'", Command::Include("a file.sql".into())),
            ("file x.sql", Command::Include("x.sql".into())),
            ("file -batch x.sql", Command::Batch("x.sql".into())),
            ("load classes a.jar", Command::LoadClasses("a.jar".into())),
            ("remove classes a.**;", Command::RemoveClasses("a.**".into())),
            ("echo  two  blanks;", Command::Echo(" two  blanks;".into())),
            ("recall 3", Command::Recall(3)),
            ("exit", Command::Quit),
            ("quit;", Command::Quit),
            ("\\q", Command::Quit),
        ];
        for (line, expected) in cases {
            assert_eq!(parse(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn wrong_lines_say_what_was_meant() {
        for (line, message, hint) in [
            ("\\timin", "unknown command: \\timin", Some("did you mean \\timing?")),
            ("\\zzzzzz", "unknown command: \\zzzzzz", Some("\\? lists the commands")),
            ("show tabels", "nothing called tabels can be shown", Some("did you mean show tables?")),
            ("\\watch never", "\\watch needs seconds between 0.05 and 86400, not never", None),
            ("describe", "describe needs the name of a table or procedure", None),
        ] {
            let bad = parse(line).unwrap_err();
            assert_eq!((bad.message.as_str(), bad.hint.as_deref()), (message, hint));
        }
    }
}
