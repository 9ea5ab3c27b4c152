//! What the way into Java and back costs: a Java procedure that does nothing, and the same in
//! SQL/PSM, called in turns as a partition calls them.
//!
//! `cargo run --release -p ferrite-java --example crossing -- voter.jar` (examples/voter/java/build
//! makes the jar).

use ferrite_base::PartitionId;
use ferrite_catalog::base64;
use ferrite_partition::{
    Compiled,
    execute::{Executor, Request},
    schema,
};
use ferrite_table::Store;
use ferrite_value::ring::Ring;
use ferrite_wire::parameters::ParameterSet;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

const CALLS: u32 = 500_000;
const ROUNDS: usize = 9;

fn main() {
    let jar = std::env::args().nth(1).expect("the path of voter.jar");
    let jar = std::fs::read(jar).expect("the jar can be read");
    let runtime =
        ferrite_java::runtime(std::env::args().skip(2).collect(), Duration::from_secs(10), || std::process::exit(1));
    let text = format!(
        "LOAD CLASSES '{}';
         CREATE TABLE votes (phone_number BIGINT NOT NULL);
         PARTITION TABLE votes ON COLUMN phone_number;
         CREATE PROCEDURE PARTITION ON TABLE votes COLUMN phone_number FROM CLASS voter.Nothing;
         CREATE PROCEDURE InSql (phone BIGINT, contestant INTEGER, votes BIGINT) PARTITION ON TABLE votes COLUMN phone_number \
         AS BEGIN RETURN 0; END;",
        base64::encode(&jar)
    );
    let began = Instant::now();
    let planned = schema::plan(&Default::default(), &text).expect("the schema is right");
    let compiled = Compiled::new(planned.catalog.clone(), &runtime).expect("the procedures compile");
    println!("starting the JVM and loading the class: {:.2} s", began.elapsed().as_secs_f64());
    let mut stores = [Store::new(PartitionId(0), Arc::new(Ring::new_default(1)))];
    schema::apply(&mut stores, &planned, 0).expect("an empty store follows");
    let mut executor = Executor::new(Duration::from_secs(10)).of_partition(PartitionId(0));
    let mut parameters = Vec::new();
    (6_175_551_234_i64, 1_i32, 2_i64).write_set(&mut parameters).expect("numbers are encoded");
    let mut best = [f64::MAX; 2];
    for round in 0..ROUNDS {
        let mut took = [0.0; 2];
        for (position, name) in ["Nothing", "InSql"].into_iter().enumerate() {
            let program = compiled.program(compiled.require(name).expect("it was created"));
            let mut out = Vec::with_capacity(4096);
            let began = Instant::now();
            for call in 0..CALLS {
                out.clear();
                let request = Request {
                    program,
                    parameters: &parameters,
                    drop_first_parameter: false,
                    handle: call.into(),
                    transaction_time: 1_700_000_000_000_000,
                };
                executor.call(&mut stores, &request, &mut out);
                black_box(&out);
            }
            took[position] = began.elapsed().as_nanos() as f64 / f64::from(CALLS);
            best[position] = best[position].min(took[position]);
        }
        println!("round {round}: Java {:.0} ns, SQL {:.0} ns", took[0], took[1]);
    }
    println!("least: Java {:.0} ns, SQL {:.0} ns, the crossing {:.0} ns", best[0], best[1], best[0] - best[1]);
}
