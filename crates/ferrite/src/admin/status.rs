//! `ferrite admin status`: a cluster as one of its nodes knows it, for people and for programs.

use super::tables::{Table, columns};
use super::{AdminAddress, ServerAddress, asking, call_within};
use clap::Args;
use ferrite_client::OwnedTable;
use serde_json::{Map, Value, json};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

/// A node that says nothing for so long is stuck.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

#[derive(Args)]
pub struct StatusOptions {
    #[command(flatten)]
    address: AdminAddress,
    /// Print a JSON object, with --watch one per line. docs/cluster.md describes its fields.
    #[arg(long)]
    json: bool,
    /// Repeat the status until Ctrl-C, every SECONDS (2 if none are given).
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2",
          value_parser = clap::value_parser!(u16).range(1..=3600))]
    watch: Option<u16>,
    /// Exit with 0 only if the cluster is whole, with 3 if it is degraded, and with 4 if it cannot
    /// execute calls. With and without this option, the exit code is 1 if no node answers.
    #[arg(long)]
    check: bool,
}

/// What a cluster is able to do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum State {
    Whole,
    /// Calls are executed. Something is missing, or the database is paused.
    Degraded,
    NoService,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Whole => "whole",
            State::Degraded => "degraded",
            State::NoService => "no service",
        }
    }

    fn exit_code(self) -> u8 {
        match self {
            State::Whole => 0,
            State::Degraded => 3,
            State::NoService => 4,
        }
    }
}

/// What one node knows.
struct Status {
    answered_by: String,
    nodes: Table,
    groups: Table,
    voters: Table,
    figures: Table,
    cluster: Table,
}

impl Status {
    fn of(answered_by: String, tables: &[OwnedTable]) -> Status {
        let table = |place: usize| tables.get(place).map(Table::of).unwrap_or_default();
        Status {
            answered_by,
            nodes: table(0),
            groups: table(1),
            voters: table(2),
            figures: table(3),
            cluster: table(4),
        }
    }

