//! `@SystemInformation`: what this node is and how it is set up, as keys and texts (wire-protocol
//! 12.2).

use crate::hosts::{self, Host};
use crate::processor::cores;
use crate::result::{Columns, SystemResult, SystemTable, cells};
use crate::sources::Sources;
use ferrite_base::{UserError, fault, memory};
use ferrite_io::{Clock, SystemClock};
use ferrite_value::SqlType::{Integer, Varchar};
use std::net::Ipv4Addr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const OVERVIEW: &Columns = &[("HOST_ID", Integer), ("KEY", Varchar), ("VALUE", Varchar)];
const PROPERTIES: &Columns = &[("PROPERTY", Varchar), ("VALUE", Varchar)];

/// The interface and port of a service that this server does not have.
const NO_INTERFACE: &str = "";
const NO_PORT: &str = "-1";

/// One table, by the selector's name in any case; OVERVIEW without one.
pub fn system_information(sources: &Sources<'_>, selector: Option<&str>) -> SystemResult {
    let selector = selector.unwrap_or("OVERVIEW");
    let table = match selector.to_ascii_uppercase().as_str() {
        "OVERVIEW" => {
            let mut table = SystemTable::new(OVERVIEW);
            for (key, value) in overview(sources) {
                table.row(cells![sources.identity.host_id, key, value]);
            }
            let others = sources.hosts.hosts.iter().filter(|host| host.id != sources.identity.host_id);
            for host in others {
                for (key, value) in reached(host).into_iter().chain(of_cluster(sources)) {
                    table.row(cells![host.id, key, value]);
                }
            }
            table
        }
        "DEPLOYMENT" => properties(deployment(sources)),
        "LICENSE" => properties(vec![("TYPE", env!("CARGO_PKG_LICENSE").to_owned())]),
        _ => return Err(UserError::parameters(format!("Invalid @SystemInformation selector {selector}"))),
    };
    Ok(vec![table])
}

