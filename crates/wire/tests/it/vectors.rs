//! Every golden vector is decoded to what it says, and encoded back to the same bytes where there
//! is one way to do so.

use crate::support::{assert_table, assert_value, body, captures, hex, integer, sql_type, text, vectors};
use bumpalo::Bump;
use ferrite_value::{SqlType, Value};
use ferrite_wire::parameters::write_value;
use ferrite_wire::writer::Put;
use ferrite_wire::{
    DecodeError, HashScheme, Invocation, LoginFailure, LoginRequest, LoginResponse, Parameters, Response,
    ResponseWriter, Service, Status, TableHeader, invocation, login, scalar,
};
use serde_json::Value as Json;

#[test]
fn login_requests() {
    for vector in vectors("logins") {
        let frame = hex(&vector, "hex");
        let request = LoginRequest::parse(body(&frame)).unwrap();
        assert_eq!(i64::from(request.version), integer(&vector["protocol_version"]));
        assert_eq!(request.service, Service::Database);
        assert_eq!(request.user, text(&vector, "user"));
        let (scheme, digest) = match text(&vector, "hash") {
            "SHA-1" => (HashScheme::Sha1, "e5e9fa1ba31ecd1ae84f75caaa474f3a663f05f4"),
            _ => (HashScheme::Sha256, "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"),
        };
        assert_eq!(request.scheme, scheme);
        assert_eq!(request.digest, crate::support::from_hex(digest));
        let mut written = Vec::new();
        request.write(&mut written);
        assert_eq!(written, frame);
    }
}

#[test]
fn logins_are_refused_with_the_code_that_fits() {
    let good = hex(&vectors("logins")[1], "hex");
    let good = &good[4..];
    let changed = |at: usize, byte: u8| {
        let mut changed = good.to_vec();
        changed[at] = byte;
        changed
    };
    let cases: [(Vec<u8>, LoginFailure); 7] = [
        (changed(0, 0x80), LoginFailure::Malformed),
        (changed(1, 3), LoginFailure::Malformed),
        (changed(1, 0), LoginFailure::Rejected),
        (changed(6, b'x'), LoginFailure::ServiceNotAvailable),
        (changed(2, 0x7f), LoginFailure::Malformed),
        (good[..good.len() - 1].to_vec(), LoginFailure::Rejected),
        ([good, &[0]].concat(), LoginFailure::Rejected),
    ];
    for (bytes, failure) in cases {
        assert_eq!(LoginRequest::parse(&bytes), Err(failure));
    }
}

#[test]
fn login_responses() {
    for vector in vectors("login_responses") {
        let frame = hex(&vector, "hex");
        let Ok(LoginResponse::Accepted(accepted)) = LoginResponse::parse(body(&frame)) else {
            panic!("{vector} is a success");
        };
        let decoded = &vector["decoded"];
        assert_eq!(i64::from(accepted.host_id), integer(&decoded["host_id"]));
        assert_eq!(accepted.connection_id, integer(&decoded["connection_id"]));
        assert_eq!(accepted.cluster_start_ms, integer(&decoded["cluster_start_ms"]));
        assert_eq!(accepted.leader_address.map(|byte| byte.to_string()).join("."), text(decoded, "leader_ipv4"));
        assert_eq!(accepted.build, text(decoded, "build_string"));
        let mut written = Vec::new();
        accepted.write(&mut written);
        assert_eq!(written, frame);
    }
    for vector in vectors("login_failures") {
        let frame = hex(&vector, "hex");
        let code = integer(&vector["code"]) as i8;
        assert_eq!(LoginResponse::parse(body(&frame)), Ok(LoginResponse::Refused { code, reason: None }));
        let mut written = Vec::new();
        login::write_failure(&mut written, LoginFailure::from_code(code).unwrap());
        assert_eq!(written, frame);
    }
}

/// Encodes a value as a parameter of the named type, to compare with what a client sent for it.
fn encode_typed(out: &mut Vec<u8>, value: &Value<'_>, type_name: &str, element: Option<&str>) {
    match (type_name, value) {
        ("NULL", _) | ("VOLTTABLE", _) => write_value(out, value).unwrap(),
        ("ARRAY", Value::Array(elements)) => {
            out.put_i8(scalar::CODE_ARRAY);
            let element = element.unwrap();
            if element == "VOLTTABLE" {
                out.put_i8(scalar::CODE_TABLE);
                out.put_i16(elements.len() as i16);
                for table in *elements {
                    let Value::Table(bytes) = table else { panic!("{table:?} is no table") };
                    out.put_bytes(bytes);
                }
                return;
            }
            let sql_type = sql_type(element).unwrap();
            out.put_i8(sql_type.code());
            match sql_type {
                SqlType::Tinyint => out.put_i32(elements.len() as i32),
                _ => out.put_i16(elements.len() as i16),
            }
            elements.iter().for_each(|element| scalar::write(out, sql_type, element).unwrap());
        }
        _ => {
            let sql_type = sql_type(type_name).unwrap();
            out.put_i8(sql_type.code());
            scalar::write(out, sql_type, value).unwrap();
        }
    }
}