    /// Nodes that are part of the cluster yet.
    fn present(&self) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(|row| self.nodes.text(*row, "PRESENCE") != "retired")
    }

    fn decides(&self, row: usize) -> bool {
        // Some have not said yet whether they are there.
        let all_have_said = self.voters.number(row, "LOSSES_WITH_DECISIONS").is_some();
        !all_have_said || self.voters.number(row, "VOTERS_THERE") >= self.voters.number(row, "MAJORITY")
    }

    /// The node that leads the group, if it is not reached.
    fn silent_leader(&self, group: usize) -> Option<String> {
        let leader = self.groups.text(group, "LEADER");
        let is_it = |row: &usize| self.nodes.text(*row, "NODE") == leader && self.nodes.text(*row, "REACHED") == "no";
        self.present().any(|row| is_it(&row)).then_some(leader)
    }

    /// The node that is to lead the group, if it does not take part yet.
    fn starting_leader(&self, group: usize) -> Option<String> {
        let leader = self.groups.text(group, "LEADER");
        let is_it =
            |row: &usize| self.nodes.text(*row, "NODE") == leader && self.nodes.text(*row, "PRESENCE") == "starting";
        self.present().any(|row| is_it(&row)).then_some(leader)
    }

    /// The state, and what is amiss.
    fn judge(&self) -> (State, Vec<String>) {
        let mut worst = State::Whole;
        let mut reasons = Vec::new();
        let mut amiss = |state: State, reason: String| {
            worst = worst.max(state);
            reasons.push(reason);
        };
        if self.groups.len() == 0 {
            amiss(State::NoService, "the cluster is not founded, or this node does not know it yet".to_owned());
        }
        for row in 0..self.voters.len() {
            if !self.decides(row) {
                amiss(State::NoService, "no majority of the voters can be reached from here".to_owned());
            } else if self.voters.number(row, "VOTERS_THERE") < self.voters.number(row, "VOTERS") {
                let missing = self.voters.text(row, "MISSING");
                amiss(State::Degraded, if missing.is_empty() { "a vote is missing".to_owned() } else { missing });
            }
        }
        for row in 0..self.groups.len() {
            let number = |name: &str| self.groups.number(row, name);
            let group = number("GROUP_ID").unwrap_or(0);
            let waits_for = self.groups.text(row, "WAITS_FOR");
            let kfactor = number("KFACTOR").unwrap_or(0);
            let members = number("MEMBERS").unwrap_or(0);
            if !waits_for.is_empty() && !self.is_led(row) {
                amiss(State::NoService, format!("group {group} waits for {waits_for}"));
            } else if number("LEADER").unwrap_or(0) == 0 {
                amiss(State::NoService, format!("no node is known to lead group {group}"));
            } else if let Some(leader) = self.silent_leader(row) {
                amiss(State::NoService, format!("node {leader}, which leads group {group}, is not reached"));
            } else if let Some(leader) = self.starting_leader(row) {
                amiss(State::NoService, format!("node {leader}, which is to lead group {group}, is starting"));
            } else if let Some(phase) = self.phase_before_service(row) {
                amiss(State::NoService, format!("the failover of group {group} is in its phase {phase}"));
            } else if !waits_for.is_empty() {
                amiss(State::Degraded, format!("group {group} waits for {waits_for}"));
            } else if members <= kfactor {
                amiss(State::Degraded, format!("group {group} has {members} of {} copies", kfactor + 1));
            } else {
                match number("LOSSES_WITH_DATA_KEPT") {
                    None => amiss(State::Degraded, "this node does not know yet what the cluster survives".to_owned()),
                    Some(losses) if losses < kfactor => {
                        amiss(State::Degraded, format!("a copy of group {group} is incomplete or not reached"));
                    }
                    Some(_) => {}
                }
            }
        }
        for row in self.present() {
            let node = self.nodes.text(row, "NODE");
            let presence = self.nodes.text(row, "PRESENCE");
            let reached = self.nodes.text(row, "REACHED");
            let lacks = self.nodes.text(row, "LACKS");
            if presence != "running" {
                amiss(State::Degraded, format!("node {node} is {presence}"));
            } else if reached != "yes" {
                amiss(State::Degraded, format!("node {node} is not reached"));
            }
            if !lacks.is_empty() {
                amiss(State::Degraded, format!("node {node} lacks {lacks}"));
            }
        }
        if self.is_paused() {
            amiss(State::Degraded, "the database is paused".to_owned());
        }
        (worst, reasons)
    }

    fn is_paused(&self) -> bool {
        self.cluster.text(0, "STATE") == "PAUSED"
    }

    fn json(&self) -> Value {
        let (state, reasons) = self.judge();
        let mut cluster = self.cluster.object(0);
        if cluster.remove("state").is_some() {
            cluster.insert("paused".to_owned(), self.is_paused().into());
        }
        let nodes = (0..self.nodes.len()).map(|row| {
            let mut node = self.nodes.object(row);
            if let Some(figures) = self.figures_of(row) {
                node.extend(self.figures.object(figures).into_iter().filter(|(name, _)| name != "node"));
            }
            let reached = node.get("reached").is_some_and(|reached| reached == "yes");
            node.insert("reached".to_owned(), reached.into());
            Value::Object(node)
        });
        let groups = (0..self.groups.len()).map(|row| {
            let mut group = self.groups.object(row);
            if group.get("leader").is_some_and(|leader| *leader == 0) {
                group.insert("leader".to_owned(), Value::Null);
            }
            Value::Object(group)
        });
        let voters = if self.voters.len() > 0 { self.voters.object(0) } else { Map::new() };
        json!({
            "state": state.name(),
            "reasons": reasons,
            "answered_by": self.answered_by,
            "cluster": cluster,
            "nodes": nodes.collect::<Vec<_>>(),
            "groups": groups.collect::<Vec<_>>(),
            "voters": voters,
        })
    }

    fn figures_of(&self, row: usize) -> Option<usize> {
        let node = self.nodes.text(row, "NODE");
        (0..self.figures.len()).find(|figures| self.figures.text(*figures, "NODE") == node)
    }

    fn text(&self) -> String {
        let mut lines = self.node_lines();
        if (0..self.voters.len()).any(|row| !self.decides(row)) {
            lines.push(
                "no majority of the voters can be reached from here: what follows is the last known state of the group"
                    .to_owned(),
            );
        }
        lines.extend((0..self.groups.len()).map(|row| self.group_line(row)));
        for row in 0..self.voters.len() {
            let text = |name: &str| self.voters.text(row, name);
            let there = text("VOTERS_THERE");
            let voters = text("VOTERS");
            lines.push(match (self.decides(row), text("LOSSES_WITH_DECISIONS")) {
                (true, losses) if losses.is_empty() => {
                    format!("voters: {there} of {voters} have reported")
                }
                (true, losses) => {
                    format!("voters: {there} of {voters} are there; decisions survive {}", more(&losses))
                }
                (false, _) => {
                    format!("voters: {there} of {voters} are there; {} are needed to decide anything", text("MAJORITY"))
                }
            });
            if !text("MISSING").is_empty() {
                lines.push(format!("        {}", text("MISSING")));
            }
        }
        lines.extend(self.figure_lines());
        let (state, reasons) = self.judge();
        let why = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) };
        lines.push(format!("state: {}{why}", state.name()));
        lines.join("\n")
    }

    /// Those that are gone for good are named in one line.
    fn node_lines(&self) -> Vec<String> {
        let mut lines = columns(&self.nodes.cells(self.present()));
        let retired = (0..self.nodes.len()).filter(|row| self.nodes.text(*row, "PRESENCE") == "retired");
        let retired: Vec<String> = retired.map(|row| self.nodes.text(row, "NODE")).collect();
        if !retired.is_empty() {
            lines.push(format!("removed or replaced: node {}", retired.join(", node ")));
        }
        lines
    }

    /// Of a group that executes no calls yet: the phase of its failover.
    fn phase_before_service(&self, row: usize) -> Option<String> {
        Some(self.groups.text(row, "PHASE")).filter(|phase| !phase.is_empty() && phase != "serve")
    }

    /// A node leads the group and executes calls, whatever it waits for besides.
    fn is_led(&self, row: usize) -> bool {
        self.phase_before_service(row).is_none() && self.groups.number(row, "LEADER").unwrap_or(0) != 0
    }

    fn group_line(&self, row: usize) -> String {
        let text = |name: &str| self.groups.text(row, name);
        let group = text("GROUP_ID");
        let epoch = text("EPOCH");
        let waits_for = text("WAITS_FOR");
        if !waits_for.is_empty() && !self.is_led(row) {
            return format!("group {group}: no node leads; it waits for {waits_for}");
        }
        let phase = self.phase_before_service(row).map_or_else(String::new, |phase| format!("; failover: {phase}"));
        if text("LEADER") == "0" {
            return format!("group {group}: no node is known to lead (epoch {epoch}{phase})");
        }
        let all = self.groups.number(row, "KFACTOR").map_or(1, |kfactor| kfactor + 1);
        let copies = format!("node {} leads {} of {all} copies (epoch {epoch})", text("LEADER"), text("MEMBERS"));
        let awaited = if waits_for.is_empty() { String::new() } else { format!("; it waits for {waits_for}") };
        let copies = format!("{copies}{phase}{awaited}");
        let data = text("LOSSES_WITH_DATA_KEPT");
        let service = text("LOSSES_WITH_SERVICE");
        if data.is_empty() {
            return format!(
                "group {group}: {copies}, as far as this node knows; it does not know yet how many losses the cluster \
                 tolerates: ask again, or another node"
            );
        }
        format!("group {group}: {copies}; the data survive {}, the service {service}", more(&data))
    }

    fn figure_lines(&self) -> Vec<String> {
        let rows = self.present().filter_map(|row| self.figures_of(row));
        let mut lines = Vec::new();
        let cells: Vec<Vec<String>> = rows
            .map(|row| {
                let text = |name: &str| self.figures.text(row, name);
                let number = |name: &str| self.figures.number(row, name);
                let age = |name: &str| number(name).map_or_else(String::new, |age| format!("{} ago", span(age)));
                let bytes = |name: &str| number(name).map_or_else(String::new, size);
                vec![
                    text("NODE"),
                    text("RELEASE"),
                    number("UPTIME_SECONDS").map_or_else(String::new, span),
                    text("DURABILITY"),
                    bytes("MEMORY_BYTES"),
                    bytes("DATA_BYTES"),
                    bytes("DISK_FREE_BYTES"),
                    text("BEHIND_ENTRIES"),
                    age("SNAPSHOT_AGE_SECONDS"),
                    age("BACKUP_AGE_SECONDS"),
                ]
            })
            .collect();
        if !cells.is_empty() {
            let names =
                ["node", "release", "up", "durability", "memory", "data", "disk free", "behind", "snapshot", "backup"];
            lines.push(String::new());
            lines.extend(columns(&[vec![names.map(str::to_owned).to_vec()], cells].concat()));
        }
        if self.cluster.len() > 0 {
            let text = |name: &str| self.cluster.text(0, name);
            let paused = if self.is_paused() { "paused" } else { "running" };
            let plural = if text("PARTITIONS") == "1" { "" } else { "s" };
            lines.push(format!("cluster {}: {paused}, {} partition{plural}", text("CLUSTER"), text("PARTITIONS")));
        }
        lines
    }
}