/// What a node knows of another one: where clients and administrators reach it.
fn reached(host: &Host) -> [(&'static str, String); 6] {
    let parts = |address: &Option<String>| {
        let found = address.as_deref().and_then(hosts::split);
        found.map_or_else(|| (NO_INTERFACE.to_owned(), NO_PORT.to_owned()), |(name, port)| (name.into(), port.into()))
    };
    let (name, port) = parts(&host.clients);
    let (admin_name, admin_port) = parts(&host.administrators);
    [
        ("IPADDRESS", name.clone()),
        ("HOSTNAME", name.clone()),
        ("CLIENTINTERFACE", name),
        ("CLIENTPORT", port),
        ("ADMININTERFACE", admin_name),
        ("ADMINPORT", admin_port),
    ]
}

fn cluster_state(sources: &Sources<'_>) -> &'static str {
    if sources.running { "RUNNING" } else { "PAUSED" }
}

fn cluster_safety(sources: &Sources<'_>) -> &'static str {
    if sources.safe { "FULL" } else { "REDUCED" }
}

/// What is the same of all nodes.
fn of_cluster(sources: &Sources<'_>) -> [(&'static str, String); 6] {
    [
        ("BUILDSTRING", sources.identity.build.clone()),
        ("VERSION", sources.identity.version.to_owned()),
        ("CLUSTERSTATE", cluster_state(sources).to_owned()),
        ("CLUSTERSAFETY", cluster_safety(sources).to_owned()),
        ("FULLCLUSTERSIZE", sources.hosts.hosts.len().to_string()),
        ("CLUSTERID", "0".to_owned()),
    ]
}

fn properties(entries: Vec<(&str, String)>) -> SystemTable {
    let mut table = SystemTable::new(PROPERTIES);
    for (property, value) in entries {
        table.row(cells![property, value]);
    }
    table
}

/// The keys that existing tools know, in the order of the original server, then our own.
fn overview(sources: &Sources<'_>) -> Vec<(&'static str, Option<String>)> {
    let identity = &sources.identity;
    let uptime = sources.started.elapsed();
    let host_start_ms = SystemClock.wall_micros() / 1000 - uptime.as_millis() as i64;
    let cores = cores().to_string();
    let catalog_version = sources.compiled.catalog.version.0;
    let directory = identity.dir.display().to_string();
    let under_kubernetes = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    let entries: [(&'static str, &str); 45] = [
        ("IPADDRESS", &reachable_address(sources)),
        ("HOSTNAME", &identity.host_name),
        ("CLIENTINTERFACE", &identity.listen.ip().to_string()),
        ("CLIENTPORT", &identity.listen.port().to_string()),
        ("ADMININTERFACE", &identity.admin_listen.map_or(NO_INTERFACE.to_owned(), |address| address.ip().to_string())),
        ("ADMINPORT", &identity.admin_listen.map_or(NO_PORT.to_owned(), |address| address.port().to_string())),
        ("HTTPINTERFACE", NO_INTERFACE),
        ("HTTPPORT", NO_PORT),
        ("INTERNALINTERFACE", NO_INTERFACE),
        ("INTERNALPORT", NO_PORT),
        ("ZKINTERFACE", NO_INTERFACE),
        ("ZKPORT", NO_PORT),
        ("DRINTERFACE", NO_INTERFACE),
        ("DRPORT", NO_PORT),
        ("PUBLICINTERFACE", NO_INTERFACE),
        ("DRPUBLICINTERFACE", NO_INTERFACE),
        ("DRPUBLICPORT", NO_PORT),
        ("BUILDSTRING", &identity.build),
        ("VERSION", identity.version),
        ("CATALOG", ""),
        ("DEPLOYMENT", ""),
        ("CLUSTERSTATE", cluster_state(sources)),
        ("CLUSTERSAFETY", cluster_safety(sources)),
        ("INITIALIZED", "true"),
        ("REPLICATIONROLE", "NONE"),
        // What it is read for: it differs when the schema does.
        ("CATALOGCRC", &catalog_version.to_string()),
        ("IV2ENABLED", "true"),
        ("STARTTIME", &identity.cluster_start_ms.to_string()),
        ("CREATIONTIME", &identity.cluster_start_ms.to_string()),
        ("HOSTSTARTTIME", &host_start_ms.to_string()),
        ("UPTIME", &uptime_text(uptime)),
        ("LAST_UPDATECORE_DURATION", "0"),
        ("LOG4JPORT", "0"),
        ("PLACEMENTGROUP", "0"),
        ("PARTITIONGROUP", "0"),
        ("VOLTDBROOT", &directory),
        ("FULLCLUSTERSIZE", &sources.hosts.hosts.len().to_string()),
        ("CLUSTERID", "0"),
        ("TOPICSPUBLICINTERFACE", NO_INTERFACE),
        ("TOPICSPUBLICPORT", NO_PORT),
        ("TOPICSPORT", NO_PORT),
        ("CPUCORES", &cores),
        ("CPUTHREADS", &cores),
        ("MEMORY", &format!("{} MB", physical_memory_kib() / 1024)),
        ("KUBERNETES", if under_kubernetes { "true" } else { "false" }),
    ];
    let log = &sources.log;
    let recovery = &sources.recovery;
    let own: [(&'static str, String); 12] = [
        ("FSYNC_COUNT", log.fsyncs.count().to_string()),
        ("FSYNC_MEDIAN_MICROSECONDS", log.fsyncs.median().as_micros().to_string()),
        ("LOG_WRITTEN_BYTES", log.written_bytes.load(Relaxed).to_string()),
        ("RECOVERED_TRANSACTIONS", recovery.transactions.to_string()),
        ("RECOVERY_MICROSECONDS", recovery.duration.as_micros().to_string()),
        ("RECOVERED_LOG_BYTES", recovery.log_bytes.to_string()),
        ("RECOVERED_BYTES_PER_SECOND", per_second(recovery.log_bytes, recovery.duration).to_string()),
        ("MEMORY_USED_BYTES", memory::used().to_string()),
        ("MEMORY_LIMIT_BYTES", memory::limit().map_or_else(|| "none".to_owned(), |limit| limit.to_string())),
        ("DISK_RESERVE_BYTES", sources.settings.disk_reserve_bytes.to_string()),
        ("FAULTS_UNDONE", fault::contained().to_string()),
        ("DURABILITY", identity.durability.clone()),
    ];
    // There are no files of these two kinds; the original server leaves the first out in the same
    // way.
    let value = |(key, text): (&'static str, &str)| match key {
        "CATALOG" | "DEPLOYMENT" => (key, None),
        _ => (key, Some(text.to_owned())),
    };
    entries.into_iter().map(value).chain(own.into_iter().map(|(key, text)| (key, Some(text)))).collect()
}

fn per_second(count: u64, took: Duration) -> u64 {
    (count as f64 / took.as_secs_f64().max(1e-6)) as u64
}

/// Where clients that discover the cluster connect to. A server that listens everywhere says so
/// nowhere: of one in a cluster it is what the other nodes say of it, too.
fn reachable_address(sources: &Sources<'_>) -> String {
    let here = sources.hosts.hosts.iter().find(|host| host.id == sources.identity.host_id);
    let told = here.and_then(|host| hosts::split(host.clients.as_deref()?));
    let listens = sources.identity.listen.ip();
    match told {
        Some((name, _)) => name.to_owned(),
        None if listens.is_unspecified() => Ipv4Addr::from(sources.identity.leader_address).to_string(),
        None => listens.to_string(),
    }
}

fn uptime_text(uptime: Duration) -> String {
    let seconds = uptime.as_secs();
    let days = seconds / 86_400;
    let hours = seconds / 3_600 % 24;
    let minutes = seconds / 60 % 60;
    format!("{days} days {hours:02}:{minutes:02}:{:02}.{:03}", seconds % 60, uptime.subsec_millis())
}

/// Memory of the machine; 0 where the system does not say.
pub fn physical_memory_kib() -> i64 {
    status_kib("/proc/meminfo", "MemTotal:")
}

/// A line `name   123 kB` of one of the kernel's status files.
pub fn status_kib(path: &str, name: &str) -> i64 {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn deployment(sources: &Sources<'_>) -> Vec<(&'static str, String)> {
    let directory = sources.identity.dir.display().to_string();
    let durability = &sources.identity.durability;
    let interval_ms = durability.strip_prefix("interval=");
    let text = str::to_owned;
    let admin_port = sources.identity.admin_listen.map_or(text(NO_PORT), |address| address.port().to_string());
    let mut entries = vec![
        ("voltdbroot", directory.clone()),
        ("hostcount", sources.hosts.hosts.len().to_string()),
        ("kfactor", sources.hosts.kfactor.to_string()),
        ("sitesperhost", sources.partitions.to_string()),
        ("httpport", text(NO_PORT)),
        ("httpenabled", text("false")),
        ("jsonenabled", text("false")),
        ("snapshotpath", directory.clone()),
        ("snapshotenabled", text("false")),
        ("export", text("false")),
        ("largequeryswappath", directory.clone()),
        ("partitiondetection", text("false")),
        ("heartbeattimeout", text("0")),
        ("adminport", admin_port),
        ("commandlogmode", text(if durability == "sync" { "sync" } else { "async" })),
    ];
    if let Some(milliseconds) = interval_ms {
        entries.push(("commandlogfreqtime", text(milliseconds)));
    }
    entries.extend([
        ("commandlogpath", directory),
        ("commandlogenabled", (durability != "memory").to_string()),
        ("users", text("")),
        ("elasticduration", text("0")),
        ("elasticthroughput", text("0")),
        ("snapshotpriority", text("0")),
        ("temptablesmaxsize", (sources.settings.temporary_bytes >> 20).to_string()),
        ("querytimeout", sources.identity.query_time_max.as_millis().to_string()),
        ("drrole", text("none")),
        ("prioritiesenabled", text("false")),
        ("drpriority", text("null")),
    ]);
    if let Some(root) = &sources.identity.backups.root {
        entries.push(("backupdir", root.display().to_string()));
    }
    // Our own: each limit that can be set, by its name in docs/limits.md.
    entries.extend(sources.settings.values().map(|(name, value)| (name, value.to_string())));
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, check_columns, check_error, tables_of};
    use ferrite_value::OwnedValue;
    use std::collections::HashMap;

    /// The last two columns, which are texts.
    fn entries(result: &SystemResult) -> HashMap<String, Option<String>> {
        let text = |value: &OwnedValue| match value {
            OwnedValue::Text(text) => Some(text.to_string()),
            OwnedValue::Null => None,
            other => panic!("not a text: {other:?}"),
        };
        let tables = tables_of(result);
        let entry = |row: &Vec<OwnedValue>| (text(&row[row.len() - 2]).unwrap(), text(&row[row.len() - 1]));
        tables[0].rows.iter().map(entry).collect()
    }

    #[test]
    fn columns_are_those_of_the_original_server() {
        let node = testing::node(2);
        let sources = node.sources();
        for (selector, answered) in testing::captured_selectors("@SystemInformation") {
            let result = system_information(&sources, Some(&selector));
            if answered {
                check_columns("@SystemInformation", &selector, &result);
            } else {
                check_error("@SystemInformation", &selector, &result);
            }
        }
        assert_eq!(entries(&system_information(&sources, None)).len(), 57);
        assert_eq!(entries(&system_information(&sources, Some("license"))).len(), 1);
    }

    #[test]
    fn tools_find_what_they_look_for() {
        let node = testing::node(2);
        let sources = node.sources();
        let overview = entries(&system_information(&sources, Some("overview")));
        let value = |key: &str| overview[key].as_deref().unwrap();
        assert_eq!((value("IPADDRESS"), value("CLIENTPORT"), value("CLUSTERSTATE")), ("127.0.0.1", "21212", "RUNNING"));
        assert_eq!((value("ADMININTERFACE"), value("ADMINPORT")), ("127.0.0.1", "21211"));
        let version: Vec<u32> = value("VERSION").split('.').take(2).map(|part| part.parse().unwrap()).collect();
        assert!(version >= vec![11, 4]);
        assert_eq!((value("FSYNC_COUNT"), value("FSYNC_MEDIAN_MICROSECONDS")), ("0", "0"));
        assert_eq!((value("RECOVERED_TRANSACTIONS"), value("DURABILITY")), ("0", "interval=5"));
        let deployment = entries(&system_information(&sources, Some("Deployment")));
        assert_eq!(deployment["sitesperhost"].as_deref(), Some("2"));
        assert_eq!(deployment["querytimeout"].as_deref(), Some("10000"));
        assert_eq!(deployment["adminport"].as_deref(), Some("21211"));
        assert_eq!(deployment["commandlogfreqtime"].as_deref(), Some("5"));
        assert_eq!(deployment["value-bytes"].as_deref(), Some("1048576"));
        assert_eq!(deployment["login-seconds"].as_deref(), Some("30"));
    }

    #[test]
    fn a_server_that_listens_everywhere_names_an_address() {
        let mut node = testing::node(1);
        node.identity.listen = "0.0.0.0:21212".parse().unwrap();
        node.identity.leader_address = [10, 1, 2, 3];
        assert_eq!(reachable_address(&node.sources()), "10.1.2.3");
    }

    #[test]
    fn each_node_names_all_others() {
        let mut node = testing::node(2);
        let host = |id: i32, name: &str| Host {
            id,
            clients: Some(format!("{name}:2{id}")),
            administrators: (id == 2).then(|| format!("[::1]:3{id}")),
        };
        node.identity.host_id = 1;
        node.hosts.hosts = vec![host(1, "db1"), host(2, "db2"), host(3, "db3")];
        node.hosts.kfactor = 1;
        let result = system_information(&node.sources(), Some("OVERVIEW"));
        let rows = &tables_of(&result)[0].rows;
        let value = |id: i64, key: &str| {
            let text = |text: &str| OwnedValue::Text(text.into());
            let found = rows.iter().find(|row| row[0] == OwnedValue::Integer(id) && row[1] == text(key));
            found.map(|row| row[2].clone()).unwrap()
        };
        let text = |text: &str| OwnedValue::Text(text.into());
        assert_eq!((value(1, "IPADDRESS"), value(1, "CLIENTPORT")), (text("db1"), text("21212")));
        assert_eq!((value(2, "IPADDRESS"), value(2, "CLIENTPORT")), (text("db2"), text("22")));
        assert_eq!((value(2, "ADMININTERFACE"), value(2, "ADMINPORT")), (text("::1"), text("32")));
        assert_eq!((value(2, "CLUSTERSTATE"), value(2, "CLUSTERSAFETY")), (text("RUNNING"), text("FULL")));
        assert_eq!((value(3, "HOSTNAME"), value(3, "ADMINPORT")), (text("db3"), text("-1")));
        assert_eq!(value(1, "FULLCLUSTERSIZE"), text("3"));
        let deployment = entries(&system_information(&node.sources(), Some("DEPLOYMENT")));
        assert_eq!((deployment["hostcount"].as_deref(), deployment["kfactor"].as_deref()), (Some("3"), Some("1")));
    }

    #[test]
    fn uptime_counts_days() {
        assert_eq!(uptime_text(Duration::from_millis(20_891)), "0 days 00:00:20.891");
        assert_eq!(uptime_text(Duration::from_secs(2 * 86_400 + 3 * 3_600 + 4 * 60 + 5)), "2 days 03:04:05.000");
    }
}