fn assert_parameters(parameters: &Parameters<'_>, expected: &Json, context: &str) {
    let arena = Bump::new();
    let values = parameters.decode(&arena).unwrap_or_else(|error| panic!("{context}: {error}"));
    let expected = expected.as_array().expect("parameters");
    assert_eq!((values.len(), parameters.count()), (expected.len(), expected.len()));
    for (i, (value, expected)) in values.iter().zip(expected).enumerate() {
        let expected = &expected["value"];
        assert_value(value, expected, context);
        match parameters.nth(i) {
            Ok(value) => assert_value(&value.unwrap(), expected, context),
            Err(error) => {
                assert_eq!(error, DecodeError::ArrayNotAllowed, "{context}");
                assert!(matches!(value, Value::Array(_)), "{context}");
            }
        }
    }
    assert!(parameters.nth(expected.len()).unwrap().is_none());
    if !expected.is_empty() {
        let rest = parameters.without_first().unwrap().decode(&arena).unwrap();
        rest.iter().zip(&expected[1..]).for_each(|(value, expected)| assert_value(value, &expected["value"], context));
    }
    let mut encoded = Vec::new();
    encoded.put_i16(values.len() as i16);
    for (value, expected) in values.iter().zip(expected) {
        encode_typed(&mut encoded, value, text(expected, "type"), expected["element"].as_str());
    }
    let mut received = Vec::new();
    parameters.copy_to(&mut received);
    // The Rust client's null double is the one value with two encodings.
    if !context.contains("rust_Params") {
        assert_eq!(encoded, received, "{context}");
    }
}

#[test]
fn parameter_sets() {
    let mut checked = 0;
    for vector in vectors("parameter_sets") {
        if vector["malformed"] != Json::Bool(true) {
            let bytes = hex(&vector, "hex");
            assert_parameters(&Parameters::parse(&bytes).unwrap(), &vector["params"], text(&vector, "id"));
            checked += 1;
        }
    }
    assert_eq!(checked, 60);
}

#[test]
fn malformed_senders() {
    for vector in vectors("parameter_sets") {
        if vector["malformed"] == Json::Bool(true) {
            let bytes = hex(&vector, "hex");
            let arena = Bump::new();
            let decoded = Parameters::parse(&bytes).unwrap().decode(&arena);
            match text(&vector, "id") {
                "array_empty_py" => assert!(matches!(decoded, Ok([Value::Array([])]))),
                "node_ArrTiny" => assert_eq!(decoded.unwrap_err(), DecodeError::Truncated),
                "go_Arr" => assert_eq!(decoded.unwrap_err(), DecodeError::UnknownType(0)),
                other => panic!("what is to happen to {other}?"),
            }
        }
    }
}

#[test]
fn values_written_by_their_nature_are_what_clients_send() {
    let natural = ["BIGINT", "FLOAT", "STRING", "TIMESTAMP", "DATE", "DECIMAL", "BOOLEAN", "VARBINARY"];
    let mut checked = 0;
    for vector in vectors("parameter_sets") {
        let bytes = hex(&vector, "hex");
        let arena = Bump::new();
        let Ok(values) = Parameters::parse(&bytes).unwrap().decode(&arena) else { continue };
        let is_natural = |value: &Value<'_>, name: Option<&str>| {
            !value.is_null() && name.is_some_and(|name| natural.contains(&name) || name.starts_with("GEOGRAPHY"))
        };
        let all = vector["params"].as_array().is_some_and(|parameters| {
            parameters.iter().zip(values).all(|(parameter, value)| match value {
                Value::Array(elements) => {
                    !elements.is_empty()
                        && is_natural(elements.iter().find(|e| !e.is_null()).unwrap(), parameter["element"].as_str())
                }
                value => is_natural(value, parameter["type"].as_str()),
            })
        });
        if all {
            let mut written = Vec::new();
            ferrite_wire::ParameterSet::write_set(values, &mut written).unwrap();
            assert_eq!(written, bytes, "{}", text(&vector, "id"));
            checked += 1;
        }
    }
    assert!(checked >= 20, "{checked} vectors have natural types only");
}

