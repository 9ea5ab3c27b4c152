//! What the calls of each procedure will look up, as far as it is known before they run.
//!
//! A body in SQL shows it itself: its plan was read when it was compiled. A body in another
//! language does not, and pays a cache miss for every hash look-up, which was a sixth of the time
//! of Voter's class. So its first calls are watched: a key of a statement that had the value of one
//! and the same parameter of the procedure in each of them will have it again, and is asked for
//! ahead from then on. What is learned is a hint: where it is wrong, memory is asked for that is
//! not needed, and nothing else happens.

use crate::compiled::Compiled;
use crate::prefetch::{self, Prefetch};
use ferrite_base::ProcedureId;
use ferrite_catalog::Catalog;
use ferrite_plan::Program;
use ferrite_value::{Value, compare};
use std::sync::Arc;

/// Calls that are watched before something is concluded.
const CALLS_WATCHED: u32 = 64;
/// A key that fewer of them looked up is not worth asking for in every call.
const SIGHTINGS_MIN: u32 = CALLS_WATCHED / 4;
/// Parameters beyond these are not taken for the origin of a key.
const ORIGINS_MAX: usize = 64;
/// Plans of ad hoc statements that are known at a time.
const AD_HOC_MAX: usize = 16;
/// Calls of unknown ones for each of them that takes the place of a known one.
const PASSED_OVER: u32 = 256;

/// One thread's knowledge of one catalog version's procedures.
pub struct PrefetchPredictor {
    asks: Vec<Vec<Prefetch>>,
    profiles: Vec<Option<Box<CallProfile>>>,
    ad_hoc: AdHocLookUps,
}

impl PrefetchPredictor {
    pub fn new(compiled: &Compiled) -> PrefetchPredictor {
        let profiles = compiled.programs().map(|program| CallProfile::of(program, &compiled.catalog)).collect();
        PrefetchPredictor { asks: compiled.prefetches().to_vec(), profiles, ad_hoc: AdHocLookUps::default() }
    }

    /// What to ask for ahead of a call.
    #[inline]
    pub fn asks(&self, procedure: ProcedureId) -> &[Prefetch] {
        &self.asks[procedure.index()]
    }

    /// Reads the plan of an ad hoc statement, for [`PrefetchPredictor::asks_of`].
    #[inline]
    pub fn read(&mut self, program: &Arc<Program>, catalog: &Catalog) {
        self.ad_hoc.read(program, catalog);
    }

    /// What to ask for ahead of an ad hoc statement; nothing if its plan was not read.
    #[inline]
    pub fn asks_of(&self, program: &Arc<Program>) -> &[Prefetch] {
        self.ad_hoc.of(program)
    }

    /// What the next call of a procedure is to be watched for, if there is still something to
    /// learn.
    #[inline]
    pub fn lend(&mut self, procedure: ProcedureId) -> Option<Box<CallProfile>> {
        self.profiles[procedure.index()].take()
    }

    /// A profile comes back after its call.
    pub fn take_back(&mut self, procedure: ProcedureId, mut profile: Box<CallProfile>) {
        match profile.end_call() {
            None => self.profiles[procedure.index()] = Some(profile),
            Some(learned) => self.asks[procedure.index()] = learned,
        }
    }
}

/// What ad hoc statements with plans for many texts look up. There are few such plans at a time.
#[derive(Default)]
struct AdHocLookUps {
    /// The programs are kept, so that no other one takes their place in memory.
    known: Vec<(Arc<Program>, Vec<Prefetch>)>,
    unknown: u32,
}

impl AdHocLookUps {
    #[inline]
    fn read(&mut self, program: &Arc<Program>, catalog: &Catalog) {
        if !self.known.iter().any(|(known, _)| Arc::ptr_eq(known, program)) {
            self.learn(program, catalog);
        }
    }

    /// Once there are many, most of those that are not among them are passed over: reading a plan
    /// takes longer than what it saves one call.
    #[cold]
    fn learn(&mut self, program: &Arc<Program>, catalog: &Catalog) {
        if self.known.len() == AD_HOC_MAX {
            self.unknown += 1;
            if self.unknown < PASSED_OVER {
                return;
            }
            self.unknown = 0;
            self.known.remove(0);
        }
        self.known.push((Arc::clone(program), prefetch::prefetches(program, catalog)));
    }

