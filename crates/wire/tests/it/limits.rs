//! At each limit and one past it, and what a response is after something went wrong.

use bumpalo::Bump;
use ferrite_base::limits::{EXTENSIONS_MAX, FRAME_BYTES_MAX};
use ferrite_base::{ErrorKind, UserError};
use ferrite_value::{SqlType, Value};
use ferrite_wire::writer::Put;
use ferrite_wire::{
    DecodeError, EncodeError, Extensions, Invocation, InvocationError, RequestWriter, Response, ResponseWriter, Status,
    Table, TableHeader, frame, invocation,
};

/// A type 2 request of procedure `P`, handle 9, with these extension bytes and one BIGINT
/// parameter.
fn extended(count: i8, extensions: &[u8]) -> Vec<u8> {
    let mut body = vec![2];
    body.put_string("P");
    body.put_i64(9);
    body.put_i8(count);
    body.extend_from_slice(extensions);
    body.put_i16(1);
    body.put_i8(6);
    body.put_i64(5);
    body
}

#[test]
fn extensions_up_to_thirty() {
    let unknown = [100, 1, 0];
    let body = extended(EXTENSIONS_MAX as i8, &unknown.repeat(EXTENSIONS_MAX));
    let call = Invocation::parse(&body).unwrap();
    assert_eq!(call.extensions, Extensions::default());
    assert!(matches!(call.parameters.nth(0), Ok(Some(Value::Integer(5)))));
    for (count, extensions) in [(31, unknown.repeat(31)), (-1, Vec::new()), (127, unknown.repeat(127))] {
        assert_eq!(
            Invocation::parse(&extended(count, &extensions)).unwrap_err(),
            InvocationError { handle: Some(9), reason: DecodeError::ExtensionCount(count) }
        );
    }
}

#[test]
fn extensions_with_wrong_sizes_and_values() {
    let refused = |extension: &[u8]| Invocation::parse(&extended(1, extension)).unwrap_err();
    for id in 1..=6 {
        assert_eq!(refused(&[id, 2, 0, 0]).reason, DecodeError::BadExtension(id as i8));
    }
    for priority in [0, 9, 0xff] {
        assert_eq!(refused(&[5, 1, priority]).reason, DecodeError::BadExtension(5));
    }
    for size_code in [20, 27, 28, 31, 32, 127, 0x80, 0xff] {
        assert_eq!(refused(&[100, size_code]), InvocationError { handle: Some(9), reason: DecodeError::Truncated });
    }
    assert!(Invocation::parse(&extended(1, &[100, 0])).is_ok());
    for priority in 1..=8 {
        let body = extended(1, &[5, 1, priority]);
        assert_eq!(Invocation::parse(&body).unwrap().extensions.priority, Some(priority));
    }
}

#[test]
fn errors_carry_the_handle_once_it_is_known() {
    let good = extended(0, &[]);
    // Layout, name length, name, handle: 14 bytes. Then the extension count, the parameter count,
    // the parameter.
    for length in 0..14 {
        assert_eq!(Invocation::parse(&good[..length]).unwrap_err().handle, None, "{length}");
    }
    for length in 14..18 {
        assert_eq!(Invocation::parse(&good[..length]).unwrap_err().handle, Some(9), "{length}");
    }
    for layout in [3, 4, 0x7f, 0xff] {
        let mut body = good.clone();
        body[0] = layout;
        assert_eq!(Invocation::parse(&body).unwrap_err(), DecodeError::UnknownLayout(layout as i8).into());
    }
    let with_name = |name: &[u8]| {
        let mut body = vec![0];
        body.put_bytes(name);
        body.put_i64(9);
        body.put_i16(0);
        Invocation::parse(&body).err()
    };
    assert_eq!(with_name(b"p"), None);
    assert_eq!(with_name(b""), Some(InvocationError { handle: Some(9), reason: DecodeError::EmptyProcedureName }));
    assert_eq!(with_name(&[0xff]), Some(InvocationError { handle: Some(9), reason: DecodeError::NotUtf8 }));
}

#[test]
fn the_largest_request_and_one_past_it() {
    let prefix = 1 + 4 + 1 + 8 + 2 + 1 + 4;
    let mut out = b"before".to_vec();
    let largest = vec![7u8; FRAME_BYTES_MAX - prefix + 1];
    assert_eq!(invocation::write_call(&mut out, "P", 1, &(largest.as_slice(),)), Err(EncodeError::FrameTooLarge));
    assert_eq!(out, b"before");
    invocation::write_call(&mut out, "P", 1, &(&largest[1..],)).unwrap();
    let (consumed, body) = frame::split(&out[6..]).unwrap().unwrap();
    assert_eq!((consumed, body.len()), (out.len() - 6, FRAME_BYTES_MAX));
    assert!(Invocation::parse(body).is_ok());
}