#[test]
fn invocations() {
    for vector in vectors("invocations") {
        let (id, decoded) = (text(&vector, "id"), &vector["decoded"]);
        let frame = hex(&vector, "hex");
        let call = Invocation::parse(body(&frame)).unwrap_or_else(|error| panic!("{id}: {error:?}"));
        assert_eq!(call.procedure, text(decoded, "procedure"));
        assert_eq!(call.handle, integer(&decoded["handle"]), "{id}");
        assert_parameters(&call.parameters, &decoded["params"], id);
        let mut expected = ferrite_wire::Extensions {
            batch_timeout_ms: decoded["batch_timeout_ms"].as_i64().map(|ms| ms as i32),
            ..Default::default()
        };
        for extension in decoded["extensions"].as_array().into_iter().flatten() {
            let number = || integer(&extension["value"]) as i32;
            match text(extension, "name") {
                "BATCH_TIMEOUT_MS" => expected.batch_timeout_ms = Some(number()),
                "ALL_PARTITION" => expected.all_partition = true,
                "PARTITION_DESTINATION" => expected.destination = Some(number()),
                "BATCH_CALL" => expected.batch_call = true,
                "REQUEST_PRIORITY" => expected.priority = Some(number() as u8),
                "REQUEST_TIMEOUT_US" => expected.request_timeout_us = Some(number()),
                "?" => {}
                other => panic!("{other} is no extension"),
            }
        }
        assert_eq!(call.extensions, expected, "{id}");

        let mut written = Vec::new();
        match integer(&decoded["type"]) {
            0 => invocation::write_call(&mut written, call.procedure, call.handle, &call.parameters).unwrap(),
            2 if id != "type2_unknown_extension" => {
                invocation::write_call_with(&mut written, call.procedure, call.handle, &expected, &call.parameters)
                    .unwrap();
            }
            _ => continue,
        }
        assert_eq!(written, frame, "{id}");
    }
}

/// Writes what was read, with the server's side of the codec.
fn rewrite(response: &Response<'_>) -> Vec<u8> {
    let mut out = b"earlier".to_vec();
    let mut writer = ResponseWriter::begin(&mut out, response.handle);
    for table in response.tables() {
        let table = table.unwrap();
        let header = TableHeader::with_status(table.status(), table.columns());
        let mut rows = writer.table(&header);
        for row in table.rows() {
            let cells: Vec<Value<'_>> = row.unwrap().cells().map(Result::unwrap).collect();
            rows.row(&cells).unwrap();
        }
        rows.finish();
    }
    // Late on purpose: they stand before the tables.
    if let Some(text) = response.application_status_text {
        writer.application_status_text(text);
    }
    writer.application_status(response.application_status);
    if let Some(text) = response.status_text {
        writer.status_text(text);
    }
    writer.status(response.status().unwrap());
    writer.round_trip_ms(response.round_trip_ms);
    writer.finish();
    assert_eq!(&out[..7], b"earlier");
    out.split_off(7)
}

#[test]
fn responses() {
    for vector in vectors("responses") {
        let (id, decoded) = (text(&vector, "id"), &vector["decoded"]);
        let frame = hex(&vector, "hex");
        let response = Response::parse(body(&frame)).unwrap_or_else(|error| panic!("{id}: {error}"));
        assert_eq!(response.handle, integer(&decoded["handle"]), "{id}");
        assert_eq!(i64::from(response.status_code), integer(&decoded["status"]), "{id}");
        assert_eq!(response.status_text, decoded["status_string"].as_str(), "{id}");
        assert_eq!(i64::from(response.application_status), integer(&decoded["app_status"]), "{id}");
        assert_eq!(response.application_status_text, decoded["app_status_string"].as_str(), "{id}");
        assert_eq!(i64::from(response.round_trip_ms), integer(&decoded["cluster_round_trip_ms"]), "{id}");
        let tables = decoded["tables"].as_array().expect("tables");
        assert_eq!(response.table_count(), tables.len(), "{id}");
        for (table, expected) in response.tables().zip(tables) {
            assert_table(&table.unwrap(), expected, id);
        }
        assert_eq!(rewrite(&response), frame, "{id}");
        let owned = response.to_owned_response().unwrap();
        assert_eq!((owned.tables.len(), owned.scalar()), (tables.len(), response.scalar()), "{id}");
    }
}

#[test]
fn frames_of_a_real_server() {
    for capture in captures() {
        let id = text(&capture, "id");
        let (request, frame) = (hex(&capture, "request"), hex(&capture, "response"));
        if id.starts_with("login") {
            let login = LoginRequest::parse(body(&request)).unwrap();
            let mut written = Vec::new();
            login.write(&mut written);
            assert_eq!(written, request, "{id}");
            let Ok(LoginResponse::Accepted(accepted)) = LoginResponse::parse(body(&frame)) else {
                panic!("{id} is a success");
            };
            let mut written = Vec::new();
            accepted.write(&mut written);
            assert_eq!(written, frame, "{id}");
            continue;
        }
        let call = Invocation::parse(body(&request)).unwrap();
        assert_eq!(call.handle, 7);
        call.parameters.decode(&Bump::new()).unwrap();
        let response = Response::parse(body(&frame)).unwrap();
        assert_eq!(response.handle, 7);
        // Of the two null doubles we send the one that most clients know; the original engine sends
        // the other.
        let engine_null = f64::MIN.to_be_bytes();
        let mut expected = frame.clone();
        while let Some(at) = expected.windows(8).position(|window| window == engine_null) {
            expected[at..at + 8].copy_from_slice(&scalar::NULL_FLOAT.to_be_bytes());
        }
        assert_eq!(rewrite(&response), expected, "{id}");
    }
}

