//! Procedures and roles.

use super::*;

#[test]
fn procedures_are_partitioned_on_partitioning_columns() {
    let on_id = || procedure("Get", Some((0, 0, 0)));
    let (catalog, effects) = applied(&[table("T"), partition("T", "ID"), create_procedure(on_id())]);
    assert_eq!(effects, []);
    assert_eq!(catalog.procedure_named("get").unwrap().name, "Get");
    let not_partitioning =
        |column| format!("the procedure Get is to be partitioned on T.{column}, which is not a partitioning column");
    refused(&[table("T"), create_procedure(on_id())], &not_partitioning("ID"));
    let on_name = procedure("Get", Some((0, 1, 0)));
    refused(&[table("T"), partition("T", "ID"), create_procedure(on_name)], &not_partitioning("NAME"));
    applied(&[stream("S", Some(0)), create_procedure(on_id())]);

    let parameters = |count: u16| {
        (0..count).map(|number| (format!("P{number}"), ColumnType::fixed(SqlType::Bigint))).collect::<Vec<_>>()
    };
    let declared = |count, parameter| Procedure {
        parameters: Some(parameters(count)),
        ..procedure("Get", Some((0, 0, parameter)))
    };
    applied(&[table("T"), partition("T", "ID"), create_procedure(declared(2, 1))]);
    assert!(
        refusal(&[table("T"), partition("T", "ID"), create_procedure(declared(2, 2))]).contains("cannot be number 2")
    );
    let many = |count| create_procedure(Procedure { parameters: Some(parameters(count)), ..procedure("P", None) });
    applied(&[many(32_767)]);
    refused(&[many(32_768)], "the procedure P has 32768 parameters, more than 32767");

    let directed = Procedure { directed: true, ..on_id() };
    assert!(refusal(&[table("T"), partition("T", "ID"), create_procedure(directed)]).contains("cannot be both"));
    assert!(refusal(&[create_procedure(procedure("@Get", None))]).contains("begins with @"));

    let routed = "the procedure Get is partitioned on T; drop it first";
    let with_procedure =
        || vec![table_of("T", columns(), vec![], None), partition("T", "ID"), create_procedure(on_id())];
    refused(&[with_procedure(), vec![partition("T", "NAME")]].concat(), routed);
    refused(&[with_procedure(), vec![replicate("T")]].concat(), routed);
    let drop_procedure = |name: &str, if_exists| Change::DropProcedure { name: name.into(), if_exists };
    applied(&[with_procedure(), vec![drop_procedure("GET", false), partition("T", "NAME")]].concat());
    refused(&[drop_procedure("NOSUCH", false)], "object not found: NOSUCH");
    applied(&[drop_procedure("NOSUCH", true)]);
}

#[test]
fn a_procedure_can_be_partitioned_later() {
    let later = |name: &str| Change::PartitionProcedure {
        name: name.into(),
        partitioning: ProcedurePartitioning { table: TableId(0), column: 0, parameter: 1 },
    };
    let created = || vec![table("T"), partition("T", "ID"), create_procedure(procedure("Get", None))];
    let (catalog, _) = applied(&[created(), vec![later("GET")]].concat());
    assert_eq!(catalog.procedure_named("Get").unwrap().partitioning.as_ref().unwrap().parameter, 1);
    refused(&[created(), vec![later("NOSUCH")]].concat(), "object not found: NOSUCH");
    assert!(
        refusal(&[table("T"), create_procedure(procedure("Get", None)), later("Get")]).contains("to be partitioned")
    );
}

#[test]
fn roles() {
    let (catalog, _) = applied(&[role("Clerk", &["sqlread", "DEFAULTPROC"]), role("dba", &["sysproc"])]);
    assert_eq!(catalog.permissions_of("CLERK").unwrap(), ["defaultproc", "defaultprocread", "sqlread"]);
    assert_eq!(catalog.permissions_of("dba"), catalog.permissions_of("administrator"));
    assert_eq!(
        catalog.permissions_of("user").unwrap(),
        ["defaultproc", "defaultprocread", "sql", "sqlread", "allproc"]
    );
    assert_eq!(catalog.permissions_of("nosuch"), None);
    refused(&[role("clerk", &[]), role("CLERK", &[])], "object name already exists: CLERK");
    refused(&[role("user", &[])], "object name already exists: user");
    refused(&[role("clerk", &["fly"])], "fly is not a permission");

    let allowed = |name: &str| create_procedure(Procedure { allow_roles: vec![name.into()], ..procedure("P", None) });
    let drop_role = |name: &str, if_exists| Change::DropRole { name: name.into(), if_exists };
    applied(&[role("clerk", &[]), allowed("Clerk")]);
    applied(&[allowed("user")]);
    refused(&[allowed("nosuch")], "object not found: role nosuch");
    refused(
        &[role("clerk", &[]), allowed("clerk"), drop_role("clerk", false)],
        "the role clerk is allowed to call the procedure P",
    );
    applied(&[role("clerk", &[]), drop_role("CLERK", false)]);
    refused(&[drop_role("nosuch", false)], "object not found: nosuch");
    applied(&[drop_role("nosuch", true)]);
}
