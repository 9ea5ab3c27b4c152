//! Which node leads what, as the cluster says it: `@Statistics TOPO` and `@SystemCatalog
//! PROCEDURES` (wire-protocol 11), asked for and pushed.
//!
//! It only saves a hop: a node passes on what it does not lead. So whatever is not understood, or
//! is not known yet, is left to chance, and an answer of another shape changes nothing.

use crate::connection::Connection;
use ferrite_base::limits::CLIENT_NODES_MAX;
use ferrite_value::hash::partition_token;
use ferrite_value::ring::Ring;
use ferrite_value::{SqlType, Value};
use ferrite_wire::{DecodeError, Parameters, Response, Table, handles};
use std::collections::HashMap;

/// The partition under which the leader of transactions over several partitions is told.
const COORDINATOR: i32 = 16_383;
/// Handles of the driver's own questions besides those of the pushes.
const SUBSCRIPTION: i64 = handles::RESERVED_MIN;
const OVERVIEW: i64 = handles::RESERVED_MIN + 1;

/// Where calls should go. Empty at first.
#[derive(Debug, Default)]
pub struct Topology {
    ring: Option<Ring>,
    /// The host that leads each partition.
    leaders: HashMap<u32, i32>,
    coordinator: Option<i32>,
    /// All hosts that have a copy of something, ascending.
    hosts: Vec<i32>,
    /// Those that led something, and lead nothing any more.
    deposed: Vec<i32>,
    /// Single-partition procedures, and what decides their partition.
    procedures: HashMap<Box<str>, Partitioning>,
}

#[derive(Clone, Copy, Debug)]
struct Partitioning {
    /// None: the caller names the partition.
    parameter: Option<usize>,
    column: SqlType,
}

/// What a message told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Learned {
    /// Nothing, or not in a form that is understood.
    Nothing,
    /// Who leads.
    Leaders,
    /// How procedures are partitioned.
    Procedures,
    /// Host id and `host:port` of each node.
    Nodes(Vec<(i32, String)>),
}

impl Topology {
    /// Asks to be told of changes, and for what is so now. The answers come as
    /// [`Event::Pushed`](crate::event_loop::Event::Pushed).
    pub fn subscribe<C>(connection: &mut Connection<C>) {
        connection.ask("@Subscribe", &("TOPOLOGY",), SUBSCRIPTION);
        connection.ask("@SystemCatalog", &("PROCEDURES",), handles::PROCEDURES_PUSH);
        Topology::ask_leaders(connection);
    }

    /// Asks who leads.
    pub fn ask_leaders<C>(connection: &mut Connection<C>) {
        connection.ask("@Statistics", &("TOPO", 0i32), handles::TOPOLOGY_PUSH);
    }

    /// Asks for the addresses of all nodes.
    pub fn ask_nodes<C>(connection: &mut Connection<C>) {
        connection.ask("@SystemInformation", &("OVERVIEW",), OVERVIEW);
    }

    /// Takes a message that nobody asked for, or the answer to a question of this type's.
    pub fn learn(&mut self, response: &Response<'_>) -> Learned {
        if !response.is_success() {
            return Learned::Nothing;
        }
        let learned = match response.handle {
            handles::TOPOLOGY_PUSH => self.learn_leaders(response),
            handles::PROCEDURES_PUSH => self.learn_procedures(response),
            OVERVIEW => nodes_of(response),
            _ => return Learned::Nothing,
        };
        learned.unwrap_or(Learned::Nothing)
    }

    /// All hosts of the cluster that have a copy of something.
    pub fn hosts(&self) -> &[i32] {
        &self.hosts
    }

    /// Since it was asked for last: the hosts that led something, and lead nothing any more.
    pub fn take_deposed(&mut self) -> Vec<i32> {
        std::mem::take(&mut self.deposed)
    }

    /// The host that leads this call's partition or, if it has none of its own, transactions over
    /// several. None: not known, any node will do.
    pub fn leader(&self, procedure: &str, parameters: &Parameters<'_>) -> Option<i32> {
        let Some(partitioning) = self.procedures.get(procedure) else {
            return self.coordinator;
        };
        let value = parameters.nth(partitioning.parameter?).ok()??;
        let token = partition_token(&value, partitioning.column).ok()?;
        let partition = self.ring.as_ref()?.partition_of_optional(token);
        self.leaders.get(&partition.0).copied()
    }

    /// The same of a request as [`Prepared::write`](crate::Prepared::write) makes it, whose handle
    /// stands at `handle_at`.
    pub fn leader_of_request(&self, request: &[u8], handle_at: usize) -> Option<i32> {
        // Length, layout, the length of the name.
        let procedure = std::str::from_utf8(request.get(9..handle_at)?).ok()?;
        let parameters = Parameters::parse(request.get(handle_at + 8..)?).ok()?;
        self.leader(procedure, &parameters)
    }