#[test]
fn as_many_parameters_as_the_count_can_say_and_one_more() {
    let most = vec![1i8; i16::MAX as usize];
    let mut out = Vec::new();
    invocation::write_call(&mut out, "P", 1, &most).unwrap();
    let arena = Bump::new();
    let call = Invocation::parse(&out[4..]).unwrap();
    assert_eq!(call.parameters.decode(&arena).unwrap().len(), most.len());
    let too_many = vec![1i8; i16::MAX as usize + 1];
    out.clear();
    assert_eq!(invocation::write_call(&mut out, "P", 1, &too_many), Err(EncodeError::TooMany));
    let mut writer = RequestWriter::begin(&mut out, "P", 1);
    too_many.iter().for_each(|parameter| {
        writer.parameter(parameter);
    });
    assert_eq!(writer.finish(), Err(EncodeError::TooMany));
    assert!(out.is_empty());
}

#[test]
fn parameters_appended_one_by_one_are_the_same_request() {
    let mut at_once = Vec::new();
    invocation::write_call(&mut at_once, "Vote", 14, &(5_551_234_567i64, 3i32, None::<i64>, "x", true)).unwrap();
    let mut one_by_one = Vec::new();
    let mut writer = RequestWriter::begin(&mut one_by_one, "Vote", 14);
    writer.parameter(&5_551_234_567i64).parameter(&3i32).parameter(&Value::Null).parameter("x").parameter(&1i8);
    writer.finish().unwrap();
    assert_eq!(one_by_one, at_once);
    drop(RequestWriter::begin(&mut one_by_one, "Vote", 15));
    assert_eq!(one_by_one, at_once);
}

#[test]
fn arrays_have_one_scalar_type() {
    let write = |elements: &[Value<'_>]| {
        let mut out = Vec::new();
        ferrite_wire::parameters::write_value(&mut out, &Value::Array(elements)).map(|()| out)
    };
    assert_eq!(write(&[]).unwrap(), [0x9d, 5, 0, 0]);
    assert_eq!(write(&[Value::Null, Value::Text("a")]).unwrap(), b"\x9d\x09\0\x02\xff\xff\xff\xff\0\0\0\x01a");
    for mixed in [
        &[Value::Null][..],
        &[Value::Integer(1), Value::Text("a")],
        &[Value::Array(&[])],
        &[Value::Table(&[]), Value::Null],
    ] {
        assert_eq!(write(mixed), Err(EncodeError::MixedArray));
    }
    assert_eq!(write(&vec![Value::Integer(1); i16::MAX as usize + 1]), Err(EncodeError::TooMany));
}