#[test]
fn a_failure_has_its_code_behind_the_tables() {
    let code_of = |frame: &[u8]| Response::parse(&frame[4..]).map(|response| response.code.map(str::to_owned));
    let mut failure = Vec::new();
    let error = ferrite_base::UserError::constraint("23505", "a key").with_code("45001".to_owned());
    ferrite_wire::response::write_error(&mut failure, 7, &error);
    assert_eq!(code_of(&failure), Ok(Some("45001".to_owned())));
    assert_eq!(Response::parse(body(&failure)).unwrap().to_owned_response().unwrap().code.as_deref(), Some("45001"));
    // What an application has set stays where it is, and tables end where the code begins.
    let mut answered = Vec::new();
    let mut response = ResponseWriter::begin(&mut answered, 7);
    response.application_status_text("mine");
    response.status_text("no");
    response.scalar_table(5);
    response.finish_as(Status::UserAbort, "45000");
    let parsed = Response::parse(body(&answered)).unwrap();
    assert_eq!((parsed.status(), parsed.code, parsed.scalar()), (Some(Status::UserAbort), Some("45000"), Some(5)));
    assert_eq!((parsed.status_text, parsed.application_status_text), (Some("no"), Some("mine")));
    let mut failed = Vec::new();
    let mut response = ResponseWriter::begin(&mut failed, 7);
    response.application_status(9);
    response.fail(&error);
    let parsed = Response::parse(body(&failed)).unwrap();
    assert_eq!((parsed.application_status, parsed.code), (9, Some("45001")));
    // Fields of later servers are skipped, also when they are empty.
    let mut later = failure.clone();
    later.splice(later.len() - 7..later.len() - 7, [2, 0, 3, 1, 0xff]);
    assert_eq!(code_of(&later), Ok(Some("45001".to_owned())));
    // A success has nothing there.
    let mut success = Vec::new();
    ferrite_wire::response::write_scalar(&mut success, 7, 1);
    assert_eq!(code_of(&success), Ok(None));
    for (bytes, error) in [
        (&[1u8][..], ferrite_wire::DecodeError::Truncated),
        (&[1, 5, b'2'], ferrite_wire::DecodeError::Truncated),
        (&[1, -1i8 as u8], ferrite_wire::DecodeError::NegativeLength),
        (&[1, 1, 0xff], ferrite_wire::DecodeError::NotUtf8),
    ] {
        assert_eq!(code_of(&[&success[..], bytes].concat()), Err(error), "{bytes:?}");
    }
}

#[test]
fn ready_made_responses() {
    let frame_of = |id: &str| {
        let vector = vectors("responses").into_iter().find(|vector| text(vector, "id") == id);
        hex(&vector.expect("a vector of that id"), "hex")
    };
    let capture_of = |id: &str| {
        let capture = captures().into_iter().find(|capture| text(capture, "id") == id);
        hex(&capture.expect("a capture of that id"), "response")
    };
    let mut out = Vec::new();
    ferrite_wire::response::write_pong(&mut out, 1);
    assert_eq!(out, frame_of("ping"));

    let mut out = Vec::new();
    ferrite_wire::response::write_error(&mut out, 7, &ferrite_wire::failure::unknown_procedure("nosuch"));
    // A failure is that of the original server with its code behind it.
    let code = b"\x01\x0542883";
    let mut expected = capture_of("unknown_procedure");
    expected.extend_from_slice(code);
    let length = expected.len() as u32 - 4;
    expected[..4].copy_from_slice(&length.to_be_bytes());
    assert_eq!(out, expected);

    let mut out = Vec::new();
    let mut response = ResponseWriter::begin(&mut out, 7);
    response.modified_tuples(0);
    response.finish();
    assert_eq!(out, capture_of("insert"));

    let frame = frame_of("procedure_returning_long");
    let response = Response::parse(body(&frame)).unwrap();
    let mut out = Vec::new();
    ferrite_wire::response::write_scalar(&mut out, response.handle, response.scalar().unwrap());
    assert_eq!(out, frame);
    assert_eq!(response.status(), Some(Status::Success));
}
