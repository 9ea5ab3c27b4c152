//! Where partitions live, as clients ask for it to route calls themselves (wire-protocol 11.3,
//! 11.4).

use crate::hosts::Hosts;
use crate::result::{self, SystemResult, SystemTable, cells};
use ferrite_base::UserError;
use ferrite_value::SqlType;
use ferrite_value::ring::Ring;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// The id under which clients know the coordinator of transactions over several partitions.
pub const MULTI_PARTITION: i32 = 16_383;

/// No host has this id. Drivers read a number here, and send calls to any node where they have no
/// connection to that host.
const NO_HOST: i32 = -1;

/// `@Statistics TOPO`: the partitions' hosts, and the ring, raw or as compressed JSON. The same on
/// all nodes of a cluster that know the same of it.
pub fn topology(hosts: &Hosts, ring: &Ring, json: bool) -> SystemResult {
    let mut sites =
        SystemTable::new(&[("Partition", SqlType::Integer), ("Sites", SqlType::Varchar), ("Leader", SqlType::Varchar)]);
    let partitions = ring.partition_count() as i32;
    for (site, partition) in (0..partitions).chain([MULTI_PARTITION]).enumerate() {
        let place = |host: i32| format!("{host}:{site}");
        let group = if partition == MULTI_PARTITION { hosts.of_all() } else { hosts.of_partition(site) };
        let kept: Vec<String> = group.into_iter().flat_map(|group| &group.keep).map(|host| place(*host)).collect();
        let leader = place(group.and_then(|group| group.leader).unwrap_or(NO_HOST));
        sites.row(cells![partition, kept.join(","), leader]);
    }
    let configuration = if json { compressed(ring.json_text().as_bytes()) } else { ring.raw_bytes() };
    let mut configured = SystemTable::new(&[("HASHTYPE", SqlType::Varchar), ("HASHCONFIG", SqlType::Varbinary)]);
    configured.row(cells!["ELASTIC", configuration]);
    Ok(vec![sites, configured])
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("writing to memory does not fail")
}

/// Tells a subscriber, unasked.
pub fn write_push(out: &mut Vec<u8>, handle: i64, hosts: &Hosts, ring: &Ring) {
    result::write_response(out, handle, &topology(hosts, ring, false));
}

