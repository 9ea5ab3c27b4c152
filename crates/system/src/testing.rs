//! What tests of system tables share: a node without threads, and the answers that an original
//! server gave.

use crate::identity::Identity;
use crate::plans::PlanCacheStatistics;
use crate::processor::ProcessorUse;
use crate::result::{SystemResult, write_response};
use crate::saved::SnapshotStatus;
use crate::sources::{Collect, Collected, Sources};
use crate::traffic::NetworkReport;
use crate::{compound_figures, expired, task_figures};
use ferrite_base::Settings;
use ferrite_catalog::Catalog;
use ferrite_io::RealDisk;
use ferrite_log::LogStatistics;
use ferrite_partition::Compiled;
use ferrite_partition::counters::ThreadReport;
use ferrite_partition::long_read::LineFigures;
use ferrite_partition::recovery::Summary;
use ferrite_value::OwnedValue;
use ferrite_value::ring::Ring;
use ferrite_wire::{OwnedTable, Response, Status, failure};
use serde_json::Value as Json;
use std::sync::Arc;
use std::time::Instant;

/// Call, selector, and the columns of each table, or the error's text.
const CAPTURES: &str = include_str!("../tests/data/system-tables.json");

/// What a node that nobody runs, with an empty schema, has.
pub struct Node {
    pub identity: Identity,
    pub hosts: crate::hosts::Hosts,
    settings: Settings,
    pub compiled: Arc<Compiled>,
    ring: Ring,
    partitions: usize,
    started: Instant,
    processor: ProcessorUse,
    log: LogStatistics,
    recovery: Summary,
    snapshot_status: SnapshotStatus,
    expired: expired::Figures,
    forwarding: crate::forwarding::Figures,
    pub lots: crate::lots::LotFigures,
    tasks: task_figures::Figures,
    compounds: compound_figures::Figures,
}

pub fn node(partitions: usize) -> Node {
    let compiled = Compiled::new(Arc::new(Catalog::default()), &Default::default()).expect("an empty schema compiles");
    Node {
        identity: Identity {
            host_id: 0,
            host_name: "host1".to_owned(),
            listen: "127.0.0.1:21212".parse().expect("an address"),
            admin_listen: Some("127.0.0.1:21211".parse().expect("an address")),
            clients_trusted: true,
            drop_migrating: false,
            backups: ferrite_backup::request::BackupDirectories { own: "/data/one".into(), root: None },
            cluster_start_ms: 1_795_215_464_349,
            leader_address: [127, 0, 0, 1],
            build: "14.0.0_test".to_owned(),
            version: "14.0.0",
            dir: "/data/one".into(),
            durability: "interval=5".to_owned(),
            query_time_max: std::time::Duration::from_secs(10),
        },
        hosts: crate::hosts::Hosts::alone(0),
        settings: Settings::default(),
        compiled: Arc::new(compiled),
        ring: Ring::new_default(partitions as u32),
        partitions,
        started: Instant::now(),
        processor: ProcessorUse::new(Instant::now()),
        log: LogStatistics::default(),
        recovery: Summary::default(),
        snapshot_status: SnapshotStatus::default(),
        expired: expired::Figures::default(),
        forwarding: crate::forwarding::Figures::default(),
        lots: crate::lots::LotFigures::default(),
        tasks: task_figures::Figures::default(),
        compounds: compound_figures::Figures::default(),
    }
}

impl Node {
    pub fn sources(&self) -> Sources<'_> {
        Sources {
            identity: &self.identity,
            hosts: Arc::new(self.hosts.clone()),
            settings: &self.settings,
            compiled: Arc::clone(&self.compiled),
            ring: &self.ring,
            partitions: self.partitions,
            started: self.started,
            processor: &self.processor,
            running: true,
            safe: true,
            log: &self.log,
            disk: &RealDisk,
            recovery: &self.recovery,
            snapshot_status: &self.snapshot_status,
            backups: Vec::new(),
            expired: &self.expired,
            forwarding: &self.forwarding,
            lots: &self.lots,
            tasks: &self.tasks,
            compounds: &self.compounds,
            long_reads: LineFigures { threads: 2, running: 0, waiting: 0, waiting_max: 0, begun: 0 },
            plans: PlanCacheStatistics::default(),
        }
    }
}

/// Threads that have counted nothing yet.
impl Collect for Node {
    fn partitions(&self, _: &str, _: bool) -> Collected<Vec<ThreadReport>> {
        Collected { reports: Vec::new(), elapsed: self.started.elapsed() }
    }

    fn network(&self, _: &str, _: bool) -> Collected<NetworkReport> {
        Collected { reports: NetworkReport::default(), elapsed: self.started.elapsed() }
    }
}

/// The tables of a response frame.
pub fn tables(frame: &[u8]) -> Vec<OwnedTable> {
    let response = Response::parse(&frame[4..]).expect("a whole response");
    assert_eq!(response.status_code, Status::Success.code(), "{:?}", response.status_text);
    response.tables().map(|table| table.unwrap().to_owned_table().unwrap()).collect()
}

/// An answer as a client decodes it.
pub fn tables_of(result: &SystemResult) -> Vec<OwnedTable> {
    let mut frame = Vec::new();
    write_response(&mut frame, 1, result);
    tables(&frame)
}

fn captured(call: &str, selector: &str) -> Json {
    let all: Vec<Json> = serde_json::from_str(CAPTURES).expect("the captures are JSON");
    let found = all.into_iter().find(|answer| answer["call"] == call && answer["selector"] == selector);
    found.unwrap_or_else(|| panic!("nothing was captured for {call} {selector}"))
}

/// A row as the captures write it. Only NULL, integers and texts.
pub fn json_row(row: &[OwnedValue]) -> Json {
    row.iter()
        .map(|value| match value {
            OwnedValue::Null => Json::Null,
            OwnedValue::Integer(number) => Json::from(*number),
            OwnedValue::Text(text) => Json::from(&**text),
            other => panic!("not in the captures: {other:?}"),
        })
        .collect()
}

/// All selectors that were captured for a call, with whether they were answered by tables.
pub fn captured_selectors(call: &str) -> Vec<(String, bool)> {
    let all: Vec<Json> = serde_json::from_str(CAPTURES).expect("the captures are JSON");
    all.iter()
        .filter(|answer| answer["call"] == call)
        .map(|answer| (answer["selector"].as_str().expect("a text").to_owned(), answer["tables"].is_array()))
        .collect()
}

/// Compares the names and types of all columns with what the original server answered.
pub fn check_columns(call: &str, selector: &str, result: &SystemResult) {
    let ours: Vec<Json> = tables_of(result)
        .iter()
        .map(|table| {
            let name = |sql_type: ferrite_value::SqlType| match sql_type {
                ferrite_value::SqlType::Varchar => "STRING",
                other => other.name(),
            };
            table.columns.iter().map(|(column, sql_type)| serde_json::json!([column, name(*sql_type)])).collect()
        })
        .collect();
    assert_eq!(Json::Array(ours), captured(call, selector)["tables"], "{call} {selector}");
}

/// Compares status and text of an error with what the original server answered.
pub fn check_error(call: &str, selector: &str, result: &SystemResult) {
    let error = result.as_ref().err().expect("an error");
    let captured = captured(call, selector);
    assert_eq!(captured["error"], failure::text(error), "{call} {selector}");
    assert_eq!(captured["status"], failure::status(error.kind()).code(), "{call} {selector}");
}