/// `1 more loss`
fn more(losses: &str) -> String {
    format!("{losses} more {}", if losses == "1" { "loss" } else { "losses" })
}

/// Seconds in two units at most.
fn span(seconds: i64) -> String {
    let days = seconds / 86_400;
    let hours = seconds / 3_600 % 24;
    let minutes = seconds / 60 % 60;
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

fn size(bytes: i64) -> String {
    match bytes {
        ..1_000_000 => format!("{} KB", bytes / 1_000),
        1_000_000..1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// The first view with service, else the first there is.
fn fetch(address: &ServerAddress) -> Result<Status, String> {
    let ask = |server: ServerAddress| {
        let response = call_within(ANSWER_TIME_MAX, &server, "@ClusterStatus", ())?;
        Ok(Status::of(server.server.join(","), &response.tables))
    };
    asking::first_of(address.each(), ask, |status| status.judge().0 != State::NoService)
}

pub fn run(options: StatusOptions) -> ExitCode {
    let StatusOptions { address, json, watch, check } = options;
    let address = address.into();
    if watch.is_some() && !json && std::io::stdout().is_terminal() {
        // What is there scrolls away.
        ferrite_io::out!("\x1b[2J");
    }
    loop {
        let outcome = fetch(&address);
        let code = match &outcome {
            Ok(status) if check => ExitCode::from(status.judge().0.exit_code()),
            Ok(_) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
        let Some(pause) = watch else {
            match &outcome {
                Ok(status) if json => ferrite_io::outln!("{:#}", status.json()),
                Ok(status) => ferrite_io::outln!("{}", status.text()),
                Err(failure) => ferrite_io::errln!("ferrite: {failure}"),
            }
            return code;
        };
        if !show(json, &outcome) {
            return code;
        }
        std::thread::sleep(Duration::from_secs(pause.into()));
    }
}

/// One of many: on a terminal in the place of the one before, else behind it. False: nothing reads
/// them any more.
fn show(is_json: bool, outcome: &Result<Status, String>) -> bool {
    let mut out = std::io::stdout().lock();
    let text = match outcome {
        // A line for each, so that a program can tell where one ends.
        Ok(status) if is_json => status.json().to_string(),
        Ok(status) => status.text(),
        Err(failure) if is_json => json!({ "state": "not reached", "reasons": [failure] }).to_string(),
        Err(failure) => format!("state: not reached: {failure}"),
    };
    let written = if is_json {
        writeln!(out, "{text}")
    } else if out.is_terminal() {
        // Home, each line cleared to its end, then what is left of the screen.
        let lines: String = text.lines().map(|line| format!("{line}\x1b[K\n")).collect();
        write!(out, "\x1b[H{lines}\x1b[J")
    } else {
        writeln!(out, "{text}\n")
    };
    written.and_then(|()| out.flush()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_client::OwnedValue;
    use ferrite_value::SqlType;

    fn table(names: &str, rows: &[&str]) -> OwnedTable {
        let columns = names.split(' ').map(|name| (name.to_owned(), SqlType::Varchar)).collect();
        let value = |text: &str| match text.parse() {
            Ok(number) => OwnedValue::Integer(number),
            Err(_) if text == "null" => OwnedValue::Null,
            Err(_) => OwnedValue::Text(text.trim_matches('\'').into()),
        };
        OwnedTable { status: 0, columns, rows: rows.iter().map(|row| row.split(' ').map(value).collect()).collect() }
    }

    const NODES: &str = "NODE KIND PRESENCE REACHED ROLE VOTES LACKS";
    const GROUP: &str =
        "GROUP_ID EPOCH LEADER MEMBERS KFACTOR LOSSES_WITH_DATA_KEPT LOSSES_WITH_SERVICE WAITS_FOR PHASE";
    const VOTERS: &str = "VOTERS VOTERS_THERE MAJORITY LOSSES_WITH_DECISIONS MISSING";
    const FIGURES: &str = "NODE UPTIME_SECONDS MEMORY_BYTES BEHIND_ENTRIES SNAPSHOT_AGE_SECONDS";
    const CLUSTER: &str = "CLUSTER STATE PARTITIONS KFACTOR";

    const ALL: [&str; 3] =
        ["1 data running yes leader yes ''", "2 data running yes member yes ''", "3 data running yes '' yes ''"];

    fn status(nodes: &[&str], group: &str, voters: &str, state: &str) -> Status {
        let figures = table(FIGURES, &["1 90061 1500000000 0 59", "2 3700 20000 7 null"]);
        let tables = [
            table(NODES, nodes),
            table(GROUP, &[group]),
            table(VOTERS, &[voters]),
            figures,
            table(CLUSTER, &[&format!("0f4c {state} 2 1")]),
        ];
        Status::of("db1:21211".to_owned(), &tables)
    }

    fn whole() -> Status {
        status(&ALL, "0 4 1 2 1 1 1 '' serve", "3 3 2 1 ''", "RUNNING")
    }

    #[test]
    fn the_state_follows_from_what_is_missing() {
        let judged = |status: Status| {
            let (state, reasons) = status.judge();
            (state.name(), reasons.join("; "))
        };
        assert_eq!(judged(whole()), ("whole", String::new()));
        let silent = [ALL[0], ALL[1], "3 data silent no '' missing ''", "9 data retired no '' no ''"];
        let one_away = status(&silent, "0 4 1 2 1 1 0 '' serve", "3 2 2 0 node-3-is-not-reached", "RUNNING");
        assert_eq!(judged(one_away), ("degraded", "node-3-is-not-reached; node 3 is silent".to_owned()));
        for (group, expected) in [
            ("0 4 1 1 1 0 0 '' serve", ("degraded", "group 0 has 1 of 2 copies")),
            ("0 4 1 2 1 0 0 '' serve", ("degraded", "a copy of group 0 is incomplete or not reached")),
            ("0 4 1 2 1 null null '' serve", ("degraded", "this node does not know yet what the cluster survives")),
            ("0 4 0 2 1 0 0 '' serve", ("no service", "no node is known to lead group 0")),
            ("0 4 1 2 1 1 1 '' open", ("no service", "the failover of group 0 is in its phase open")),
            ("0 4 0 2 1 0 0 node-1 serve", ("no service", "group 0 waits for node-1")),
            ("0 4 1 2 1 1 1 equal-tables serve", ("degraded", "group 0 waits for equal-tables")),
        ] {
            let (state, reasons) = judged(status(&ALL, group, "3 3 2 1 ''", "RUNNING"));
            assert_eq!((state, &*reasons), expected);
        }
        let dead = ["1 data silent no leader missing ''", ALL[1], ALL[2]];
        let (state, reasons) = judged(status(&dead, "0 4 1 2 1 0 0 '' serve", "3 3 2 1 ''", "RUNNING"));
        assert_eq!((state, &*reasons), ("no service", "node 1, which leads group 0, is not reached; node 1 is silent"));
        let early = ["1 data starting yes leader yes ''", ALL[1], ALL[2]];
        let (state, reasons) = judged(status(&early, "0 4 1 2 1 1 1 '' null", "3 3 2 1 ''", "RUNNING"));
        assert_eq!(state, "no service", "{reasons}");
        assert!(reasons.starts_with("node 1, which is to lead group 0, is starting; "), "{reasons}");
        let alone = status(&ALL, "0 4 1 2 1 1 1 '' serve", "3 1 2 0 nodes", "RUNNING");
        assert_eq!(judged(alone), ("no service", "no majority of the voters can be reached from here".to_owned()));
        let full = [ALL[0], "2 data running yes member yes memory", ALL[2]];
        assert_eq!(
            judged(status(&full, "0 4 1 2 1 1 1 '' serve", "3 3 2 1 ''", "PAUSED")).1,
            "node 2 lacks memory; the database is paused"
        );
        let nothing = Status::of(String::new(), &[]);
        assert_eq!(judged(nothing).0, "no service");
        assert_eq!([State::Whole, State::Degraded, State::NoService].map(State::exit_code), [0, 3, 4]);
    }

    /// Programs rely on these names: docs/cluster.md has them.
    #[test]
    fn the_json_has_the_documented_fields() {
        let mut status = whole();
        let json = status.json();
        assert_eq!(
            (&json["state"], &json["reasons"], &json["answered_by"]),
            (&json!("whole"), &json!([]), &json!("db1:21211"))
        );
        assert_eq!(json["cluster"], json!({ "cluster": "0f4c", "paused": false, "partitions": 2, "kfactor": 1 }));
        let first = json!({
            "node": 1, "kind": "data", "presence": "running", "reached": true, "role": "leader", "votes": "yes",
            "lacks": null, "uptime_seconds": 90061, "memory_bytes": 1_500_000_000, "behind_entries": 0,
            "snapshot_age_seconds": 59,
        });
        assert_eq!(json["nodes"][0], first);
        assert_eq!(
            (&json["nodes"][1]["snapshot_age_seconds"], &json["nodes"][2]["role"]),
            (&Value::Null, &Value::Null)
        );
        let group = json!({
            "group_id": 0, "epoch": 4, "leader": 1, "members": 2, "kfactor": 1, "losses_with_data_kept": 1,
            "losses_with_service": 1, "waits_for": null, "phase": "serve",
        });
        assert_eq!(json["groups"], json!([group]));
        assert_eq!(json["voters"]["voters_there"], json!(3));
        status.groups = Table::of(&table(GROUP, &["0 4 0 2 1 null null '' serve"]));
        assert_eq!(status.json()["groups"][0]["leader"], Value::Null);
    }

    #[test]
    fn a_node_that_does_not_know_the_number_of_losses_says_so() {
        let said = |group: &str, voters: &str| status(&ALL, group, voters, "RUNNING").text();
        let heard = said("0 4 1 2 1 1 0 '' serve", "3 2 2 0 ''");
        assert!(heard.contains("(epoch 4); the data survive 1 more loss, the service 0\n"), "{heard}");
        assert!(heard.contains("voters: 2 of 3 are there; decisions survive 0 more losses\n"), "{heard}");
        let began = said("0 4 1 2 1 null null '' serve", "3 1 2 null ''");
        assert!(
            began.contains("node 1 leads 2 of 2 copies (epoch 4), as far as this node knows; it does not know"),
            "{began}"
        );
        assert!(began.contains("voters: 1 of 3 have reported\n"), "{began}");
        let alone = said("0 4 1 2 1 null null '' serve", "3 1 2 0 ''");
        assert!(alone.contains("no majority of the voters can be reached from here"), "{alone}");
        assert!(alone.contains("voters: 1 of 3 are there; 2 are needed to decide anything\n"), "{alone}");
    }

    #[test]
    fn nodes_have_a_line_of_figures_each_and_those_that_are_gone_for_good_one_for_all() {
        let nodes = [ALL[0], ALL[1], "3 data retired no '' no ''", "4 data retired no '' no ''"];
        let said = status(&nodes, "0 4 1 2 1 1 1 '' serve", "3 3 2 1 ''", "RUNNING").text();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], "node  kind  presence  reached  role    votes  lacks");
        assert_eq!(lines[1], "1     data  running   yes      leader  yes");
        assert_eq!(lines[3], "removed or replaced: node 3, node 4");
        let figures: Vec<&str> = lines[8].split("  ").filter(|cell| !cell.is_empty()).map(str::trim).collect();
        assert_eq!(figures, ["1", "1 d 1 h", "1.5 GB", "0", "59 s ago"], "{said}");
        assert_eq!(lines[lines.len() - 2..], ["cluster 0f4c: running, 2 partitions", "state: whole"]);
    }
}