    fn learn_leaders(&mut self, response: &Response<'_>) -> Result<Learned, DecodeError> {
        let mut tables = response.tables();
        let (Some(sites), Some(configuration)) = (tables.next().transpose()?, tables.next().transpose()?) else {
            return Ok(Learned::Nothing);
        };
        let mut leaders = HashMap::new();
        let mut coordinator = None;
        let mut hosts = Vec::new();
        let (Some(sites), Some(configuration)) =
            (cells(&sites, ["Partition", "Sites", "Leader"])?, cells(&configuration, ["HASHCONFIG"])?)
        else {
            return Ok(Learned::Nothing);
        };
        for [partition, sites, leader] in sites {
            let (Value::Integer(partition), Value::Text(leader)) = (partition, leader) else {
                continue;
            };
            if let Value::Text(sites) = sites {
                hosts.extend(sites.split(',').filter_map(host_of));
            }
            let Some(host) = host_of(leader) else {
                continue;
            };
            hosts.push(host);
            if partition == i64::from(COORDINATOR) {
                coordinator = Some(host);
            } else if let Ok(partition) = u32::try_from(partition) {
                leaders.insert(partition, host);
            }
        }
        // Without a ring that is understood, calls of single partitions go to all in turn.
        self.ring = match configuration.first() {
            Some([Value::Bytes(raw)]) => Ring::from_raw_bytes(raw),
            _ => None,
        };
        hosts.sort_unstable();
        hosts.dedup();
        let led = self.leaders.values().copied().chain(self.coordinator);
        let leads = |host: &i32| leaders.values().any(|leader| leader == host) || coordinator == Some(*host);
        self.deposed.extend(led.filter(|host| !leads(host)));
        self.deposed.sort_unstable();
        self.deposed.dedup();
        (self.leaders, self.coordinator, self.hosts) = (leaders, coordinator, hosts);
        Ok(Learned::Leaders)
    }

    fn learn_procedures(&mut self, response: &Response<'_>) -> Result<Learned, DecodeError> {
        let Some(table) = response.tables().next().transpose()? else {
            return Ok(Learned::Nothing);
        };
        let mut procedures = HashMap::new();
        let Some(rows) = cells(&table, ["PROCEDURE_NAME", "REMARKS"])? else {
            return Ok(Learned::Nothing);
        };
        for [name, remarks] in rows {
            let (Value::Text(name), Value::Text(remarks)) = (name, remarks) else {
                continue;
            };
            if let Some(partitioning) = Partitioning::from_remarks(remarks) {
                procedures.insert(name.into(), partitioning);
            }
        }
        self.procedures = procedures;
        Ok(Learned::Procedures)
    }
}

impl Partitioning {
    /// From the JSON object of flat members that servers publish (wire-protocol 11.6). None if the
    /// procedure is not of a single partition.
    fn from_remarks(remarks: &str) -> Option<Partitioning> {
        if member(remarks, "singlePartition")? != "true" {
            return None;
        }
        let parameter: i32 = member(remarks, "partitionParameter")?.parse().ok()?;
        let Ok(parameter) = usize::try_from(parameter) else {
            // Its type is not one either.
            return Some(Partitioning { parameter: None, column: SqlType::Bigint });
        };
        let code: i8 = member(remarks, "partitionParameterType")?.parse().ok()?;
        Some(Partitioning { parameter: Some(parameter), column: SqlType::from_code(code)? })
    }
}

/// The text of a number or a word of a flat JSON object.
fn member<'t>(object: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = object.split_once(&format!("\"{name}\""))?;
    let value = rest.trim_start().strip_prefix(':')?.trim_start();
    let end = value.find(|character: char| character != '-' && !character.is_ascii_alphanumeric());
    Some(&value[..end.unwrap_or(value.len())])
}

/// The host of `host:site`.
fn host_of(site: &str) -> Option<i32> {
    let (host, _) = site.split_once(':')?;
    host.parse().ok().filter(|host| *host >= 0)
}

