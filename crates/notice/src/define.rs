//! The macro that makes the enum: a variant, its code, its level, its fields and its text stand
//! together.

/// `Variant "code" Level { field: Type } "text with {field} and {more}", more = expression;`
///
/// The text is a format string; fields are references in the expressions. `pub const` items and
/// methods made of it are documented where they are used most: [`crate::Notice`].
macro_rules! notices {
    ($(
        $variant:ident $code:literal $level:ident $({ $($field:ident: $type:ty),* $(,)? })?
            $text:literal $(, $name:ident = $value:expr)*;
    )*) => {
        /// What an operator hears of. The text is its `Display`.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum Notice {
            $($variant $({ $($field: $type),* })?,)*
        }

        impl Notice {
            /// Every code with its level.
            pub const CODES: &'static [(&'static str, Level)] = &[$(($code, Level::$level)),*];

            /// Kebab case; never given to another notice.
            pub fn code(&self) -> &'static str {
                match self {
                    $(Notice::$variant { .. } => $code,)*
                }
            }

            pub fn level(&self) -> Level {
                match self {
                    $(Notice::$variant { .. } => Level::$level,)*
                }
            }

            /// The fields by name; durations are in seconds.
            pub fn fields(&self) -> Map<String, Value> {
                let mut fields = Map::new();
                match self {
                    $(Notice::$variant $({ $($field),* })? => {
                        $($(fields.insert(stringify!($field).to_owned(), $field.json());)*)?
                    })*
                }
                fields
            }

            /// One of each, with field contents that try to look like other lines.
            #[cfg(test)]
            pub(crate) fn samples() -> Vec<Notice> {
                use crate::sample::SampleField;
                vec![$(Notice::$variant $({ $($field: <$type>::sample()),* })?,)*]
            }
        }

        impl fmt::Display for Notice {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Notice::$variant $({ $($field),* })? => {
                        $($(let _ = $field;)*)?
                        write!(f, $text $(, $name = $value)*)
                    })*
                }
            }
        }
    };
}

pub(crate) use notices;
