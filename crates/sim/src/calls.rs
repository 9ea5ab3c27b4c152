//! What clients ask for, as calls: the procedure, and the bytes of its parameters.

use crate::operation::{Action, body_text, name_text};
use ferrite_value::Value;
use ferrite_wire::RequestWriter;
use ferrite_wire::parameters::write_value;

/// In front of a call.
const FRAME_LENGTH_BYTES: usize = 4;

/// The same as a client sends it, of a call of several groups.
pub fn over_body(action: &Action, number: usize) -> Vec<u8> {
    let mut request = Vec::new();
    let (procedure, values): (_, Vec<i64>) = match action {
        Action::Transfer { from, to, amount } => ("Move", vec![*from, *to, number as i64, *amount]),
        Action::Both { homes } => ("Both", homes.to_vec()),
        other => unreachable!("{other:?} is no call of several groups"),
    };
    let mut call = RequestWriter::begin(&mut request, procedure, number as i64);
    for value in &values {
        call.parameter(value);
    }
    call.finish().expect("a small call");
    request.split_off(FRAME_LENGTH_BYTES)
}

/// The procedure that does it, and its parameters as clients send them. `lists`: those that are
/// lists of statements, which several groups can run together.
pub fn call_of(action: &Action, number: usize, lists: bool) -> (&'static str, Vec<u8>) {
    let operation = Value::Integer(number as i64);
    let integer = |value: i64| Value::Integer(value);
    let (name_given, body_given);
    let (procedure, values) = match *action {
        Action::Put { home, item, value, name, body } => {
            name_given = name.map(name_text);
            body_given = body_text(number, body);
            let name = name_given.as_deref().map_or(Value::Null, Value::Text);
            let value = value.map_or(Value::Null, Value::Integer);
            ("Put", vec![integer(home), operation, integer(item), value, name, Value::Text(&body_given)])
        }
        Action::Remove { home, item } => ("Remove", vec![integer(home), operation, integer(item)]),
        Action::Bump { home, delta } => ("Bump", vec![integer(home), operation, integer(delta)]),
        Action::Touch { home } => ("Touch", vec![integer(home), operation]),
        Action::Spoil { home, item, overdraw } => {
            ("Spoil", vec![integer(home), operation, integer(item), integer(overdraw.into())])
        }
        Action::Transfer { from, to, amount } if lists => {
            ("Move", vec![integer(from), integer(to), operation, integer(amount)])
        }
        Action::Both { homes: [one, other] } => ("Both", vec![integer(one), integer(other)]),
        Action::Transfer { from, to, amount } => {
            ("Transfer", vec![integer(from), integer(to), operation, integer(amount)])
        }
        Action::Clear { .. } => ("Clear", vec![operation]),
        Action::Rate { item, value } => ("Rate", vec![operation, integer(item), integer(value)]),
        Action::Look { home, item } => ("Look", vec![integer(home), integer(item)]),
        Action::Cut => ("Cut", Vec::new()),
        Action::Discard => ("Discard", Vec::new()),
        Action::Peek { .. } => ("Peek", Vec::new()),
        Action::Expire
        | Action::Schema { .. }
        | Action::Pause { .. }
        | Action::Load { .. }
        | Action::Restore { .. } => {
            unreachable!("sent in other ways")
        }
    };
    let mut parameters = (values.len() as i16).to_be_bytes().to_vec();
    for value in &values {
        write_value(&mut parameters, value).expect("parameters of these kinds can be written");
    }
    (procedure, parameters)
}
