//! The hash, the ring, partition keys and polygons against the vectors that real clients agree on
//! (`tests/data`).

use bumpalo::Bump;
use ferrite_base::PartitionId;
use ferrite_value::geography::{Polygon, parse_point};
use ferrite_value::hash::{partition_token, partition_token_bytes, partition_token_i64};
use ferrite_value::ring::Ring;
use ferrite_value::{Decimal, OwnedValue, SqlType, Value};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

fn load(text: &str) -> Json {
    serde_json::from_str(text).unwrap()
}

fn hex(text: &str) -> Vec<u8> {
    ferrite_value::text::parse_hex_bytes(text).unwrap()
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn tokens_and_owners_agree_with_the_clients() {
    let data = load(include_str!("../data/hash.json"));
    let rings: Vec<(u32, Ring)> = [1, 2, 3, 4, 6, 8, 12, 16].map(|count| (count, Ring::new_default(count))).into();
    for vector in data["vectors"].as_array().unwrap() {
        let token = vector["token"].as_i64().map(|token| token as i32);
        if let Some(bytes) = vector["hashed_bytes"].as_str() {
            let bytes = hex(bytes);
            assert_eq!(Some(partition_token_bytes(&bytes)), token, "{vector}");
            if let Ok(eight) = <[u8; 8]>::try_from(bytes) {
                assert_eq!(Some(partition_token_i64(i64::from_le_bytes(eight))), token, "{vector}");
            }
        }
        for (count, ring) in &rings {
            let owner = vector["partition"][count.to_string()].as_u64().unwrap();
            assert_eq!(ring.partition_of_optional(token).0 as u64, owner, "{vector} of {count}");
        }

        let description = vector["desc"].as_str().unwrap();
        // What clients send to the wrong partition by mistake; the server goes by the value that it
        // will store.
        if description.contains("given for") || description.contains("long value for varchar") {
            continue;
        }
        let column = SqlType::from_code(vector["param_type"].as_i64().unwrap() as i8).unwrap();
        let is_bytes = column == SqlType::Varbinary || description.contains("bytes for");
        let bytes = if is_bytes { vector["value"].as_str().map(hex) } else { None };
        let value = match &vector["value"] {
            _ if token.is_none() => Value::Null,
            _ if is_bytes => Value::Bytes(bytes.as_deref().unwrap()),
            Json::Number(number) => Value::Integer(number.as_i64().unwrap()),
            // 64-bit integers are strings in the file; as a string for an integer column they mean
            // the same.
            Json::String(text) => Value::Text(text),
            other => panic!("{other}"),
        };
        assert_eq!(partition_token(&value, column).unwrap(), token, "{vector}");
    }
}

#[test]
fn routing_values_are_converted_as_they_will_be_stored() {
    assert_eq!(partition_token(&Value::Text("\\N"), SqlType::Varchar).unwrap(), None);
    assert_eq!(partition_token(&Value::Text("\\N"), SqlType::Bigint).unwrap(), None);
    let forty_two = Some(partition_token_i64(42));
    assert_eq!(partition_token(&Value::Text(" 42 "), SqlType::Bigint).unwrap(), forty_two);
    assert_eq!(partition_token(&Value::Text("X'2A'"), SqlType::Bigint).unwrap(), forty_two);
    assert_eq!(
        partition_token(&Value::Integer(42), SqlType::Varchar).unwrap(),
        partition_token(&Value::Text("42"), SqlType::Varchar).unwrap()
    );
    assert_eq!(
        partition_token(&Value::Text("0102"), SqlType::Varbinary).unwrap(),
        Some(partition_token_bytes(&[1, 2]))
    );
    let error = partition_token(&Value::Text("abc"), SqlType::Bigint).unwrap_err();
    assert_eq!(error.message(), "unable to convert string abc to long target parameter");
    for whole in [Value::Text("42.0"), Value::Text("4.2e1"), Value::Float(42.0), Value::Timestamp(42)] {
        assert_eq!(partition_token(&whole, SqlType::Bigint).unwrap(), forty_two, "{whole:?}");
    }
    let decimal = |text: &str| Value::Decimal(Decimal::parse(text).unwrap());
    for (value, words) in [
        (Value::Float(1.5), "1.5 is not a whole number, as needed for the BIGINT partitioning column"),
        (decimal("1.5"), "1.500000000000 is not a whole number, as needed for the BIGINT partitioning column"),
        (Value::Float(1e30), "1.0E30 is out of range for the BIGINT partitioning column"),
        (decimal("1e20"), "100000000000000000000.000000000000 is out of range for the BIGINT partitioning column"),
        (Value::Text("1.5"), "unable to convert string 1.5 to long target parameter"),
    ] {
        assert_eq!(partition_token(&value, SqlType::Bigint).unwrap_err().message(), words);
    }
    assert!(partition_token(&Value::Bytes(&[1, 2, 3]), SqlType::Bigint).is_err());
}

#[test]
fn default_rings_are_the_servers() {
    let data = load(include_str!("../data/rings.json"));
    for vector in data["default_16384"].as_array().unwrap() {
        let ring = Ring::new_default(vector["partitions"].as_u64().unwrap() as u32);
        let raw = ring.raw_bytes();
        assert_eq!(raw.len() as u64, vector["raw_length"].as_u64().unwrap());
        assert_eq!(hex_of(&Sha256::digest(&raw)), vector["raw_sha256"].as_str().unwrap(), "{}", vector["partitions"]);
        // Rings rebuilt from their entries find the same owners as the constructed ones.
        let entries: Vec<(i32, PartitionId)> = ring.entries().collect();
        assert_eq!(Ring::from_entries(&entries).unwrap(), ring);
        assert_eq!(Ring::from_raw_bytes(&raw).unwrap(), ring);
    }
}

#[test]
fn small_ring_is_the_accepted_one() {
    let data = load(include_str!("../data/rings.json"));
    let small = &data["small"];
    let ring = Ring::new_even(8, 3);
    assert_eq!(hex_of(&ring.raw_bytes()), small["raw_hex"].as_str().unwrap());
    assert_eq!(ring.json_text(), small["json"].as_str().unwrap());
}

#[test]
fn owner_is_that_of_the_greatest_token_not_above() {
    let uneven = Ring::from_entries(&[
        (i32::MIN, PartitionId(1)),
        (-5, PartitionId(0)),
        (0, PartitionId(2)),
        (i32::MAX, PartitionId(0)),
    ])
    .unwrap();
    let mut rings = vec![uneven];
    rings.extend([1, 2, 3, 7, 8, 12, 1_024].map(Ring::new_default));
    rings.extend([1, 2, 3].map(|count| Ring::new_even(8, count)));
    for ring in rings {
        let entries: Vec<(i32, PartitionId)> = ring.entries().collect();
        for pair in entries.windows(2) {
            assert_eq!(ring.partition_of(pair[0].0), pair[0].1);
            assert_eq!(ring.partition_of(pair[1].0 - 1), pair[0].1);
            assert_eq!(ring.partition_of(pair[1].0), pair[1].1);
        }
        assert_eq!(ring.partition_of(i32::MAX), entries.last().unwrap().1);
    }
}

#[test]
fn illegal_rings_are_refused() {
    assert!(Ring::from_entries(&[]).is_none());
    assert!(Ring::from_entries(&[(0, PartitionId(0))]).is_none());
    assert!(Ring::from_entries(&[(i32::MIN, PartitionId(0)), (i32::MIN, PartitionId(1))]).is_none());
    assert!(Ring::from_entries(&[(i32::MIN, PartitionId(u32::MAX))]).is_none());

    let raw = Ring::new_even(8, 3).raw_bytes();
    for length in 0..raw.len() {
        assert!(Ring::from_raw_bytes(&raw[..length]).is_none(), "{length}");
    }
    for (at, byte) in [(0, 0xff), (3, 9), (4, 0), (8, 0x80), (8, 1)] {
        let mut wrong = raw.clone();
        wrong[at] = byte;
        assert!(Ring::from_raw_bytes(&wrong).is_none(), "byte {at}");
    }
}

#[test]
fn partition_keys_are_those_of_the_vectors() {
    let data = load(include_str!("../data/partition_keys.json"));
    for vector in data["vectors"].as_array().unwrap() {
        let ring = Ring::new_default(vector["partitions"].as_u64().unwrap() as u32);
        for (word, ty) in
            [("INTEGER", SqlType::Integer), ("STRING", SqlType::Varchar), ("VARBINARY", SqlType::Varbinary)]
        {
            let keys: Vec<Json> = ring
                .partition_keys(ty)
                .unwrap()
                .into_iter()
                .map(|(partition, key)| match key {
                    OwnedValue::Integer(x) => serde_json::json!([partition.0, x]),
                    OwnedValue::Text(x) => serde_json::json!([partition.0, x]),
                    OwnedValue::Bytes(x) => serde_json::json!([partition.0, hex_of(&x)]),
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!(Json::from(keys), vector[word], "{word} of {}", vector["partitions"]);
        }
    }
    assert!(Ring::new_default(2).partition_keys(SqlType::Float).is_none());
}

#[test]
fn polygons_encode_as_clients_do() {
    let data = load(include_str!("../data/geography.json"));
    for vector in data["vectors"].as_array().unwrap() {
        let polygon = Polygon::parse(vector["wkt"].as_str().unwrap()).unwrap();
        let encoded = polygon.encode();
        assert_eq!(hex_of(&encoded), vector["hex"].as_str().unwrap(), "{}", vector["id"]);
        assert_eq!(encoded.len() as u64, vector["length"].as_u64().unwrap());
        // Degrees come back from the unit sphere but for the last bits, which the text does not
        // show.
        let decoded = Polygon::decode(&encoded).unwrap();
        assert_eq!(decoded.to_string(), polygon.to_string());
        for end in 0..encoded.len() {
            assert!(Polygon::decode(&encoded[..end]).is_err());
        }
    }
}

#[test]
fn shapes_have_text_forms() {
    let arena = Bump::new();
    let polygon = Polygon::parse("polygon((0 0,1 0,1 1,0 0))").unwrap();
    assert_eq!(polygon.to_string(), "POLYGON ((0.0 0.0, 1.0 0.0, 1.0 1.0, 0.0 0.0))");
    let encoded = polygon.encode();
    let text = ferrite_value::convert::to_text(Value::Geography(&encoded), &arena);
    assert_eq!(text, "POLYGON ((0.0 0.0, 1.0 0.0, 1.0 1.0, 0.0 0.0))");
    assert_eq!(parse_point(" point ( 2.5   48.5 ) ").unwrap().to_string(), "POINT (2.5 48.5)");
    assert_eq!(parse_point("POINT(-71 4.25e1)").unwrap().to_string(), "POINT (-71.0 42.5)");
    assert_eq!(parse_point("POINT(-1e-20 1e-12)").unwrap().to_string(), "POINT (0.0 0.000000000001)");
    for bad in ["", "POINT", "POINT()", "POINT(1)", "POINT(1 2", "POINT(1 2) x", "POINT(181 0)", "POINT(0 91)"] {
        assert!(parse_point(bad).is_err(), "{bad}");
    }
    for bad in
        ["POINT(1 2)", "POLYGON()", "POLYGON(())", "POLYGON((0 0,1 0,0 0))", "POLYGON((0 0,1 0,1 1))", "POLYGON((é))"]
    {
        assert!(Polygon::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn polygon_counts_are_not_trusted() {
    let mut bytes = Polygon::parse("POLYGON((0 0,1 0,1 1,0 0))").unwrap().encode();
    bytes[3..7].copy_from_slice(&i32::MAX.to_be_bytes());
    assert!(Polygon::decode(&bytes).is_err());
    bytes[3..7].copy_from_slice(&1i32.to_be_bytes());
    bytes[8..12].copy_from_slice(&i32::MAX.to_be_bytes());
    assert!(Polygon::decode(&bytes).is_err());
}