#[test]
fn trailing_bytes_and_misplaced_types_are_errors() {
    let decode = |bytes: &[u8]| {
        let arena = Bump::new();
        ferrite_wire::Parameters::parse(bytes)?.decode(&arena).map(<[Value<'_>]>::len)
    };
    assert_eq!(decode(&[0, 1, 3, 5]), Ok(1));
    assert_eq!(decode(&[0, 1, 3, 5, 0]), Err(DecodeError::TrailingBytes));
    assert_eq!(decode(&[0, 0, 0]), Err(DecodeError::TrailingBytes));
    assert_eq!(decode(&[0, 2, 3, 5]), Err(DecodeError::Truncated));
    assert_eq!(decode(&[0xff, 0xff, 3, 5]), Err(DecodeError::NegativeLength));
    assert_eq!(decode(&[0, 1, 9, 0, 0, 0, 1, 0xff]), Err(DecodeError::NotUtf8));
    assert_eq!(decode(&[0, 1, 0x9d, 0x9d, 0, 0]), Err(DecodeError::UnknownType(-99)));
    assert_eq!(decode(&[0, 1, 0x9d, 1, 0x7f, 0xff]), Err(DecodeError::UnknownType(1)));
    assert_eq!(decode(&[0, 1, 0x9d, 6, 0x80, 0]), Err(DecodeError::NegativeLength));
    assert_eq!(decode(&[0, 1, 21, 0xff, 0xff, 0xff, 0xff]), Err(DecodeError::UnexpectedNull));
    assert_eq!(decode(&[0, 1, 23, 2]), Err(DecodeError::BadValue));
    assert_eq!(decode(&[&[0, 1, 22], &[0x7f; 16][..]].concat()), Err(DecodeError::BadValue));
    // The empty array of the older Python client ends the frame; elsewhere its count is missing.
    assert_eq!(decode(&[0, 2, 3, 5, 0x9d, 6]), Ok(2));
    assert_eq!(decode(&[0, 2, 0x9d, 6, 3, 5]), Err(DecodeError::Truncated));
}

#[test]
fn a_failure_takes_back_what_was_written() {
    let header = TableHeader::new([("A", SqlType::Bigint), ("B", SqlType::Varchar)]);
    let error = UserError::constraint("23505", "duplicate key").with_hint("use UPSERT");
    let mut out = Vec::new();
    ferrite_wire::response::write_scalar(&mut out, 1, 10);
    let first = out.clone();

    let mut response = ResponseWriter::begin(&mut out, 2);
    response.application_status(7);
    response.application_status_text("half way");
    let mut table = response.table(&header);
    table.row(&[Value::Integer(1), Value::Text("x")]).unwrap();
    assert_eq!(table.row(&[Value::Text("x"), Value::Null]).unwrap_err().kind(), ErrorKind::Internal);
    response.fail(&error);
    ferrite_wire::response::write_scalar(&mut out, 3, 30);
    drop(ResponseWriter::begin(&mut out, 4));

    assert_eq!(&out[..first.len()], first);
    let mut rest = &out[..];
    let mut seen = Vec::new();
    while let Some((consumed, body)) = frame::split(rest).unwrap() {
        let response = Response::parse(body).unwrap();
        seen.push((response.handle, response.status().unwrap(), response.scalar()));
        if response.handle == 2 {
            assert_eq!(
                response.status_text,
                Some("VOLTDB ERROR: CONSTRAINT VIOLATION duplicate key\nhint: use UPSERT")
            );
            assert_eq!((response.table_count(), response.application_status), (0, 7));
        }
        rest = &rest[consumed..];
    }
    assert!(rest.is_empty());
    let expected = [(1, Status::Success, Some(10)), (2, Status::GracefulFailure, None), (3, Status::Success, Some(30))];
    assert_eq!(seen, expected);
}

#[test]
fn tables_can_be_taken_back_to_a_mark() {
    let mut out = Vec::new();
    let mut response = ResponseWriter::begin(&mut out, 1);
    response.scalar_table(1);
    let mark = response.mark();
    response.modified_tuples(2);
    response.status_table(3);
    response.rollback(mark);
    response.modified_tuples(4);
    response.status_text("fine");
    response.finish();
    let response = Response::parse(&out[4..]).unwrap();
    let scalars: Vec<_> = response.tables().map(|table| table.unwrap().scalar().unwrap()).collect();
    assert_eq!((scalars, response.status_text), (vec![1, 4], Some("fine")));
}

#[test]
fn a_response_past_the_frame_limit_becomes_a_failure() {
    let header = TableHeader::new([("X", SqlType::Varbinary)]);
    let quarter = vec![7u8; FRAME_BYTES_MAX / 4];
    let mut out = Vec::new();
    let mut response = ResponseWriter::begin(&mut out, 5);
    for _ in 0..3 {
        let mut table = response.table(&header);
        table.row(&[Value::Bytes(&quarter)]).unwrap();
        table.finish();
    }
    let mut table = response.table(&header);
    assert_eq!(table.row(&[Value::Bytes(&quarter)]).unwrap_err().kind(), ErrorKind::Limit);
    let encoded = vec![0u8; FRAME_BYTES_MAX];
    let mark = response.mark();
    assert_eq!(response.encoded_table(&encoded).unwrap_err().kind(), ErrorKind::Limit);
    response.rollback(mark);
    response.finish();
    let response = Response::parse(&out[4..]).unwrap();
    assert_eq!((response.handle, response.status()), (5, Some(Status::GracefulFailure)));
}

#[test]
fn internal_fields_of_a_response_are_stepped_over() {
    let mut body = vec![0];
    body.put_i64(6);
    body.put_i8(0x50);
    body.put_i8(1);
    body.put_i8(-128);
    body.put_i32(3);
    body.put_bytes(b"exception");
    body.put_i16(2);
    body.put_i64(0);
    body.put_i16(0);
    let response = Response::parse(&body).unwrap();
    assert_eq!((response.handle, response.round_trip_ms, response.table_count()), (6, 3, 0));
}

#[test]
fn lengths_inside_tables_must_agree() {
    let header = TableHeader::new([("A", SqlType::Integer)]);
    let mut out = Vec::new();
    let mut table = ferrite_wire::TableWriter::begin(&mut out, &header);
    table.row(&[Value::Integer(1)]).unwrap();
    table.finish();
    let good = out.split_off(4);
    assert!(Table::parse(&good).unwrap().check().is_ok());
    let check = |at: usize, byte: u8| {
        let mut changed = good.clone();
        changed[at] = byte;
        Table::parse(&changed).and_then(|table| table.check())
    };
    // Header length, column count, type, name length, row count, row length.
    for (at, byte) in [(3, 8), (3, 10), (3, 0), (6, 2), (6, 0), (7, 99), (7, 6), (11, 2), (11, 0), (16, 2)] {
        assert!(check(at, byte).is_err(), "byte {at} = {byte}");
    }
    assert!(check(20, 3).is_err() && check(20, 5).is_err());
    // Room behind the rows, which the published client leaves in tables that it has cloned.
    let longer = [&good[..], &[0; 96]].concat();
    assert_eq!(Table::parse(&longer).unwrap().check(), Ok(()));
    assert_eq!(Table::parse(&longer).unwrap().rows().count(), Table::parse(&good).unwrap().row_count());
}
