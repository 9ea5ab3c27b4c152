//! Each notice in both forms, against golden lines; what field contents cannot do; and the page
//! that explains the codes.

use crate::sample::HOSTILE;
use crate::{Level, LoggedNotice, Notice, message_of};
use ferrite_base::{Epoch, GroupId, NodeId, Position};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// 2026-11-29T13:00:00.123456Z
const TIME: i64 = 1_795_957_200_123_456;

fn path(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn logged(notice: Notice) -> LoggedNotice {
    LoggedNotice { micros: TIME, node: Some(2), notice }
}

/// The lines of every notice: their order is the enum's. `UPDATE_LINES=1` rewrites the file.
#[test]
fn the_lines_are_those_of_the_golden_file() {
    let mut lines = String::new();
    for notice in Notice::samples() {
        let logged = logged(notice);
        lines.push_str(&logged.text());
        lines.push_str(&logged.json());
    }
    let golden = path("tests/data/lines.golden");
    if std::env::var_os("UPDATE_LINES").is_some() {
        fs::write(&golden, &lines).expect("the file can be written");
    }
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    for (line, wanted) in lines.lines().zip(expected.lines()) {
        assert_eq!(line, wanted, "UPDATE_LINES=1 rewrites {}", golden.display());
    }
    assert_eq!(lines.lines().count(), expected.lines().count());
}

#[test]
fn a_line_is_what_the_manual_shows() {
    let leads = logged(Notice::Leads { group: GroupId(0), epoch: Epoch(5) });
    assert_eq!(leads.text(), "2026-11-29T13:00:00.123Z INFO  ferrite: this node leads group 0 from epoch 5 [leads]\n");
    assert_eq!(
        leads.json(),
        "{\"time\":\"2026-11-29T13:00:00.123Z\",\"level\":\"INFO\",\"code\":\"leads\",\"node\":2,\
         \"message\":\"this node leads group 0 from epoch 5\",\"fields\":{\"epoch\":5,\"group\":0}}\n"
    );
}

#[test]
fn no_field_can_forge_a_line_or_move_the_cursor() {
    for notice in Notice::samples() {
        let (code, has_trace) = (notice.code(), notice.trace().is_some());
        let logged = logged(notice);
        let text = logged.text();
        let mut lines = text.lines();
        let first = lines.next().expect("a line");
        assert!(first.starts_with("2026-11-29T13:00:00.123Z ") && first.ends_with(&format!(" [{code}]")), "{first}");
        assert!(has_trace || lines.clone().next().is_none(), "{text}");
        assert!(lines.all(|line| line.starts_with("    ")), "{text}");
        let shown = |character: char| character == '\n' || !character.is_control();
        assert!(text.chars().all(shown) && !text.contains(['\u{2028}', '\u{202e}']), "{text:?}");
        let json = logged.json();
        assert_eq!(json.matches('\n').count(), 1, "{json}");
        let object: serde_json::Value = serde_json::from_str(&json).expect("an object");
        assert_eq!(object["code"], code);
        assert_eq!(object["message"], logged.notice.to_string());
    }
}

#[test]
fn json_has_fields_as_they_are() {
    let note = logged(Notice::Note { text: HOSTILE.to_owned() });
    let object: serde_json::Value = serde_json::from_str(&note.json()).expect("an object");
    assert_eq!(object["fields"]["text"], HOSTILE);
    assert_eq!(object["node"], 2);
    let alone = LoggedNotice { node: None, ..note };
    assert!(alone.json().contains("\"node\":null"));
}

#[test]
fn codes_are_kebab_case_and_different() {
    let codes: BTreeMap<&str, Level> = Notice::CODES.iter().copied().collect();
    assert_eq!(codes.len(), Notice::CODES.len(), "a code stands for one notice");
    for code in codes.keys() {
        let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
        assert!(code.split('-').all(is_word), "{code}");
    }
}

/// Rows of docs/events.md: `| `code` | LEVEL | what it means | what to do |`.
#[test]
fn the_page_explains_each_code_and_no_other() {
    let page = fs::read_to_string(path("../../docs/events.md")).expect("the page is there");
    let mut explained = BTreeMap::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [code, level, meaning, action] = cells[..] else { panic!("four cells: {row}") };
        assert!(meaning.len() > 10 && action.len() > 5, "{row}");
        let before = explained.insert(code.trim_matches('`').to_owned(), level.to_owned());
        assert!(before.is_none(), "{code} is explained twice");
    }
    let known: BTreeMap<String, String> =
        Notice::CODES.iter().map(|(code, level)| ((*code).to_owned(), level.name().to_owned())).collect();
    assert_eq!(explained, known, "docs/events.md and the enum differ");
}