/// `@GetPartitionKeys`: a key for each partition, of the type that the caller's partitioning
/// columns have.
pub fn partition_keys(ring: &Ring, type_name: &str) -> SystemResult {
    let sql_type = match type_name.to_ascii_uppercase().as_str() {
        "INTEGER" => SqlType::Integer,
        "STRING" | "VARCHAR" => SqlType::Varchar,
        "VARBINARY" => SqlType::Varbinary,
        _ => {
            return Err(UserError::parameters(format!(
                "Type {type_name} is not a supported type of partition key, the type of partition key to return and \
                 can be one of INTEGER, STRING or VARCHAR (equivalent), or VARBINARY"
            )));
        }
    };
    let mut table = SystemTable::new(&[("PARTITION_ID", SqlType::Integer), ("PARTITION_KEY", sql_type)]);
    for (partition, key) in ring.partition_keys(sql_type).expect("these types can be partitioning keys") {
        table.row(cells![i64::from(partition.0), key]);
    }
    Ok(vec![table])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::{GroupHosts, Host};
    use crate::testing::{self, check_columns, tables_of};
    use ferrite_value::OwnedValue;
    use std::io::Read;

    fn text(value: &OwnedValue) -> &str {
        match value {
            OwnedValue::Text(text) => text,
            other => panic!("not a text: {other:?}"),
        }
    }

    fn ring_bytes(json: bool, partitions: u32) -> Vec<u8> {
        let tables = tables_of(&topology(&Hosts::alone(0), &Ring::new_default(partitions), json));
        assert_eq!(tables[1].rows.len(), 1);
        match &tables[1].rows[0][1] {
            OwnedValue::Bytes(bytes) => bytes.to_vec(),
            other => panic!("not bytes: {other:?}"),
        }
    }

    #[test]
    fn the_partitions_and_the_coordinator_have_their_sites() {
        let result = topology(&Hosts::alone(0), &Ring::new_default(2), false);
        check_columns("@Statistics", "TOPO", &result);
        let tables = tables_of(&result);
        let rows: Vec<(OwnedValue, &str, &str)> =
            tables[0].rows.iter().map(|row| (row[0].clone(), text(&row[1]), text(&row[2]))).collect();
        let expected = [(0, "0:0"), (1, "0:1"), (16_383, "0:2")];
        assert_eq!(rows, expected.map(|(partition, site)| (OwnedValue::Integer(partition), site, site)));
    }

    #[test]
    fn copies_are_sites_and_one_of_them_leads() {
        let host = |id| Host { id, clients: None, administrators: None };
        let group = GroupHosts { keep: vec![1, 2], leader: Some(2), epoch: 4 };
        let hosts = vec![host(1), host(2), host(3)];
        let mut hosts = Hosts { hosts, groups: vec![group], partitions: Vec::new(), kfactor: 1 };
        let rows = |hosts: &Hosts| -> Vec<(String, String)> {
            let tables = tables_of(&topology(hosts, &Ring::new_default(2), false));
            tables[0].rows.iter().map(|row| (text(&row[1]).to_owned(), text(&row[2]).to_owned())).collect()
        };
        let row = |sites: &str, leader: &str| (sites.to_owned(), leader.to_owned());
        let expected = [row("1:0,2:0", "2:0"), row("1:1,2:1", "2:1"), row("1:2,2:2", "2:2")];
        assert_eq!(rows(&hosts), expected);
        // The second partition is another group's, which node 3 leads.
        hosts.groups.push(GroupHosts { keep: vec![1, 3], leader: Some(3), epoch: 9 });
        hosts.partitions = vec![0, 1];
        let expected = [row("1:0,2:0", "2:0"), row("1:1,3:1", "3:1"), row("1:2,2:2", "2:2")];
        assert_eq!(rows(&hosts), expected);
        hosts.groups[0].leader = None;
        assert_eq!(rows(&hosts)[0], row("1:0,2:0", "-1:0"), "a driver reads a number");
        assert_eq!(rows(&hosts)[1], row("1:1,3:1", "3:1"));
    }

    #[test]
    fn the_ring_comes_raw_or_as_compressed_json() {
        let raw = ring_bytes(false, 3);
        assert_eq!(raw.len(), 131_076);
        let mut json = String::new();
        flate2::read::GzDecoder::new(ring_bytes(true, 3).as_slice()).read_to_string(&mut json).unwrap();
        assert!(json.starts_with("{\"-2147483648\":") && json.ends_with('}'));
        assert_eq!(json.matches(':').count(), 16_384);
    }

    #[test]
    fn a_push_is_a_response_with_both_tables() {
        let mut out = Vec::new();
        write_push(&mut out, ferrite_wire::handles::TOPOLOGY_PUSH, &Hosts::alone(0), &Ring::new_default(1));
        let response = ferrite_wire::Response::parse(&out[4..]).unwrap();
        assert_eq!(response.handle, 0x7fff_ffff_ffff_fffe);
        assert_eq!(testing::tables(&out).len(), 2);
    }

    #[test]
    fn keys_are_those_that_the_original_server_finds() {
        let ring = Ring::new_default(2);
        let integer = OwnedValue::Integer;
        let key = |text: &str| OwnedValue::Text(text.into());
        let bytes = |last: u8| OwnedValue::Bytes([0, 0, 0, last].into());
        let cases = [
            ("INTEGER", [(0, integer(0)), (1, integer(2))]),
            ("STRING", [(0, key("0")), (1, key("3"))]),
            ("VARCHAR", [(0, key("0")), (1, key("3"))]),
            ("VARBINARY", [(1, bytes(0)), (0, bytes(3))]),
        ];
        for (name, expected) in cases {
            let result = partition_keys(&ring, &name.to_lowercase());
            check_columns("@GetPartitionKeys", name, &result);
            let expected = expected.map(|(partition, key)| vec![integer(partition), key]);
            assert_eq!(tables_of(&result)[0].rows, expected);
        }
        for name in ["BIGINT", "NOSUCH"] {
            testing::check_error("@GetPartitionKeys", name, &partition_keys(&ring, name));
        }
    }
}
