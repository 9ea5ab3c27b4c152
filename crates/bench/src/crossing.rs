//! `ferrite bench crossing`: what the way into Java and back costs: an empty Java procedure and an
//! empty SQL procedure, called in turns.
//!
//! What is compared is the server's CPU time for a call, which everything else in a call is part of
//! alike.

use crate::calls::Calls;
use crate::error::{BenchError, BenchResult};
use crate::generator::{Intended, LoadOutcome, Workload, failure_outcome};
use crate::options::CrossingOptions;
use crate::report::grouped;
use crate::results::keep;
use crate::run::measure;
use crate::session::{Environment, Session};
use ferrite_client::Prepared;
use ferrite_client::event_loop::Response;
use serde::Serialize;

const ROUNDS: usize = 3;
const DDL: &str = "
DROP PROCEDURE Nothing IF EXISTS;
DROP PROCEDURE NothingInSql IF EXISTS;
DROP TABLE crossing IF EXISTS;
CREATE TABLE crossing (phone_number BIGINT NOT NULL);
PARTITION TABLE crossing ON COLUMN phone_number;
CREATE PROCEDURE PARTITION ON TABLE crossing COLUMN phone_number FROM CLASS voter.Nothing;
CREATE PROCEDURE NothingInSql (phone BIGINT, contestant INTEGER, votes BIGINT)
  PARTITION ON TABLE crossing COLUMN phone_number AS BEGIN RETURN 0; END;
";

pub fn run_crossing(environment: &Environment, options: &CrossingOptions) -> BenchResult<()> {
    let session = Session::open(environment, &options.target)?;
    let jar = std::fs::read(&options.jar)
        .map_err(|error| BenchError::Load(format!("cannot read {}: {error}", options.jar.display())))?;
    session.call("@UpdateClasses", (jar, None::<&str>))?;
    session.run_statements(DDL)?;
    // The least of each: what disturbs only adds.
    let mut least = [f64::MAX; 2];
    for _ in 0..ROUNDS {
        for (name, least) in ["Nothing", "NothingInSql"].into_iter().zip(&mut least) {
            let make =
                |_| CrossingLoad { procedure: Prepared::new(name).expect("the name is short"), key: 0, wrong: 0 };
            let (result, report) = measure(name, environment, &session, &options.load, make)?;
            if result.workloads.iter().any(|calls| calls.wrong > 0) || report.failed + report.unknown > 0 {
                let why = report.first_failure.unwrap_or_else(|| "an answer was not 0".to_owned());
                return Err(BenchError::Wrong(vec![format!("{name}: {why}")]));
            }
            let Some(microseconds) = report.server_cpu_microseconds_per_transaction else {
                return Err(BenchError::Load("the CPU time of a server that was not started here is not known".into()));
            };
            ferrite_io::outln!(
                "{name}: {} calls, {:.0} ns of the server each",
                grouped(report.transactions),
                microseconds * 1e3
            );
            *least = least.min(microseconds * 1e3);
        }
    }
    session.close()?;
    let [java, sql] = least;
    let report = CrossingReport { java_nanoseconds: java, sql_nanoseconds: sql, crossing_nanoseconds: java - sql };
    ferrite_io::outln!(
        "an empty call, least of {ROUNDS}: Java {java:.0} ns, SQL {sql:.0} ns, the crossing {:.0} ns",
        java - sql
    );
    keep(options.load.json.as_deref(), "crossing", &report)
}

/// CPU time of the server for an empty call.
#[derive(Serialize)]
struct CrossingReport {
    java_nanoseconds: f64,
    sql_nanoseconds: f64,
    crossing_nanoseconds: f64,
}

struct CrossingLoad {
    procedure: Prepared,
    key: i64,
    wrong: u64,
}

impl Workload for CrossingLoad {
    type Note = ();

    #[inline]
    fn call(&mut self, calls: &mut Calls<'_, ()>, call: Intended) {
        self.key += 1;
        let written = calls.call(&self.procedure, &(self.key, 1i32, 2i64), call.with(()));
        debug_assert!(written.is_ok(), "three numbers fit into a frame");
    }

    #[inline]
    fn completed(&mut self, (): (), response: &Response<'_>) -> LoadOutcome {
        if !response.is_success() {
            return failure_outcome(response);
        }
        if response.scalar() == Some(0) {
            return LoadOutcome::Succeeded { payload_bytes: 0 };
        }
        self.wrong += 1;
        LoadOutcome::Failed
    }

    fn lost(&mut self, (): ()) {}
}
