//! Rows as comma-separated text: every value but NULL in quotes, quotes doubled; NULL as nothing.
//! `ferrite load` and csvloader read it.

use ferrite_value::{Value, convert::to_text_string};

/// Appends a row with its line end.
pub fn write_row(out: &mut Vec<u8>, values: &[Value<'_>]) {
    for (number, value) in values.iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        if matches!(value, Value::Null) {
            continue;
        }
        out.push(b'"');
        for byte in to_text_string(value).bytes() {
            if byte == b'"' {
                out.push(b'"');
            }
            out.push(byte);
        }
        out.push(b'"');
    }
    out.push(b'\n');
}
