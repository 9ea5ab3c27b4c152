//! The JSON functions beside another reader of JSON: what is valid, what a path leads to, and that
//! SET_FIELD changes one place.

use crate::common::*;
use bumpalo::Bump;
use ferrite_base::UserResult;
use ferrite_expr::{Expr, Function};
use ferrite_value::{OwnedValue, SqlType};
use proptest::prelude::*;
use serde_json::Value as Json;

fn call(name: &str, arguments: &[Expr]) -> UserResult<OwnedValue> {
    let types: Vec<Option<SqlType>> = arguments
        .iter()
        .map(|argument| match argument {
            Expr::Constant(OwnedValue::Integer(_)) => Some(SqlType::Bigint),
            _ => Some(SqlType::Varchar),
        })
        .collect();
    let resolved = Function::resolve(name, &types).expect("the function takes these arguments");
    let call = Expr::Call { function: resolved.function, arguments: arguments.into() };
    let arena = Bump::new();
    let context = Fixed { arena: &arena, columns: Vec::new(), parameters: Vec::new() };
    call.eval(&context).map(|value| value.to_owned_value())
}

fn documents() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        any::<i64>().prop_map(|number| Json::Number(number.into())),
        "\\PC{0,6}".prop_map(Json::String),
        Just(Json::String("quote \" slash / back \\ tab \t".to_owned())),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::Array),
            prop::collection::hash_map("[a-c.\\[\"\\\\é]{0,2}", inner, 0..4)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

/// What FIELD answers for a value.
fn answer(json: &Json) -> OwnedValue {
    match json {
        Json::Null => OwnedValue::Null,
        Json::String(text) => OwnedValue::Text(text.as_str().into()),
        other => OwnedValue::Text(other.to_string().into()),
    }
}

fn paths(json: &Json, path: &str, found: &mut Vec<(String, Json)>) {
    if !path.is_empty() {
        found.push((path.to_owned(), json.clone()));
    }
    match json {
        Json::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                paths(element, &format!("{path}[{index}]"), found);
            }
        }
        Json::Object(members) => {
            for (name, member) in members {
                let escaped = name.replace('\\', "\\\\").replace('.', "\\.").replace('[', "\\[");
                // A lone empty name and a path in front of it look alike.
                if path.is_empty() && escaped.is_empty() {
                    continue;
                }
                let point = if path.is_empty() { "" } else { "." };
                paths(member, &format!("{path}{point}{escaped}"), found);
            }
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn field_finds_what_is_there(json in documents(), pretty in any::<bool>()) {
        let written = if pretty { serde_json::to_string_pretty(&json) } else { serde_json::to_string(&json) };
        let written = written.expect("a value has a text");
        let mut found = Vec::new();
        paths(&json, "", &mut found);
        for (path, wanted) in found {
            prop_assert_eq!(call("FIELD", &[text(&written), text(&path)]).expect("a value"), answer(&wanted), "{} in {}", path, written);
        }
        if let Json::Array(elements) = &json {
            prop_assert_eq!(call("ARRAY_LENGTH", &[text(&written)]).expect("a value"), OwnedValue::Integer(elements.len() as i64));
        }
    }

    #[test]
    fn set_field_changes_one_place(json in documents(), new in documents(), choice in any::<prop::sample::Index>()) {
        let written = json.to_string();
        let mut found = Vec::new();
        paths(&json, "", &mut found);
        if found.is_empty() {
            return Ok(());
        }
        let (path, _) = &found[choice.index(found.len())];
        let OwnedValue::Text(changed) = call("SET_FIELD", &[text(&written), text(path), text(&new.to_string())]).expect("a value") else {
            panic!("SET_FIELD gives text");
        };
        prop_assert_eq!(call("FIELD", &[text(&changed), text(path)]).expect("a value"), answer(&new));
        let set_back = call("SET_FIELD", &[text(&changed), text(path), text(&found.iter().find(|(other, _)| other == path).expect("there").1.to_string())]);
        prop_assert_eq!(set_back.expect("a value"), OwnedValue::Text(written.into()));
    }

    /// The same texts are JSON here and there. (The other reader refuses numbers that no double
    /// holds, and halves of surrogate pairs.)
    #[test]
    fn the_same_texts_are_json(damaged in "[{}\\[\\]\",:019.eE+\\- tfn\\\\u]{0,10}", json in documents(), at in any::<prop::sample::Index>()) {
        let mut mixed = json.to_string();
        let boundaries: Vec<usize> = mixed.char_indices().map(|(at, _)| at).chain([mixed.len()]).collect();
        mixed.insert_str(boundaries[at.index(boundaries.len())], &damaged);
        for candidate in [damaged, mixed] {
            match serde_json::from_str::<Json>(&candidate) {
                Ok(_) => prop_assert!(call("FIELD", &[text(&candidate), text("a")]).is_ok(), "{}", candidate),
                Err(error) if error.to_string().contains("number out of range") || error.to_string().contains("surrogate") => {}
                Err(_) => prop_assert!(call("FIELD", &[text(&candidate), text("a")]).is_err(), "{}", candidate),
            }
        }
    }
}