    #[inline]
    fn of(&self, program: &Arc<Program>) -> &[Prefetch] {
        let known = self.known.iter().find(|(known, _)| Arc::ptr_eq(known, program));
        known.map_or(&[], |(_, prefetches)| prefetches)
    }
}

/// What is being learned about the statements of one procedure.
#[derive(Debug)]
pub struct CallProfile {
    calls: u32,
    looked_up: Vec<Seen>,
}

/// A look-up of a statement.
#[derive(Debug)]
struct Seen {
    statement: usize,
    /// Its keys are parameters of the statement.
    prefetch: Prefetch,
    /// For each key the procedure's parameters that had its value whenever it was seen, a bit for
    /// each.
    origins: Vec<u64>,
    sightings: u32,
}

impl CallProfile {
    /// None when there is nothing to learn.
    fn of(program: &Program, catalog: &Catalog) -> Option<Box<CallProfile>> {
        Self::about(&program.external.as_ref()?.statements, catalog)
    }

    fn about(statements: &[Arc<Program>], catalog: &Catalog) -> Option<Box<CallProfile>> {
        let mut looked_up = Vec::new();
        for (number, statement) in statements.iter().enumerate() {
            looked_up.extend(prefetch::prefetches(statement, catalog).into_iter().map(|prefetch| Seen {
                statement: number,
                origins: vec![u64::MAX; prefetch.parameters().len()],
                prefetch,
                sightings: 0,
            }));
        }
        (!looked_up.is_empty()).then(|| Box::new(CallProfile { calls: 0, looked_up }))
    }

    /// A statement is executed with the values `given`, in a call with the values `of_call`.
    pub fn statement(&mut self, number: usize, given: &[Value<'_>], of_call: &[Value<'_>]) {
        for seen in self.looked_up.iter_mut().filter(|seen| seen.statement == number) {
            seen.sightings += 1;
            for (origins, parameter) in seen.origins.iter_mut().zip(seen.prefetch.parameters()) {
                *origins &= equals(given.get(usize::from(*parameter)), of_call);
            }
        }
    }

    /// What was learned, when enough calls were seen.
    fn end_call(&mut self) -> Option<Vec<Prefetch>> {
        self.calls += 1;
        if self.calls < CALLS_WATCHED {
            return None;
        }
        let mut learned = Vec::new();
        for seen in self.looked_up.iter().filter(|seen| seen.sightings >= SIGHTINGS_MIN) {
            let origins = seen.origins.iter().map(|origins| (*origins != 0).then(|| origins.trailing_zeros() as u16));
            if let Some(origins) = origins.collect() {
                let prefetch = seen.prefetch.with_parameters(origins);
                match learned.iter_mut().find(|known: &&mut Prefetch| known.is_same_look_up(&prefetch)) {
                    Some(known) => known.want_values_of(&prefetch),
                    None => learned.push(prefetch),
                }
            }
        }
        Some(learned)
    }
}

