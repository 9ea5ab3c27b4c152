//! Procedures whose body is not SQL, with bodies in Rust in the place of a JVM: what they may rely
//! on, and what a schema with classes is.

use crate::jar::jar;
use ferrite_base::{ErrorKind, GroupId, PartitionId, UserError, UserResult, limits};
use ferrite_catalog::{Catalog, base64, schema_text};
use ferrite_partition::cancel::Cancellations;
use ferrite_partition::counters::CallOutcome;
use ferrite_partition::execute::{Executor, Request};
use ferrite_partition::{AnswerBatch, Compiled, Mailbox, ProgramCall, Reply, StoreSet, schema};
use ferrite_plan::external::{self, Body, Description, Host, RoutineBody};
use ferrite_plan::{Parameter, Program, Routing};
use ferrite_table::Store;
use ferrite_value::ring::Ring;
use ferrite_value::{ColumnType, SqlType, Value};
use ferrite_wire::parameters::ParameterSet;
use ferrite_wire::{Response, Status, frame};
use std::sync::Arc;
use std::time::Duration;

/// What the classes of the tests do.
fn describe(class: &str) -> UserResult<Description> {
    let parameter =
        |sql_type| Parameter { name: None, column_type: ColumnType::unbounded(sql_type), array: false, table: false };
    let statement = |field: &str, text: &str| (field.to_owned(), text.to_owned());
    match class {
        "a.Batches" => Ok(Description {
            parameters: vec![parameter(SqlType::Bigint), parameter(SqlType::Varchar)],
            statements: vec![
                statement("insert", "INSERT INTO t (id, x) VALUES (?, ?)"),
                statement("count", "SELECT COUNT(*) FROM t"),
            ],
            partition_info: None,
            texts: false,
            body: RoutineBody::Transaction(Arc::new(Batches)),
        }),
        "a.Annotated" => Ok(Description {
            parameters: vec![parameter(SqlType::Varchar), parameter(SqlType::Bigint)],
            statements: vec![statement("write", "INSERT INTO everywhere (id) VALUES (?)")],
            partition_info: Some("t.id : 1".to_owned()),
            texts: false,
            body: RoutineBody::Transaction(Arc::new(Batches)),
        }),
        "a.Broken" => Ok(Description {
            parameters: vec![],
            statements: vec![statement("wrong", "SELECT nothing FROM t")],
            partition_info: None,
            texts: false,
            body: RoutineBody::Transaction(Arc::new(Batches)),
        }),
        "a.Texts" | "a.Silent" => Ok(Description {
            parameters: vec![parameter(SqlType::Bigint)],
            statements: vec![statement("count", "SELECT COUNT(*) FROM everywhere")],
            partition_info: None,
            texts: class == "a.Texts",
            body: RoutineBody::Transaction(Arc::new(MakesUp)),
        }),
        "a.Counts" => Ok(Description {
            parameters: vec![],
            statements: vec![statement("count", "SELECT COUNT(*) FROM everywhere")],
            partition_info: None,
            texts: false,
            body: RoutineBody::Transaction(Arc::new(Counts)),
        }),
        "a.Shapes" => Ok(Description {
            parameters: vec![],
            statements: vec![],
            partition_info: None,
            texts: true,
            body: RoutineBody::Transaction(Arc::new(Shapes)),
        }),
        _ => Err(UserError::ddl("42P13", format!("class {class} is no procedure"))),
    }
}

/// Inserts in batches, as its second parameter says.
#[derive(Debug)]
struct Batches;

fn batch(statements: &[(u16, &[i64])]) -> Vec<u8> {
    let mut out = (statements.len() as u32).to_be_bytes().to_vec();
    for (number, values) in statements {
        let mut parameters = Vec::new();
        values.to_vec().write_set(&mut parameters).unwrap();
        out.extend_from_slice(&number.to_be_bytes());
        out.extend_from_slice(&(parameters.len() as u32).to_be_bytes());
        out.extend_from_slice(&parameters);
    }
    out
}