/// Addresses by `HOST_ID`, in the order of the rows.
fn nodes_of(response: &Response<'_>) -> Result<Learned, DecodeError> {
    let Some(table) = response.tables().next().transpose()? else {
        return Ok(Learned::Nothing);
    };
    // A node's rows stand together or do not; there are few nodes.
    let mut nodes: Vec<(i32, Option<&str>, Option<u16>)> = Vec::new();
    let Some(rows) = cells(&table, ["HOST_ID", "KEY", "VALUE"])? else {
        return Ok(Learned::Nothing);
    };
    for [host, key, value] in rows {
        let (Value::Integer(host), Value::Text(key), Value::Text(value)) = (host, key, value) else {
            continue;
        };
        let Ok(host) = i32::try_from(host) else {
            continue;
        };
        if key != "IPADDRESS" && key != "CLIENTPORT" {
            continue;
        }
        let at = match nodes.iter().position(|node| node.0 == host) {
            Some(at) => at,
            None if nodes.len() < CLIENT_NODES_MAX => {
                nodes.push((host, None, None));
                nodes.len() - 1
            }
            None => continue,
        };
        match key {
            "IPADDRESS" => nodes[at].1 = Some(value),
            _ => nodes[at].2 = value.parse().ok(),
        }
    }
    let address = |(host, ip, port): (i32, Option<&str>, Option<u16>)| {
        let ip = ip.filter(|ip| !ip.is_empty())?;
        let port = port.filter(|port| *port > 0)?;
        Some((host, if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }))
    };
    Ok(Learned::Nodes(nodes.into_iter().filter_map(address).collect()))
}

/// These columns of all rows. None if one of them is not there.
#[allow(clippy::type_complexity, reason = "rows of cells")]
fn cells<'a, const N: usize>(table: &Table<'a>, names: [&str; N]) -> Result<Option<Vec<[Value<'a>; N]>>, DecodeError> {
    let places = names.map(|name| table.column_index(name));
    let mut rows = Vec::new();
    if places.contains(&None) {
        return Ok(None);
    }
    for row in table.rows() {
        let row = row?;
        let mut values = [Value::Null; N];
        for (value, place) in values.iter_mut().zip(places.iter().flatten()) {
            *value = row.get(*place)?.unwrap_or(Value::Null);
        }
        rows.push(values);
    }
    Ok(Some(rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_wire::{ResponseWriter, TableHeader};

    #[test]
    fn remarks_say_what_decides_the_partition() {
        let read = |remarks: &str| Partitioning::from_remarks(remarks).map(|found| (found.parameter, found.column));
        let of = |parameter: i32, code: i8| {
            format!(
                r#"{{"readOnly":false,"singlePartition":true,"partitionParameter":{parameter},"partitionParameterType":{code},"compound":false}}"#
            )
        };
        assert_eq!(read(&of(0, 6)), Some((Some(0), SqlType::Bigint)));
        assert_eq!(read(&of(3, 9)), Some((Some(3), SqlType::Varchar)));
        assert_eq!(read(&of(-1, -1)), Some((None, SqlType::Bigint)));
        assert_eq!(read(&of(0, 77)), None);
        assert_eq!(
            read(r#"{ "singlePartition" : true , "partitionParameterType" : 25, "partitionParameter" : 1 }"#),
            Some((Some(1), SqlType::Varbinary))
        );
        for remarks in [
            r#"{"readOnly":true,"singlePartition":false}"#,
            r#"{"singlePartition":true}"#,
            r#"{"singlePartition":true,"partitionParameter":99999999999,"partitionParameterType":6}"#,
            r#""singlePartition""#,
            "",
            "not JSON",
        ] {
            assert_eq!(read(remarks), None, "{remarks}");
        }
    }

    /// An overview of this many hosts, and what is learned of it.
    fn overview(hosts: usize) -> Learned {
        let columns = [("HOST_ID", SqlType::Integer), ("KEY", SqlType::Varchar), ("VALUE", SqlType::Varchar)];
        let header = TableHeader::new(columns);
        let mut out = Vec::new();
        let mut response = ResponseWriter::begin(&mut out, OVERVIEW);
        let mut table = response.table(&header);
        for host in 0..hosts {
            for (key, value) in [("CLIENTPORT", "21212"), ("HOSTNAME", "x"), ("IPADDRESS", "10.0.0.1")] {
                table.row(&[Value::Integer(host as i64), Value::Text(key), Value::Text(value)]).unwrap();
            }
        }
        table.finish();
        response.finish();
        Topology::default().learn(&Response::parse(&out[4..]).unwrap())
    }

    #[test]
    fn there_are_so_many_nodes_and_not_one_more() {
        for (hosts, found) in [(2, 2), (CLIENT_NODES_MAX, CLIENT_NODES_MAX), (CLIENT_NODES_MAX + 1, CLIENT_NODES_MAX)] {
            let Learned::Nodes(nodes) = overview(hosts) else { panic!("an overview") };
            assert_eq!(nodes.len(), found);
            assert_eq!(nodes[1], (1, "10.0.0.1:21212".to_string()));
        }
    }
}
