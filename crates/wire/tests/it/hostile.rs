//! Bytes from peers that mean harm: whatever comes, decoding ends with a value or an error, and
//! takes no more memory than the bytes could account for. The fuzz targets start from the golden
//! vectors, so that they get past the first lengths.

use crate::support::{body, captures, hex, vectors};
use bumpalo::Bump;
use ferrite_value::Value;
use ferrite_wire::{DecodeError, Invocation, LoginRequest, LoginResponse, Parameters, Response, Table, frame};

fn bodies(member: &str) -> Vec<Vec<u8>> {
    vectors(member).iter().map(|vector| body(&hex(vector, "hex")).to_vec()).collect()
}

fn requests() -> Vec<Vec<u8>> {
    let captured = captures().into_iter().filter(|capture| !crate::support::text(capture, "id").starts_with("login"));
    bodies("invocations").into_iter().chain(captured.map(|capture| body(&hex(&capture, "request")).to_vec())).collect()
}

fn parameter_sets() -> Vec<Vec<u8>> {
    vectors("parameter_sets").iter().map(|vector| hex(vector, "hex")).collect()
}

fn tables() -> Vec<Vec<u8>> {
    let mut tables = Vec::new();
    for response in bodies("responses") {
        for table in Response::parse(&response).unwrap().tables() {
            let table = table.unwrap();
            let header = ferrite_wire::TableHeader::with_status(table.status(), table.columns());
            let mut out = Vec::new();
            let mut writer = ferrite_wire::TableWriter::begin(&mut out, &header);
            for row in table.rows() {
                writer.row(&row.unwrap().cells().map(Result::unwrap).collect::<Vec<_>>()).unwrap();
            }
            writer.finish();
            tables.push(out.split_off(4));
        }
    }
    tables
}

/// Decodes everything there is to decode in a parameter set, and checks that the ways to do so
/// agree.
fn walk_parameters(parameters: &Parameters<'_>) -> Result<(), DecodeError> {
    let arena = Bump::new();
    let decoded = parameters.decode(&arena);
    let memory_max = 128 * parameters.value_bytes().len() + 4096;
    assert!(arena.allocated_bytes() <= memory_max, "{} bytes allocated", arena.allocated_bytes());
    for i in [0, 1, parameters.count() / 2, parameters.count()] {
        let one = parameters.nth(i);
        if let Ok(values) = decoded {
            match (one, values.get(i)) {
                (Ok(None), None) => {}
                (Ok(Some(one)), Some(value)) => assert_eq!(format!("{one:?}"), format!("{value:?}")),
                (Err(DecodeError::ArrayNotAllowed), Some(Value::Array(_))) => {}
                (one, value) => panic!("{one:?} is not {value:?}"),
            }
        }
    }
    match parameters.without_first() {
        Ok(rest) => assert_eq!(rest.count() + 1, parameters.count()),
        Err(_) => assert!(decoded.is_err() || parameters.count() == 0),
    }
    for value in decoded? {
        if let Value::Table(bytes) = value {
            let _ = walk_table(bytes);
        }
    }
    Ok(())
}

fn walk_table(bytes: &[u8]) -> Result<(), DecodeError> {
    let table = Table::parse(bytes)?;
    let _ = (table.scalar(), table.column_index("STATUS"));
    for row in table.rows() {
        let row = row?;
        for i in 0..=table.column_count() {
            let _ = row.get(i);
        }
    }
    let owned = table.to_owned_table();
    assert_eq!(owned.is_ok(), table.check().is_ok());
    owned.map(drop)
}

fn walk_response(bytes: &[u8]) -> Result<(), DecodeError> {
    let response = Response::parse(bytes)?;
    let _ = (response.scalar(), response.status());
    response.to_owned_response().map(drop)
}

fn walk_request(bytes: &[u8]) -> Result<(), DecodeError> {
    walk_parameters(&Invocation::parse(bytes).map_err(|error| error.reason)?.parameters)
}

fn walk_login(bytes: &[u8]) -> Result<(), DecodeError> {
    let _ = LoginResponse::parse(bytes);
    LoginRequest::parse(bytes).map(drop).map_err(|_| DecodeError::BadValue)
}

fn walk_parameter_set(bytes: &[u8]) -> Result<(), DecodeError> {
    walk_parameters(&Parameters::parse(bytes)?)
}

type Walk = fn(&[u8]) -> Result<(), DecodeError>;

/// Each kind of message: how to decode all of it, and good ones to start from.
fn kinds() -> [(Walk, Vec<Vec<u8>>); 5] {
    [
        (walk_login, bodies("logins").into_iter().chain(bodies("login_responses")).collect()),
        (walk_request, requests()),
        (walk_parameter_set, parameter_sets()),
        (walk_response, bodies("responses")),
        (walk_table, tables()),
    ]
}

#[test]
fn every_prefix_is_an_error() {
    for (walk, messages) in kinds() {
        for message in messages {
            for length in 0..message.len() {
                let prefix = &message[..length];
                // An array that ends after its element type is how one client writes an empty one.
                let ends_in_array = length >= 2 && prefix[length - 2] == 0x9d;
                assert!(walk(prefix).is_err() || ends_in_array, "{prefix:02x?}");
            }
        }
    }
}

#[test]
fn changed_bytes_do_no_harm() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    const TELLING: [u8; 8] = [0x00, 0x01, 0x7f, 0x80, 0xff, 0x9d, 0x15, 0x03];
    for (walk, messages) in kinds() {
        for message in messages {
            for _ in 0..400 {
                let mut changed = message.clone();
                for _ in 0..1 + random() % 4 {
                    let at = random() as usize % changed.len();
                    changed[at] = if random() % 2 == 0 { TELLING[random() as usize % 8] } else { random() as u8 };
                }
                let _ = walk(&changed);
            }
        }
    }
}

/// Half of the inputs as they are, half as changes to a good message: index of the message, then
/// pairs of place and byte.
fn fuzz(walk: Walk, messages: &[Vec<u8>]) {
    bolero::check!().with_test_time(std::time::Duration::from_secs(1)).for_each(|input: &[u8]| {
        match input {
            [choice, message, changes @ ..] if choice % 2 == 0 => {
                let mut changed = messages[*message as usize % messages.len()].clone();
                for change in changes.chunks_exact(2) {
                    let at = change[0] as usize * (changed.len().div_ceil(256)) % changed.len();
                    changed[at] = change[1];
                }
                let _ = walk(&changed);
            }
            raw => drop(walk(raw)),
        };
    });
}

#[test]
fn fuzz_login() {
    let messages = bodies("logins").into_iter().chain(bodies("login_responses")).collect::<Vec<_>>();
    fuzz(walk_login, &messages);
}

#[test]
fn fuzz_invocation() {
    fuzz(walk_request, &requests());
}

#[test]
fn fuzz_parameters() {
    fuzz(walk_parameter_set, &parameter_sets());
}

#[test]
fn fuzz_response() {
    fuzz(walk_response, &bodies("responses"));
}

#[test]
fn fuzz_table() {
    fuzz(walk_table, &tables());
}

#[test]
fn fuzz_frames() {
    bolero::check!().with_test_time(std::time::Duration::from_secs(1)).for_each(|input: &[u8]| {
        let mut rest = input;
        while let Ok(Some((consumed, body))) = frame::split(rest) {
            assert_eq!(consumed, body.len() + 4);
            rest = &rest[consumed..];
        }
    });
}