impl Body for Batches {
    fn call(&self, host: &mut dyn Host, parameters: &[Value<'_>]) -> UserResult<()> {
        let &[Value::Integer(id), Value::Text(how)] = parameters else { panic!("{parameters:?}") };
        let mut tables = Vec::new();
        host.execute(&batch(&[(0, &[id, 1])]), &mut tables)?;
        match how {
            "abort" => return Err(UserError::new(ErrorKind::UserAbort, "45000", "as it wished")),
            // The second of a batch fails: the first goes with it, and what came before stays.
            "caught" => {
                let error = host.execute(&batch(&[(0, &[id + 100, 1]), (0, &[id, 2])]), &mut tables).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::ConstraintViolation);
            }
            "many" => {
                const MOST: usize = limits::ROUTINE_BATCH_STATEMENTS_MAX;
                host.execute(&batch(&vec![(1, &[][..]); MOST]), &mut tables)?;
                tables.clear();
                let error = host.execute(&batch(&vec![(1, &[][..]); MOST + 1]), &mut tables).unwrap_err();
                assert!(error.message().contains("more than 100000 statements in a batch"), "{error}");
            }
            "malformed" => {
                for wrong in [
                    &[][..],
                    &[0, 1],
                    &[0, 0, 0, 1],
                    &[0, 0, 0, 1, 0, 9, 0, 0, 0, 0],
                    &[0, 0, 0, 1, 0, 0, 255, 255, 255, 255],
                ] {
                    host.execute(wrong, &mut tables).unwrap_err();
                }
                assert!(host.answer(&[0, 0, 0, 9]).is_err());
            }
            "endless" => loop {
                tables.clear();
                host.execute(&batch(&[(1, &[])]), &mut tables)?;
            },
            _ => {}
        }
        tables.clear();
        host.execute(&batch(&[(1, &[])]), &mut tables)?;
        host.status(5, Some("five"));
        assert!(host.unique_id() > 0);
        host.answer(&tables)
    }
}

/// Inserts a row by a statement that it makes up, and another by the same statement, then is
/// refused three.
#[derive(Debug)]
struct MakesUp;

fn texts(statements: &[(&str, &[i64])]) -> Vec<u8> {
    let mut out = (statements.len() as u32).to_be_bytes().to_vec();
    for (text, values) in statements {
        let one = batch(&[(external::TEXT, values)]);
        out.extend_from_slice(&one[4..6]);
        out.extend_from_slice(&(text.len() as u32).to_be_bytes());
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(&one[6..]);
    }
    out
}

