//! What one Voter call costs in this crate, in nanoseconds: `cargo bench -p ferrite-wire`.

use bumpalo::Bump;
use ferrite_value::{SqlType, Value};
use ferrite_wire::{Invocation, Response, ResponseWriter, TableHeader, frame, invocation, response};
use std::hint::black_box;
use std::time::Instant;

const CALLS: usize = 1_000;
const ROUNDS: usize = 2_000;

/// The best of several runs, because the machine is shared.
fn measure(name: &str, mut round: impl FnMut()) {
    let best = (0..5)
        .map(|_| {
            let start = Instant::now();
            (0..ROUNDS).for_each(|_| round());
            start.elapsed().as_nanos() as f64 / (CALLS * ROUNDS) as f64
        })
        .fold(f64::INFINITY, f64::min);
    println!("{name:<44} {best:>7.1} ns");
}

fn main() {
    let mut requests = Vec::new();
    let mut responses = Vec::new();
    for i in 0..CALLS as i64 {
        invocation::write_call(&mut requests, "Vote", i, &(5_551_234_567 + i, 3i32, 2i64)).expect("a small request");
        response::write_scalar(&mut responses, i, 0);
    }
    let frames = |mut bytes: &[u8], each: &mut dyn FnMut(&[u8])| {
        while let Ok(Some((consumed, body))) = frame::split(bytes) {
            each(body);
            bytes = &bytes[consumed..];
        }
    };

    let mut out = Vec::with_capacity(1 << 20);
    measure("client: write call", || {
        out.clear();
        for i in 0..CALLS as i64 {
            let parameters = black_box((5_551_234_567 + i, 3i32, 2i64));
            invocation::write_call(&mut out, "Vote", i, &parameters).expect("a small request");
        }
        black_box(&out);
    });
    measure("network: split, parse, partitioning parameter", || {
        frames(&requests, &mut |body| {
            let call = Invocation::parse(body).expect("a good call");
            black_box((call.procedure, call.parameters.nth(0).expect("a good parameter")));
        });
    });
    let mut arena = Bump::with_capacity(1 << 16);
    measure("partition: decode parameters (with the above)", || {
        frames(&requests, &mut |body| {
            let call = Invocation::parse(body).expect("a good call");
            black_box(call.parameters.decode(&arena).expect("good parameters"));
            arena.reset();
        });
    });
    measure("partition: write scalar response", || {
        out.clear();
        (0..CALLS as i64).for_each(|i| response::write_scalar(&mut out, i, black_box(0)));
        black_box(&out);
    });
    let header = TableHeader::new([("KEY", SqlType::Varchar), ("VALUE", SqlType::Bigint)]);
    measure("partition: write response, row of two cells", || {
        out.clear();
        for i in 0..CALLS as i64 {
            let mut response = ResponseWriter::begin(&mut out, i);
            let mut table = response.table(&header);
            table.row(&black_box([Value::Text("K0000000000000001"), Value::Integer(i)])).expect("a fitting row");
            table.finish();
            response.finish();
        }
        black_box(&out);
    });
    measure("client: split, parse response, scalar", || {
        frames(&responses, &mut |body| {
            let response = Response::parse(body).expect("a good response");
            black_box((response.handle, response.is_success(), response.scalar()));
        });
    });
    arena.reset();
}
