//! Names that nothing has: where they stand in the text, and which name was probably meant.

use super::Binder;
use crate::errors;
use ferrite_base::{UserError, UserResult};
use ferrite_catalog::Table;
use sqlparser::ast;
use sqlparser::tokenizer::{Location, Span};
use std::sync::Arc;

/// Longest name for which a likeness is looked for, in characters.
const NAME_CHARACTERS_MAX: usize = 64;

/// What is suggested for an unknown function: the functions that the binder and the expressions know.
#[rustfmt::skip]
const FUNCTIONS: &[&str] = &[
    "ABS", "ACOS", "APPROX_COUNT_DISTINCT", "AREA", "ARRAY_ELEMENT", "ARRAY_LENGTH", "ASCII", "ASIN", "ASTEXT",
    "ATAN", "ATAN2", "AVG", "BIN", "BITAND", "BITNOT", "BITOR", "BITXOR", "BIT_SHIFT_LEFT", "BIT_SHIFT_RIGHT",
    "BTRIM", "CBRT", "CEIL", "CEILING", "CENTROID", "CHAR", "CHARACTER_LENGTH", "CHAR_LENGTH", "CHR", "COALESCE",
    "CONCAT", "CONTAINS", "COS", "COT", "COUNT", "CSC", "CURRENT_DATE", "CURRENT_TIMESTAMP", "DATEADD", "DATEDIFF",
    "DATE_TRUNC", "DAY", "DAYOFMONTH", "DAYOFWEEK", "DAYOFYEAR", "DECODE", "DEGREES", "DISTANCE", "DWITHIN", "EXP",
    "EXTRACT", "FIELD", "FLOOR", "FORMAT_CURRENCY", "FORMAT_TIMESTAMP", "FROM_UNIXTIME", "GREATEST", "HEX", "HOUR",
    "IFNULL", "INET6_ATON", "INET6_NTOA", "INET_ATON", "INET_NTOA", "INITCAP", "ISINVALIDREASON", "ISVALID", "LCASE",
    "IS_VALID_TIMESTAMP", "LATITUDE", "LEAST", "LEFT", "LENGTH", "LISTAGG", "LN", "LOG", "LOG10", "LONGITUDE", "LOWER",
    "LPAD", "LTRIM", "MAKEVALIDPOLYGON", "MAX", "MAX_VALID_TIMESTAMP", "MIN", "MINUTE", "MIN_VALID_TIMESTAMP",
    "MOD", "MONTH", "NOW", "NULLIF", "NUMINTERIORRING", "NUMINTERIORRINGS", "NUMPOINTS", "NVL", "OCTET_LENGTH",
    "OVERLAY", "PERCENTILE_CONT", "PERCENTILE_DISC", "PI", "POINTFROMTEXT", "POLYGONFROMTEXT", "POSITION", "POW", "POWER", "QUARTER", "RADIANS",
    "REGEXP_LIKE", "REGEXP_POSITION", "REGEXP_REPLACE", "REPEAT", "REPLACE", "REVERSE", "RIGHT", "ROUND", "RPAD", "RTRIM", "SEC",
    "SECOND", "SET_FIELD", "SIGN", "SIN", "SINCE_EPOCH", "SPACE", "SPLIT_PART", "SQL_ERROR", "SQRT", "STARTS_WITH",
    "STR", "STRING_AGG", "SUBSTR", "SUBSTRING", "SUM", "TAN", "TIME_WINDOW", "TO_CHAR", "TO_TIMESTAMP", "TRIM", "TRUNC", "TRUNCATE",
    "UCASE", "UPPER", "VALIDPOLYGONFROMTEXT", "WEEK", "WEEKDAY", "WEEKOFYEAR", "YEAR",
];

/// Whether SQL has a function of this name.
pub(crate) fn is_function(name: &str) -> bool {
    FUNCTIONS.contains(&name)
}

/// Where an object's name stands.
pub(crate) fn place(name: &ast::ObjectName) -> Option<Location> {
    match name.0.first() {
        Some(ast::ObjectNamePart::Identifier(ident)) => Some(ident.span.start),
        _ => None,
    }
}

/// The error with its place in the text, unless it has a detail already.
pub(crate) fn at(error: UserError, span: Span) -> UserError {
    located(error, Some(span.start))
}

/// The error with the place of the name that it is about.
pub(crate) fn placed(error: UserError, name: &ast::ObjectName) -> UserError {
    let last = match name.0.last() {
        Some(ast::ObjectNamePart::Identifier(ident)) => Some(ident.span.start),
        _ => None,
    };
    located(error, last)
}

fn located(error: UserError, place: Option<Location>) -> UserError {
    match place {
        Some(place) => errors::at(error, place),
        None => error,
    }
}