impl Body for MakesUp {
    fn call(&self, host: &mut dyn Host, parameters: &[Value<'_>]) -> UserResult<()> {
        let &[Value::Integer(id)] = parameters else { panic!("{parameters:?}") };
        let mut tables = Vec::new();
        let insert = "INSERT INTO t (id, x) VALUES (?, ?)";
        host.execute(
            &texts(&[(insert, &[id, 1]), ("", &[id + 1, 2]), ("UPDATE t SET x = 5 WHERE id = ?", &[id])]),
            &mut tables,
        )?;
        let mut refused =
            |statements: &[(&str, &[i64])]| host.execute(&texts(statements), &mut tables).unwrap_err().to_string();
        assert!(refused(&[(insert, &[id + 2, 1]), ("SELEC", &[])]).contains("did you mean SELECT"));
        assert!(refused(&[("DROP TABLE t", &[])]).contains("unexpected token: DROP"));
        assert!(refused(&[("", &[])]).contains("unexpected end"), "no text was before it");
        tables.clear();
        host.execute(&texts(&[("SELECT SUM(x) FROM t", &[])]), &mut tables)?;
        host.answer(&tables)
    }
}

/// Answers what statements of several shapes do, each of which it makes up and forgets.
#[derive(Debug)]
struct Shapes;

const SHAPES: [(&str, SqlType); 4] = [
    ("SELECT id FROM everywhere", SqlType::Bigint),
    ("SELECT id * 1e0 FROM everywhere", SqlType::Float),
    ("SELECT id * 1.5 FROM everywhere", SqlType::Decimal),
    ("SELECT 'x' FROM everywhere", SqlType::Varchar),
];

impl Body for Shapes {
    fn call(&self, host: &mut dyn Host, _: &[Value<'_>]) -> UserResult<()> {
        let mut tables = Vec::new();
        for _ in 0..20 {
            for (text, _) in SHAPES {
                host.execute(&texts(&[(text, &[])]), &mut tables)?;
            }
        }
        host.answer(&tables)
    }
}

/// Answers what its statement does.
#[derive(Debug)]
struct Counts;

impl Body for Counts {
    fn call(&self, host: &mut dyn Host, _: &[Value<'_>]) -> UserResult<()> {
        let mut tables = Vec::new();
        host.execute(&batch(&[(0, &[])]), &mut tables)?;
        host.answer(&tables)
    }
}

const TABLES: &str = "CREATE TABLE t (id BIGINT NOT NULL, x INTEGER, PRIMARY KEY (id)); PARTITION TABLE t ON COLUMN id;
    CREATE TABLE everywhere (id BIGINT);";

fn with_classes(more: &str) -> String {
    let jar = base64::encode(&jar(&[
        "a/Batches.class",
        "a/Annotated.class",
        "a/Broken.class",
        "a/Other.class",
        "a/Texts.class",
        "a/Silent.class",
        "a/Shapes.class",
        "a/Counts.class",
        "r.txt",
    ]));
    format!("LOAD CLASSES '{jar}';\n{TABLES}\n{more}")
}

fn compile(text: &str) -> UserResult<(schema::Planned, Compiled)> {
    let planned = schema::plan(&Catalog::default(), text)?;
    let compiled = Compiled::new(Arc::clone(&planned.catalog), &crate::in_rust::runtime(describe))?;
    Ok((planned, compiled))
}

/// A call of the program with handle 1.
fn request<'c>(program: &'c Arc<Program>, parameters: &'c [u8]) -> Request<'c> {
    Request { program, parameters, drop_first_parameter: false, handle: 1, transaction_time: 1_700_000_000_000_000 }
}

#[test]
fn bodies_are_transactions() {
    let calls = [
        (1, "", true),
        (2, "abort", false),
        (3, "caught", true),
        (1, "", false),
        (4, "malformed", true),
        (5, "", true),
    ];
    call_with(&[(1, "PARTITION ON TABLE t COLUMN id"), (3, "")], &calls);
}

#[test]
fn as_many_statements_in_a_batch_as_the_limit_and_not_one_more() {
    call_with(&[(1, "")], &[(1, "many", true)]);
}

#[test]
fn a_body_may_make_its_statements_up() {
    let classes = with_classes("CREATE PROCEDURE FROM CLASS a.Texts; CREATE PROCEDURE FROM CLASS a.Silent;");
    let (planned, compiled) = compile(&classes).unwrap();
    let ring = Arc::new(Ring::new_default(3));
    let mut stores: Vec<Store> = (0..3).map(|id| Store::new(PartitionId(id), Arc::clone(&ring))).collect();
    schema::apply(&mut stores, &planned, 0).unwrap();
    let mut call = |name: &str, id: i64| {
        let program = compiled.program(compiled.require(name).unwrap());
        let (mut parameters, mut out) = (Vec::new(), Vec::new());
        (id,).write_set(&mut parameters).unwrap();
        let mut executor = Executor::new(Duration::from_secs(10));
        executor.call(&mut stores, &request(program, &parameters), &mut out);
        stores.iter_mut().for_each(|store| {
            store.discard_redo();
            store.commit();
        });
        let (_, body) = frame::split(&out).unwrap().unwrap();
        Response::parse(body).unwrap().to_owned_response().unwrap()
    };
    assert_eq!(call("Texts", 1).scalar(), Some(5 + 2));
    assert_eq!(call("Texts", 11).scalar(), Some(2 * (5 + 2)));
    assert!(format!("{:?}", call("Silent", 21)).contains("of their own making"));
    // Its own statement only reads what is everywhere, but nobody knows what else it does.
    let program = |name: &str| compiled.program(compiled.require(name).unwrap());
    assert_eq!((&program("Texts").routing, program("Texts").read_only), (&Routing::All, false));
    assert_eq!((&program("Silent").routing, program("Silent").read_only), (&Routing::Any, true));
}

/// The columns of a program that is gone may have left their place to those of another.
#[test]
fn each_statement_that_is_made_up_has_its_own_columns() {
    let (planned, compiled) = compile(&with_classes("CREATE PROCEDURE FROM CLASS a.Shapes;")).unwrap();
    let mut stores = vec![Store::new(PartitionId(0), Arc::new(Ring::new_default(1)))];
    schema::apply(&mut stores, &planned, 0).unwrap();
    stores[0].commit();
    let program = compiled.program(compiled.require("Shapes").unwrap());
    let (mut parameters, mut out) = (Vec::new(), Vec::new());
    ().write_set(&mut parameters).unwrap();
    let mut executor = Executor::new(Duration::from_secs(600));
    let outcome = executor.call(&mut stores, &request(program, &parameters), &mut out);
    assert_eq!(outcome, CallOutcome::Committed);
    let (_, body) = frame::split(&out).unwrap().unwrap();
    let response = Response::parse(body).unwrap().to_owned_response().unwrap();
    assert_eq!(response.tables.len(), 20 * SHAPES.len());
    for (number, table) in response.tables.iter().enumerate() {
        let (text, expected) = SHAPES[number % SHAPES.len()];
        assert_eq!(table.columns[0].1, expected, "{text}");
    }
}

/// Of a group that continues from an older copy than others (docs/decisions/0129).
#[test]
fn bodies_use_no_replicated_table_while_copies_of_it_may_differ() {
    let procedures = "CREATE PROCEDURE FROM CLASS a.Shapes; CREATE PROCEDURE FROM CLASS a.Counts;
        CREATE PROCEDURE PARTITION ON TABLE t COLUMN id FROM CLASS a.Batches;";
    let (planned, compiled) = compile(&with_classes(procedures)).unwrap();
    let mut stores = vec![Store::new(PartitionId(0), Arc::new(Ring::new_default(1)))];
    schema::apply(&mut stores, &planned, 0).unwrap();
    stores[0].commit();
    let group = GroupId(1);
    let list = Arc::<Cancellations>::default();
    let mut executor = Executor::new(Duration::from_secs(600));
    executor.watch(&list.of_group(group));
    let mut call = |name: &str, values: &dyn Fn(&mut Vec<u8>)| {
        let (mut parameters, mut out) = (Vec::new(), Vec::new());
        values(&mut parameters);
        let program = compiled.program(compiled.require(name).unwrap());
        let outcome = executor.call(&mut stores, &request(program, &parameters), &mut out);
        stores[0].discard_redo();
        stores[0].commit();
        (outcome == CallOutcome::Committed, String::from_utf8_lossy(&out).into_owned())
    };
    let nothing = |out: &mut Vec<u8>| ().write_set(out).unwrap();
    let row = |out: &mut Vec<u8>| (1_i64, "").write_set(out).unwrap();
    list.unequal(group, true);
    for name in ["Shapes", "Counts"] {
        let (done, said) = call(name, &nothing);
        assert!(!done && said.contains("are of before an accepted loss"), "{name}: {said}");
    }
    assert!(call("Batches", &row).0, "it uses partitioned tables only");
    list.unequal(group, false);
    for name in ["Shapes", "Counts"] {
        assert!(call(name, &nothing).0, "{name}");
    }
}

#[test]
fn statements_that_are_made_up_stay_on_their_partition() {
    let classes = with_classes("CREATE PROCEDURE PARTITION ON TABLE t COLUMN id FROM CLASS a.Texts;");
    let (planned, compiled) = compile(&classes).unwrap();
    let ring = Arc::new(Ring::new_default(3));
    // A key whose neighbour is somewhere else.
    let owner = |id: i64| ring.partition_of(ferrite_value::hash::partition_token_i64(id));
    let id = (0..).find(|id| owner(*id) != owner(*id + 1)).unwrap();
    let mut stores = [Store::new(owner(id), Arc::clone(&ring))];
    schema::apply(&mut stores, &planned, 0).unwrap();
    let (mut parameters, mut out) = (Vec::new(), Vec::new());
    (id,).write_set(&mut parameters).unwrap();
    let program = compiled.program(compiled.require("Texts").unwrap());
    Executor::new(Duration::from_secs(10)).call(&mut stores, &request(program, &parameters), &mut out);
    assert!(
        String::from_utf8_lossy(&out).contains("belongs to another partition"),
        "{}",
        String::from_utf8_lossy(&out)
    );
}

/// Calls with an id and what to do, and whether that inserts a row; over so many partitions with
/// such a clause.
fn call_with(ways: &[(u32, &str)], calls: &[(i64, &str, bool)]) {
    for (partitions, clause) in ways.iter().copied() {
        let (planned, compiled) =
            compile(&with_classes(&format!("CREATE PROCEDURE {clause} FROM CLASS a.Batches;"))).unwrap();
        let ring = Arc::new(Ring::new_default(partitions));
        let mut stores: Vec<Store> = (0..partitions).map(|id| Store::new(PartitionId(id), Arc::clone(&ring))).collect();
        schema::apply(&mut stores, &planned, 0).unwrap();
        stores.iter_mut().for_each(Store::commit);
        let program = compiled.program(compiled.require("Batches").unwrap());
        let mut executor = Executor::new(Duration::from_secs(600));
        let mut call = |id: i64, how: &str| {
            let (mut parameters, mut out) = (Vec::new(), Vec::new());
            (id, how).write_set(&mut parameters).unwrap();
            let outcome = executor.call(&mut stores, &request(program, &parameters), &mut out);
            stores.iter_mut().for_each(|store| {
                store.discard_redo();
                store.commit();
            });
            let (_, body) = frame::split(&out).unwrap().unwrap();
            (outcome, Response::parse(body).unwrap().to_owned_response().unwrap())
        };
        let mut rows = 0;
        for (id, how, inserts) in calls.iter().copied() {
            let (outcome, response) = call(id, how);
            if inserts {
                rows += 1;
                assert_eq!(outcome, CallOutcome::Committed, "{response:?}");
                assert_eq!(
                    (response.application_status, response.application_status_text.as_deref()),
                    (5, Some("five"))
                );
                assert_eq!(response.scalar(), Some(rows), "{how}");
            } else {
                let status = if how == "abort" { Status::UserAbort } else { Status::GracefulFailure };
                assert_eq!(response.status_code, status.code(), "{response:?}");
            }
        }
    }
}

struct Nobody;

impl Mailbox for Nobody {
    fn deliver(&self, _: AnswerBatch) {}
}

#[test]
fn a_body_ends_by_the_time_of_its_call() {
    let (planned, compiled) = compile(&with_classes("CREATE PROCEDURE FROM CLASS a.Batches;")).unwrap();
    let mut stores = vec![Store::new(PartitionId(0), Arc::new(Ring::new_default(1)))];
    schema::apply(&mut stores, &planned, 0).unwrap();
    stores[0].commit();
    let program = Arc::clone(compiled.program(compiled.require("Batches").unwrap()));
    let compiled = Arc::new(compiled);
    // By the server's own limit it would run for an hour.
    let mut executor = Executor::new(Duration::from_secs(3_600));
    for (how, time_max, ends) in [("endless", Some(Duration::from_millis(20)), true), ("", None, false)] {
        let (mut parameters, mut out) = (Vec::new(), Vec::new());
        (1i64, how).write_set(&mut parameters).unwrap();
        let call = ProgramCall {
            program: Arc::clone(&program),
            compiled: Arc::clone(&compiled),
            parameters,
            reply: Reply { mailbox: Arc::new(Nobody), connection: 1, handle: 1, sent_micros: 0 },
            stores: StoreSet::All,
            load: false,
            retry: None,
            recompile: None,
            time_max,
            turn: None,
        };
        let outcome = executor.call_program(&mut stores, &call, 1_700_000_000_000_000, None, &mut out);
        let (_, body) = frame::split(&out).unwrap().unwrap();
        let response = Response::parse(body).unwrap().to_owned_response().unwrap();
        if ends {
            assert_eq!(outcome, Some(CallOutcome::RolledBack));
            let text = response.status_text.unwrap_or_default();
            assert!(text.contains("the 20 ms that the call was given"), "{text}");
        } else {
            // The only row: nothing is left of the call before.
            assert_eq!((outcome, response.scalar()), (Some(CallOutcome::Committed), Some(1)));
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_as_a_whole() {
    let refused = |more: &str| compile(&with_classes(more)).err().expect("it is refused").to_string();
    let cases = [
        ("CREATE PROCEDURE FROM CLASS a.Missing;", "class a.Missing has not been loaded"),
        ("CREATE PROCEDURE FROM CLASS a.Other;", "class a.Other is no procedure"),
        ("CREATE PROCEDURE FROM CLASS a.Broken;", "field wrong of class a.Broken"),
        ("CREATE PROCEDURE FROM CLASS a.Annotated;", "write to replicated table"),
        ("CREATE PROCEDURE PARTITION ON TABLE t COLUMN id PARAMETER 2 FROM CLASS a.Batches;", "only 2 parameters"),
        ("CREATE PROCEDURE p (x BIGINT) FROM CLASS a.Batches;", "run method"),
        ("CREATE PROCEDURE FROM CLASS a.Batches; REMOVE CLASSES 'a.Batches';", "not among the loaded classes"),
        ("LOAD CLASSES 'bm8gamFy';", "not a jar"),
        ("LOAD CLASSES 'no base64';", "base64"),
    ];
    for (statements, words) in cases {
        let error = refused(statements);
        assert!(error.contains(words), "{statements}: {error}");
    }
}

#[test]
fn a_schema_with_classes_is_made_again_by_its_text() {
    let text = with_classes(
        "CREATE PROCEDURE p PARTITION ON TABLE t COLUMN id FROM CLASS a.Batches; CREATE PROCEDURE FROM CLASS a.Batches;
         PARTITION PROCEDURE Batches ON TABLE t COLUMN id;",
    );
    let (planned, compiled) = compile(&text).unwrap();
    let again = schema::plan(&Catalog::default(), &schema_text(&planned.catalog)).unwrap();
    assert_eq!(again.catalog.classes, planned.catalog.classes);
    assert_eq!(schema_text(&again.catalog), schema_text(&planned.catalog));
    let routing = Routing::Parameter { index: 0, sql_type: SqlType::Bigint };
    for name in ["p", "Batches"] {
        assert_eq!(compiled.program(compiled.require(name).unwrap()).routing, routing, "{name}");
    }
}

#[test]
fn a_class_that_cannot_be_loaded_does_not_keep_the_database_shut() {
    let planned = schema::plan(&Catalog::default(), &with_classes("CREATE PROCEDURE FROM CLASS a.Other;")).unwrap();
    assert!(Compiled::new(Arc::clone(&planned.catalog), &crate::in_rust::runtime(describe)).is_err());
    let compiled = Compiled::recovered(Arc::clone(&planned.catalog), &crate::in_rust::runtime(describe)).unwrap();
    let program = compiled.program(compiled.require("Other").unwrap());
    let mut stores = [Store::new(PartitionId(0), Arc::new(Ring::new_default(1)))];
    schema::apply(&mut stores, &planned, 0).unwrap();
    for count in 0..2 {
        let (mut parameters, mut out) = (Vec::new(), Vec::new());
        vec![1i64; count].write_set(&mut parameters).unwrap();
        let mut executor = Executor::new(Duration::from_secs(600));
        executor.call(&mut stores, &request(program, &parameters), &mut out);
        let (_, body) = frame::split(&out).unwrap().unwrap();
        let response = Response::parse(body).unwrap().to_owned_response().unwrap();
        assert!(format!("{response:?}").contains("class a.Other is no procedure"), "{response:?}");
    }
}

/// What a new history begins with stands before it in the log.
#[test]
fn a_jar_larger_than_other_statements_may_be_the_first_of_a_history() {
    let name = |number: usize| format!("{number:05}{}", "n".repeat(1_000));
    let names: Vec<String> = (0..7_000).map(name).collect();
    let jar = jar(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let text = schema::logged_text(&Catalog::default(), &schema::load_classes(&jar));
    assert!(text.len() > limits::STATEMENT_BYTES_CEILING && text.contains("\nSET DECIMAL_SCALE"), "{}", text.len());
    let planned = schema::plan(&Catalog::default(), &text).expect("it can be replayed");
    let again = schema::plan(&Catalog::default(), &schema_text(&planned.catalog)).expect("and from its own text");
    assert_eq!(again.catalog.classes, planned.catalog.classes);
}