/// What docs/cluster.md quotes, with the values that stand there.
fn quoted_in_the_page() -> Vec<Notice> {
    let group = GroupId(0);
    let kept = |nodes: &[u32], epoch, stale| Notice::KeptBy {
        group,
        nodes: nodes.iter().copied().map(NodeId).collect(),
        leader: NodeId(1),
        epoch: Epoch(epoch),
        stale,
    };
    let hosts = |hosts: &[&str]| hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>();
    vec![
        Notice::WaitsForNodes { nodes: hosts(&["node 2 (db2:3021)", "node 3 (db3:3021)"]) },
        Notice::InCluster { node: NodeId(1), cluster: "0f4c...".to_owned(), nodes: 3 },
        Notice::FoundsFromDatabase { dir: PathBuf::from("/var/lib/ferrite") },
        kept(&[1], 3, false),
        kept(&[1, 2], 4, false),
        kept(&[1, 2], 4, true),
        Notice::ChoosesLeader { group, last: NodeId(1), stale: false },
        Notice::NoMajority { missing: "node 1 is not reached".to_owned() },
        Notice::Leads { group, epoch: Epoch(7) },
        Notice::CutOff { group, dispensable: false },
        Notice::CutOff { group, dispensable: true },
        Notice::WaitsForMajority { nodes: hosts(&["node 2 (db2:3021)"]) },
        Notice::HandedOver { group, node: NodeId(2) },
        Notice::AwaitsMembers {
            group,
            epoch: Epoch(7),
            away: hosts(&["node 1 (db1:3021)", "node 2 (db2:3021)"]),
            incomplete: Vec::new(),
            loss_offered: false,
            latest: None,
        },
        Notice::DecidesLeader { group, node: NodeId(2) },
        Notice::LossAccepted { group, node: NodeId(2), epoch: Epoch(7), stale: false },
        Notice::GroupUnequal { group: GroupId(1) },
        Notice::GroupEqual { group: GroupId(1) },
        Notice::PeerRefused { node: NodeId(3), ip: [10_u8, 0, 0, 3].into(), reason: String::new() },
        Notice::CopyDiffers { group, node: NodeId(2), entry: Position(81_234) },
    ]
}

/// `...` stands for any words.
fn is_quoted_by(quoted: &str, message: &str) -> bool {
    let mut parts = quoted.split("...");
    let Some(mut rest) = parts.next().and_then(|first| message.strip_prefix(first)) else { return false };
    let mut left = parts.peekable();
    while let Some(part) = left.next() {
        let found = if left.peek().is_none() && !part.is_empty() {
            rest.ends_with(part).then_some(rest.len() - part.len())
        } else {
            rest.find(part)
        };
        let Some(at) = found else { return false };
        rest = &rest[at + part.len()..];
    }
    quoted.ends_with("...") || rest.is_empty()
}

/// Rows of a table: `| `message` | `code` | meaning |`. Lines of output: `ferrite: message [code]`.
#[test]
fn what_the_page_about_clusters_quotes_is_what_a_node_reports() {
    let page = fs::read_to_string(path("../../docs/cluster.md")).expect("the page is there");
    let (_, table) = page.split_once("\n| message | code | meaning |\n").expect("the table is there");
    let rows = table.lines().take_while(|line| line.starts_with('|')).skip(1).map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(|cell| cell.trim().trim_matches('`')).collect();
        let [message, code, _] = cells[..] else { panic!("three cells: {row}") };
        (message, code)
    });
    let lines = page.lines().filter_map(|line| line.strip_prefix("    ferrite: ")).map(|line| {
        let (message, code) = line.rsplit_once(" [").expect("a code");
        (message, code.trim_end_matches(']'))
    });
    let one_line = page.replace('\n', " ");
    assert!(
        one_line.contains("the tables of node 2 differ from this leader's at entry 81234 of group 0"),
        "it is quoted"
    );
    let mut quoted: Vec<(&str, &str)> = rows.chain(lines).collect();
    quoted.push(("the tables of node 2 differ from this leader's at entry 81234 of group 0...", "copy-differs"));
    assert!(quoted.len() > 16, "{quoted:?}");
    let notices = quoted_in_the_page();
    let is_of = |(message, code): (&str, &str), notice: &Notice| {
        notice.code() == code && is_quoted_by(message, &notice.to_string())
    };
    for one in &quoted {
        assert!(notices.iter().any(|notice| is_of(*one, notice)), "docs/cluster.md: {one:?}");
    }
    for notice in &notices {
        assert!(quoted.iter().any(|one| is_of(*one, notice)), "not quoted: {notice} [{}]", notice.code());
    }
}

#[test]
fn a_quoted_message_is_compared_to_its_end() {
    assert!(is_quoted_by("a b", "a b") && is_quoted_by("a ...", "a b") && is_quoted_by("a (...) c", "a (b) c"));
    assert!(is_quoted_by("0f... of 3", "0f... of 3"));
    assert!(!is_quoted_by("a", "a b") && !is_quoted_by("b ...", "a b") && !is_quoted_by("a ... c", "a b c d"));
}

#[test]
fn texts_follow_their_numbers() {
    let kept = |nodes: &[u32], stale| Notice::KeptBy {
        group: GroupId(0),
        nodes: nodes.iter().copied().map(NodeId).collect(),
        leader: NodeId(1),
        epoch: Epoch(3),
        stale,
    };
    assert_eq!(kept(&[1], false).to_string(), "group 0 is kept by 1 node: node 1, led by node 1 (epoch 3)");
    assert_eq!(
        kept(&[1, 2, 3], true).to_string(),
        "as this node knew it last, group 0 is kept by 3 nodes: node 1, node 2 and node 3, led by node 1 (epoch 3)"
    );
    let waits =
        |nodes: &[&str]| Notice::WaitsForMajority { nodes: nodes.iter().map(|node| (*node).to_owned()).collect() };
    assert_eq!(waits(&[]).to_string(), "waiting for a majority of the cluster's voters");
    assert_eq!(waits(&["node 2 (b)"]).to_string(), "waiting for a majority of the cluster's voters: node 2 (b)");
}

#[test]
fn the_message_of_a_line_is_found() {
    for notice in Notice::samples() {
        let logged = logged(notice);
        let text = logged.text();
        assert_eq!(message_of(text.lines().next().expect("a line")), Some(&*logged.message()));
    }
    assert_eq!(message_of("ferrite: group 0 is kept by x\n"), Some("group 0 is kept by x"));
    assert_eq!(message_of("ferrite: it listens on [::]:1 [not a code]"), Some("it listens on [::]:1 [not a code]"));
    for other in ["", "ferrite ready on 127.0.0.1:1", "a trace", "x.ferrite: no"] {
        assert_eq!(message_of(other), None);
    }
}
