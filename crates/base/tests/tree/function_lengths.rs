//! A function has at most 70 lines. Those of the list are longer; the list only shrinks.

use crate::production;
use std::collections::BTreeMap;

const LINES_MAX: usize = 70;

/// The file, the function, and its lines.
const LONGER: &[(&str, &str, usize)] = &[
    ("crates/expr/src/evaluate.rs", "eval_rare", 94),
    ("crates/expr/src/function.rs", "call", 77),
    ("crates/expr/src/function/resolve.rs", "resolve", 131),
    ("crates/expr/src/function/text.rs", "call", 86),
    ("crates/meta/src/ask.rs", "encode", 74),
    ("crates/member/src/join.rs", "join", 94),
    ("crates/member/src/offline.rs", "leave_cluster", 74),
    ("crates/member/src/running.rs", "start_with", 121),
    ("crates/node/src/start.rs", "start", 127),
    ("crates/sql/src/bind/expression.rs", "expression_inner", 85),
    ("crates/sql/src/parameterize.rs", "parameterize", 74),
    ("crates/sql/src/parse/tokens.rs", "for_sqlparser", 117),
    ("crates/system/src/statistics.rs", "statistics", 97),
    ("crates/system/src/system_information.rs", "overview", 80),
    ("crates/value/src/cast.rs", "cast_between", 87),
    ("crates/value/src/convert.rs", "convert", 74),
];

/// Each function with its lines, by the indentation that rustfmt gives.
fn functions(code: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (first, line) in lines.iter().enumerate() {
        let Some(name) = name(line) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        if line.ends_with('}') {
            found.push((name, 1));
            continue;
        }
        // A declaration of a trait ends without a body.
        let has_body =
            lines[first..].iter().find(|line| line.ends_with(['{', ';'])).is_some_and(|line| line.ends_with('{'));
        let end = lines[first..].iter().position(|line| line.strip_prefix(indent) == Some("}"));
        if let (true, Some(length)) = (has_body, end) {
            found.push((name, length + 1));
        }
    }
    found
}

/// Of the function that begins in this line.
fn name(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let first = words.by_ref().find(|word| !word.starts_with("pub") && !["const", "async", "unsafe"].contains(word))?;
    let name = if first == "fn" { words.next()? } else { return None };
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    Some(&name[..end])
}

#[test]
fn functions_are_short_but_for_a_list_that_shrinks() {
    let listed: BTreeMap<(&str, &str), usize> =
        LONGER.iter().map(|(path, name, lines)| ((*path, *name), *lines)).collect();
    let mut longest: BTreeMap<(String, String), usize> = BTreeMap::new();
    for source in production::sources() {
        for (name, lines) in functions(&source.code) {
            let of_name = longest.entry((source.path.clone(), name.to_owned())).or_default();
            *of_name = lines.max(*of_name);
        }
    }
    assert!(longest.len() > 5_000, "only {} functions", longest.len());
    let mut wrong = Vec::new();
    for ((path, name), lines) in longest.iter().filter(|(_, lines)| **lines > LINES_MAX) {
        match listed.get(&(path.as_str(), name.as_str())) {
            Some(most) if lines <= most => {}
            Some(most) => wrong.push(format!("{path}: {name} has {lines} lines, it had {most}")),
            None => wrong.push(format!("{path}: {name} has {lines} lines: find its second purpose")),
        }
    }
    for ((path, name), _) in listed {
        let lines = longest.get(&(path.to_owned(), name.to_owned())).copied().unwrap_or(0);
        if lines <= LINES_MAX {
            wrong.push(format!("{path}: {name} has {lines} lines: take it out of the list"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn lines_of_a_function_are_counted() {
    let code = "impl A {\n    pub fn one(\n        a: u8,\n    ) -> u8 {\n        a\n    }\n    fn two(self) {}\n}\nfn three();\n";
    assert_eq!(functions(code), [("one", 5), ("two", 1)]);
}