/// The parameters of a call that have this value, in the same kind. None where keys with such a
/// value are not asked for ahead.
fn equals(value: Option<&Value<'_>>, of_call: &[Value<'_>]) -> u64 {
    let Some(value) = value.filter(|value| prefetch::is_key(value)) else { return 0 };
    let is_equal = |other: &Value<'_>| {
        std::mem::discriminant(value) == std::mem::discriminant(other) && compare::equal_grouping(value, other)
    };
    let numbered = of_call.iter().take(ORIGINS_MAX).enumerate();
    numbered.fold(0, |equal, (number, parameter)| equal | u64::from(is_equal(parameter)) << number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::CallOutcome;
    use crate::execute::{Executor, Request};
    use crate::schema;
    use ferrite_base::{PartitionId, UserResult};
    use ferrite_plan::external::{Body, ExternalRoutine, Host, RoutineBody, Texts};
    use ferrite_table::Store;
    use ferrite_value::SqlType;
    use ferrite_value::ring::Ring;
    use ferrite_wire::parameters::ParameterSet;
    use std::time::Duration;

    const VOTER: &str = include_str!("../../ferrite/tests/common/voter.sql");
    const STATEMENTS: &str = "
        CREATE PROCEDURE S0 AS SELECT num_votes FROM v_votes_by_phone_number WHERE phone_number = ?;
        CREATE PROCEDURE S1 AS INSERT INTO votes (phone_number, state, contestant_number) VALUES (?, ?, ?);
        CREATE TABLE pair (one BIGINT NOT NULL, two BIGINT NOT NULL, PRIMARY KEY USING HASH (one, two));
        PARTITION TABLE pair ON COLUMN one;
        CREATE PROCEDURE S2 AS DELETE FROM pair WHERE two = ? AND one = ?;";

    /// What is learned from calls with these parameters, whose statements (number, values) follow
    /// from them.
    fn learn(
        parameters: impl Fn(i64) -> Vec<i64>,
        statements: impl Fn(i64, &[i64]) -> Vec<(usize, Vec<i64>)>,
    ) -> Vec<(String, Vec<u16>)> {
        let planned = schema::plan(&Catalog::default(), &format!("{VOTER};{STATEMENTS}")).expect("the schema binds");
        let compiled = Compiled::new(planned.catalog, &Default::default()).expect("the statements compile");
        let program = |name: &str| Arc::clone(compiled.program(compiled.require(name).expect("it is there")));
        let programs = ["S0", "S1", "S2"].map(program);
        let mut profile = CallProfile::about(&programs, &compiled.catalog).expect("there is something to learn");
        let values = |integers: &[i64]| integers.iter().map(|integer| Value::Integer(*integer)).collect::<Vec<_>>();
        for call in 0.. {
            let of_call = parameters(call);
            for (number, given) in statements(call, &of_call) {
                profile.statement(number, &values(&given), &values(&of_call));
            }
            if let Some(learned) = profile.end_call() {
                assert_eq!(call + 1, i64::from(CALLS_WATCHED));
                let named = |prefetch: Prefetch| {
                    let table = compiled.catalog.table(prefetch.table()).expect("the table is there");
                    (table.name.clone(), prefetch.parameters().to_vec())
                };
                return learned.into_iter().map(named).collect();
            }
        }
        unreachable!("calls without end end")
    }

    #[test]
    fn keys_that_are_always_the_same_parameter_are_learned() {
        // The second parameter equals the key now and then, the fourth for a while.
        let learned = learn(
            |call| vec![call % 3, 7, 1_000 + call, if call < 60 { 1_000 + call } else { 0 }],
            |_, of| vec![(0, vec![of[2]]), (1, vec![of[2], 0, of[0]])],
        );
        assert_eq!(learned, [("V_VOTES_BY_PHONE_NUMBER".to_owned(), vec![2])]);
        // A key of two columns, in the order of the index.
        let learned = learn(|call| vec![call, call * 2 + 1], |_, of| vec![(2, vec![of[1], of[0]])]);
        assert_eq!(learned, [("PAIR".to_owned(), vec![0, 1])]);
    }

    /// Looks two of its three parameters up, one of them as it is.
    #[derive(Debug)]
    struct Looks;

    impl Body for Looks {
        fn call(&self, host: &mut dyn Host, parameters: &[Value<'_>]) -> UserResult<()> {
            let &[_, Value::Integer(key), Value::Integer(number)] = parameters else { panic!("{parameters:?}") };
            let mut batch = 2u32.to_be_bytes().to_vec();
            for (statement, keys) in [(0u16, vec![key]), (2, vec![number + 1, key])] {
                let mut set = Vec::new();
                keys.write_set(&mut set).expect("it is small");
                batch.extend_from_slice(&statement.to_be_bytes());
                batch.extend_from_slice(&(set.len() as u32).to_be_bytes());
                batch.extend_from_slice(&set);
            }
            host.execute(&batch, &mut Vec::new())
        }
    }

    #[test]
    fn what_a_body_executes_is_what_is_learned_from() {
        let planned = schema::plan(&Catalog::default(), &format!("{VOTER};{STATEMENTS}")).expect("the schema binds");
        let mut stores = [Store::new(PartitionId(0), Arc::new(Ring::new_default(1)))];
        schema::apply(&mut stores, &planned, 0).expect("the store is empty");
        let compiled = Compiled::new(planned.catalog, &Default::default()).expect("the statements compile");
        let program = |name: &str| Arc::clone(compiled.program(compiled.require(name).expect("it is there")));
        let body = RoutineBody::Transaction(Arc::new(Looks));
        let statements = ["S0", "S1", "S2"].map(program).to_vec();
        let mut caller = Program::clone(&program("Vote"));
        caller.parameters.iter_mut().for_each(|parameter| parameter.column_type.sql_type = SqlType::Bigint);
        caller.external = Some(Arc::new(ExternalRoutine { body, statements, texts: Texts::None, broken: None }));
        let caller = Arc::new(caller);
        let mut executor = Executor::new(Duration::from_secs(10));
        let mut profile = CallProfile::of(&caller, &compiled.catalog);
        for call in 0..i64::from(CALLS_WATCHED) {
            let (mut parameters, mut out) = (Vec::new(), Vec::new());
            vec![1, 1_000 + call, call].write_set(&mut parameters).expect("it is small");
            executor.profile_external(profile.take());
            let (program, parameters) = (&caller, &parameters[..]);
            let request = Request { program, parameters, drop_first_parameter: false, handle: 1, transaction_time: 0 };
            let outcome = executor.call(&mut stores, &request, &mut out);
            assert_eq!(outcome, CallOutcome::Committed);
            profile = executor.profile_external(None);
            if let Some(learned) = profile.as_mut().expect("it comes back").end_call() {
                let learned: Vec<_> = learned.iter().map(Prefetch::parameters).collect();
                assert_eq!((call + 1, learned), (i64::from(CALLS_WATCHED), vec![&[1][..]]));
                return;
            }
        }
        panic!("nothing was learned");
    }

    #[test]
    fn keys_of_any_type_are_learned_in_their_own_kind() {
        let text = "CREATE TABLE seen (name VARCHAR(99) NOT NULL, at TIMESTAMP NOT NULL, PRIMARY KEY (name, at));
            CREATE PROCEDURE Find AS SELECT name FROM seen WHERE name = ? AND at = ?;";
        let planned = schema::plan(&Catalog::default(), text).expect("the schema binds");
        let compiled = Compiled::new(planned.catalog, &Default::default()).expect("the statement compiles");
        let program = Arc::clone(compiled.program(compiled.require("Find").expect("it is there")));
        let mut profile =
            CallProfile::about(std::slice::from_ref(&program), &compiled.catalog).expect("there is a look-up");
        for call in 0.. {
            let name = format!("name {call}");
            let (name, at) = (Value::Text(&name), Value::Timestamp(call));
            profile.statement(0, &[name, at], &[Value::Integer(call), at, Value::Null, name]);
            if let Some(learned) = profile.end_call() {
                assert_eq!(learned.iter().map(Prefetch::parameters).collect::<Vec<_>>(), [[3, 1]]);
                break;
            }
        }
        // Statements as text are read when they first come, and few of them are kept.
        let mut predictor = PrefetchPredictor::new(&compiled);
        assert!(predictor.asks_of(&program).is_empty());
        let others: Vec<_> = (0..AD_HOC_MAX).map(|_| Arc::new(Program::clone(&program))).collect();
        others.iter().for_each(|other| predictor.read(other, &compiled.catalog));
        assert!(others.iter().all(|other| predictor.asks_of(other).len() == 1));
        for _ in 0..PASSED_OVER {
            assert!(predictor.asks_of(&program).is_empty());
            predictor.read(&program, &compiled.catalog);
        }
        assert_eq!(predictor.asks_of(&program).len(), 1);
        assert_eq!(predictor.ad_hoc.known.len(), AD_HOC_MAX);
    }

    #[test]
    fn computed_keys_and_rare_statements_are_not() {
        assert_eq!(learn(|call| vec![call], |_, of| vec![(0, vec![of[0] + 1])]), []);
        let half_computed = learn(|call| vec![call, 5 * call + 3], |call, of| vec![(2, vec![of[1], call / 2])]);
        assert_eq!(half_computed, []);
        let rare = |call: i64, of: &[i64]| if call % 10 == 0 { vec![(0, vec![of[0]])] } else { vec![] };
        assert_eq!(learn(|call| vec![call], rare), []);
        // Another statement's parameter count, and no parameters at all.
        assert_eq!(learn(|_| vec![], |_, _| vec![(0, vec![]), (1, vec![3])]), []);
    }
}