impl Binder<'_> {
    /// The table with this name, which stands at `place`.
    pub fn table_at(&self, name: &str, place: Option<Location>) -> UserResult<Arc<Table>> {
        if let Some(table) = self.catalog.table_named(name) {
            return Ok(table.clone());
        }
        let error = located(UserError::not_found(name), place);
        let tables = self.catalog.tables.keys().chain(self.catalog.plain_views.keys()).map(String::as_str);
        let common = self.common_names.iter().map(super::common::CommonName::name);
        Err(meant(error, nearest(name, tables.chain(common))))
    }

    /// No column, variable or alias has the name.
    pub fn unknown_column(&self, qualifier: Option<&str>, name: &str) -> UserError {
        let shown = qualifier.map_or_else(|| name.to_owned(), |qualifier| format!("{qualifier}.{name}"));
        let error = UserError::not_found(shown);
        let sources = || self.scopes.iter().rev().flat_map(|scope| &scope.sources);
        if let Some(qualifier) = qualifier
            && !sources().any(|source| source.name == qualifier)
        {
            let tables = sources().map(|source| source.name.as_str());
            return match nearest(qualifier, tables) {
                Some(table) => error.with_hint(format!("did you mean {table}.{name}?")),
                None => error.with_hint(format!("{qualifier} is not a table or alias of this FROM")),
            };
        }
        let columns = sources()
            .filter(|source| qualifier.is_none_or(|qualifier| source.name == qualifier))
            .flat_map(|source| source.columns.iter().map(|column| column.name.as_str()));
        let aliases = self.scopes.iter().flat_map(|scope| scope.aliases.iter().map(|(name, _)| name.as_str()));
        let variables = self.variables.iter().map(|variable| variable.name.as_str());
        let others = aliases.chain(variables).filter(|_| qualifier.is_none());
        meant(error, nearest(name, columns.chain(others)))
    }
}

/// A statement that changes the table names a column that it does not have.
pub(crate) fn unknown_column_of(table: &Table, name: &str) -> UserError {
    let error = UserError::not_found(name);
    meant(error, nearest(name, table.columns.iter().map(|column| column.name.as_str())))
}

/// The error about a function, with the name that was probably meant when there is none like it.
pub(crate) fn function(error: UserError, name: &str) -> UserError {
    if name == "ARRAY_AGG" {
        return error
            .with_hint("there are no arrays in results; STRING_AGG(x, ',' ORDER BY y) makes a text of the values");
    }
    let unknown =
        error.hint().is_none() && error.message() == UserError::not_supported(format!("the function {name}")).message();
    if unknown { meant(error, nearest(name, FUNCTIONS.iter().copied())) } else { error }
}

fn meant(error: UserError, name: Option<&str>) -> UserError {
    match name {
        Some(name) => error.with_hint(format!("did you mean {name}?")),
        None => error,
    }
}

/// The candidate that is a slip of the pen away from `name`; the first of several.
pub(crate) fn nearest<'c>(name: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let length = name.chars().count();
    if length > NAME_CHARACTERS_MAX {
        return None;
    }
    // A third of the letters may be wrong, and one of two or three.
    let tolerance = (length / 3).max(1);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let distance = distance(name, candidate);
        let short = length <= 1 && distance > 0;
        if distance <= tolerance && !short && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Letters put in, left out, replaced or swapped with their neighbour, whatever their case.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.to_uppercase().chars().collect();
    let right: Vec<char> = right.to_uppercase().chars().collect();
    if right.len() > NAME_CHARACTERS_MAX {
        return usize::MAX;
    }
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for row in 1..=left.len() {
        let mut current = vec![row];
        for column in 1..=right.len() {
            let replaced = last[column - 1] + usize::from(left[row - 1] != right[column - 1]);
            let mut least = replaced.min(last[column] + 1).min(current[column - 1] + 1);
            let swapped =
                row > 1 && column > 1 && left[row - 1] == right[column - 2] && left[row - 2] == right[column - 1];
            if swapped {
                least = least.min(before_last[column - 2] + 1);
            }
            current.push(least);
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last[right.len()]
}

#[cfg(test)]
mod tests {
    use super::{FUNCTIONS, distance, nearest};
    use ferrite_expr::Function;

    #[test]
    fn suggested_functions_exist() {
        // These are the binder's own.
        let own = [
            "APPROX_COUNT_DISTINCT",
            "AVG",
            "COALESCE",
            "COUNT",
            "DECODE",
            "IFNULL",
            "MAX",
            "MIN",
            "NULLIF",
            "NVL",
            "SUM",
            "LISTAGG",
            "PERCENTILE_CONT",
            "PERCENTILE_DISC",
            "STRING_AGG",
        ];
        for name in FUNCTIONS.iter().filter(|name| !own.contains(name) && !Function::takes_unit(name)) {
            let error = Function::resolve(name, &[]).err();
            assert!(
                error.is_none_or(|error| error.message() != format!("the function {name} is not supported")),
                "{name}"
            );
        }
        assert_eq!(nearest("SUBSTRNG", FUNCTIONS.iter().copied()), Some("SUBSTRING"));
    }

    #[test]
    fn slips_of_the_pen_are_near() {
        assert_eq!(distance("NAME", "NAME"), 0);
        assert_eq!(distance("NAEM", "NAME"), 1);
        assert_eq!(distance("CONTESTNT", "CONTESTANT"), 1);
        assert_eq!(distance("", "ABC"), 3);
        assert_eq!(nearest("CUSTOMRE", ["ORDERS", "CUSTOMER"].into_iter()), Some("CUSTOMER"));
        assert_eq!(nearest("PRICE", ["ID", "NAME"].into_iter()), None);
        assert_eq!(nearest("X", ["Y"].into_iter()), None);
    }
}
