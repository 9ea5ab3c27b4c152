//! Names that nothing has: the error, with the name that was probably meant.

use super::Binder;
use super::place::located;
use crate::spelling::nearest;
use ferrite_base::{UserError, UserResult};
use ferrite_catalog::Table;
use sqlparser::tokenizer::Location;
use std::sync::Arc;

/// What is suggested for an unknown function: the functions that the binder and the expressions
/// know.
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

impl Binder<'_> {
    /// The table with this name, which stands at `place`.
    pub fn table_at(&self, name: &str, place: Option<Location>) -> UserResult<Arc<Table>> {
        if let Some(table) = self.catalog.table_named(name) {
            return Ok(table.clone());
        }
        let error = located(UserError::unknown_table(name), place);
        let tables = self.catalog.tables.keys().chain(self.catalog.plain_views.keys()).map(String::as_str);
        let common = self.common_names.iter().map(super::common::CommonName::name);
        Err(meant(error, nearest(name, tables.chain(common))))
    }

    /// No column, variable or alias has the name.
    pub fn unknown_column(&self, qualifier: Option<&str>, name: &str) -> UserError {
        let shown = qualifier.map_or_else(|| name.to_owned(), |qualifier| format!("{qualifier}.{name}"));
        let error = UserError::unknown_column(shown);
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
    let error = UserError::unknown_column(name);
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

#[cfg(test)]
mod tests {
    use super::FUNCTIONS;
    use crate::spelling::nearest;
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
}
