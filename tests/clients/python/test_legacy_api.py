"""The old Python API (FastSerializer and VoltProcedure): one blocking connection, version 1 login, plain invocations."""

import decimal
import signal
import unittest

from cases import (
    GRACEFUL_FAILURE, KEY_VALUE_SCHEMA, MULTI_PARTITION_ID, SUCCESS, TYPES_COLUMNS, TYPES_PARAMETERS, TYPES_ROWS, TYPES_SCHEMA,
    UNEXPECTED_FAILURE, USER_ABORT, ServerCase, initialize_voter, sum_partitions,
)
from server import NODES, VOTER_SCHEMA, Server
from voltdbclient import FastSerializer, Geography, VoltProcedure
from voltdbclient import FastSerializer as Wire

CONTESTANTS = "Edwina Burnam,Tabatha Gehling,Kelly Clauss,Jessie Alloway,Alana Bregman,Jessie Eichman"


class LegacyCase(ServerCase):
    def setUp(self):
        self.connection = self.connect()

    def connect(self, **options):
        return FastSerializer(self.server.host, self.server.port, procedure_timeout=30, **options)

    def tearDown(self):
        self.connection.close()

    def call(self, procedure, types=(), parameters=()):
        return VoltProcedure(self.connection, procedure, list(types)).call(list(parameters))


class Voter(LegacyCase):
    schema = VOTER_SCHEMA

    def setUp(self):
        super().setUp()
        initialize_voter(self.succeed, CONTESTANTS)
        self.sql("DELETE FROM votes")

    def vote(self, phone, contestant, votes_max):
        # As the published benchmark does: the limit goes as an INTEGER though the procedure
        # declares 64 bits.
        types = [Wire.VOLTTYPE_BIGINT, Wire.VOLTTYPE_INTEGER, Wire.VOLTTYPE_INTEGER]
        return self.scalar(self.succeed("Vote", types, [phone, contestant, votes_max]))

    def test_vote_answers_0_1_and_2(self):
        self.assertEqual(self.vote(6175551234, 3, 2), 0, "the first vote counts")
        self.assertEqual(self.vote(6175551234, 3, 2), 0, "so does the second")
        self.assertEqual(self.vote(6175551234, 3, 2), 2, "the third is over the limit")
        self.assertEqual(self.vote(6175551234, 999, 2), 1, "no such contestant")
        self.assertEqual(self.vote(9995551234, 1, 2), 0, "an area code that no state has")
        by_phone = "SELECT phone_number, state, contestant_number FROM votes WHERE phone_number = "
        self.assertEqual(self.rows(by_phone + "6175551234"), [[6175551234, "MA", 3], [6175551234, "MA", 3]])
        self.assertEqual(self.rows(by_phone + "9995551234"), [[9995551234, "XX", 1]])
        self.assertEqual(self.sum_partitions("SELECT COUNT(*) FROM votes"), 3)

    def test_a_number_returned_has_an_empty_column_name(self):
        types = [Wire.VOLTTYPE_BIGINT, Wire.VOLTTYPE_INTEGER, Wire.VOLTTYPE_BIGINT]
        table = self.succeed("Vote", types, [2125550000, 1, 2]).tables[0]
        # The client reads an empty name as None or as the empty string, depending on its version.
        self.assertIn(table.columns[0].name, ("", None))
        self.assertEqual(table.columns[0].type, Wire.VOLTTYPE_BIGINT)

    def test_views_and_results_agree_with_the_votes(self):
        for contestant, votes in ((1, 5), (2, 3), (4, 7)):
            for caller in range(votes):
                self.assertEqual(self.vote(2120000000 + 1000 * contestant + caller, contestant, 1), 0)
        table = self.succeed("Results").tables[0]
        self.assertEqual([name for name, _ in self.names_and_types(table)], ["CONTESTANT_NAME", "CONTESTANT_NUMBER", "TOTAL_VOTES"])
        self.assertEqual(table.tuples, [["Jessie Alloway", 4, 7], ["Edwina Burnam", 1, 5], ["Tabatha Gehling", 2, 3]])
        self.assertEqual(self.rows("SELECT SUM(num_votes) FROM v_votes_by_phone_number"), [[15]])
        self.assertEqual(self.rows("SELECT SUM(num_votes) FROM v_votes_by_contestant_number_state"), [[15]])
        self.assertEqual(self.rows("SELECT COUNT(*) FROM votes"), [[15]])
        winning = self.succeed("ContestantWinningStates", [Wire.VOLTTYPE_INTEGER, Wire.VOLTTYPE_INTEGER], [4, 10])
        self.assertEqual(winning.tables[0].tuples, [["NY", 7]])
        heat = self.succeed("GetStateHeatmap")
        self.assertEqual(heat.tables[0].tuples, [["NY", 4, 7]])
        self.assertEqual(heat.tables[1].tuples, [[4, 7], [1, 5], [2, 3]])

    def test_a_procedure_of_statements_answers_with_a_table_each(self):
        types = [Wire.VOLTTYPE_INTEGER, Wire.VOLTTYPE_BIGINT, Wire.VOLTTYPE_SMALLINT, Wire.VOLTTYPE_BIGINT,
                 Wire.VOLTTYPE_STRING, Wire.VOLTTYPE_INTEGER]
        response = self.succeed("VoteStatements", types, [2, 2125550001, 212, 2125550001, "NY", 2])
        self.assertEqual([table.tuples for table in response.tables], [[[2]], [], [["NY"]], [[1]]])
        response = self.succeed("VoteStatements", types, [77, 2125550001, 999, 2125550001, "NY", 2])
        self.assertEqual([table.tuples for table in response.tables], [[], [[1]], [], [[1]]])

    def test_initialize_does_nothing_the_second_time(self):
        again = self.succeed("Initialize", [Wire.VOLTTYPE_INTEGER, Wire.VOLTTYPE_STRING], [3, "a,b,c"])
        self.assertEqual(self.scalar(again), 6)
        self.assertEqual(self.rows("SELECT COUNT(*) FROM contestants"), [[6]])
        self.assertEqual(self.rows("SELECT COUNT(*) FROM area_code_state"), [[305]])


class KeyValue(LegacyCase):
    def setUp(self):
        super().setUp()
        self.sql("DROP TABLE store IF EXISTS")
        self.apply(KEY_VALUE_SCHEMA)

    def test_default_procedures(self):
        key_type, value_type = Wire.VOLTTYPE_STRING, Wire.VOLTTYPE_VARBINARY
        key = "K" + "17".rjust(31)
        first, second = bytes(range(127)) * 8, b"\x00\xff" * 512
        self.assertEqual(self.modified(self.succeed("STORE.upsert", [key_type, value_type], [key, first])), 1)
        found = self.succeed("STORE.select", [key_type], [key]).tables[0]
        self.assertEqual(self.names_and_types(found), [("KEY", key_type), ("VALUE", value_type)])
        self.assertEqual([[row[0], bytes(row[1])] for row in found.tuples], [[key, first]])
        self.assertEqual(self.modified(self.succeed("STORE.upsert", [key_type, value_type], [key, second])), 1)
        self.assertEqual(bytes(self.succeed("STORE.select", [key_type], [key]).tables[0].tuples[0][1]), second)
        self.refuse(GRACEFUL_FAILURE, "STORE.insert", [key_type, value_type], [key, first], "CONSTRAINT VIOLATION")
        self.assertEqual(bytes(self.succeed("STORE.select", [key_type], [key]).tables[0].tuples[0][1]), second)
        update = [key_type, value_type, key_type]
        self.assertEqual(self.modified(self.succeed("STORE.update", update, [key, first, key])), 1)
        self.assertEqual(self.modified(self.succeed("STORE.update", update, ["none", first, "none"])), 0)
        self.assertEqual(self.modified(self.succeed("STORE.delete", [key_type], [key])), 1)
        self.assertEqual(self.modified(self.succeed("STORE.delete", [key_type], [key])), 0)
        self.assertEqual(self.succeed("STORE.select", [key_type], [key]).tables[0].tuples, [])

    def test_default_procedure_names_have_no_case(self):
        self.succeed("store.UPSERT", [Wire.VOLTTYPE_STRING, Wire.VOLTTYPE_VARBINARY], ["a", b"1"])
        self.assertEqual(len(self.succeed("Store.Select", [Wire.VOLTTYPE_STRING], ["a"]).tables[0].tuples), 1)

    def test_the_longest_value_and_one_byte_more(self):
        types = [Wire.VOLTTYPE_STRING, Wire.VOLTTYPE_VARBINARY]
        longest = bytes(1048576)
        self.succeed("STORE.upsert", types, ["long", longest])
        self.assertEqual(bytes(self.succeed("STORE.select", [Wire.VOLTTYPE_STRING], ["long"]).tables[0].tuples[0][1]), longest)
        self.refuse(GRACEFUL_FAILURE, "STORE.upsert", types, ["long", longest + b"\x00"])
        self.assertEqual(bytes(self.succeed("STORE.select", [Wire.VOLTTYPE_STRING], ["long"]).tables[0].tuples[0][1]), longest)


class Types(LegacyCase):
    def setUp(self):
        super().setUp()
        self.sql("DROP TABLE types IF EXISTS")
        self.apply(TYPES_SCHEMA)

    def stored(self, identity):
        table = self.succeed("TYPES.select", [Wire.VOLTTYPE_INTEGER], [identity]).tables[0]
        self.assertEqual(self.names_and_types(table), TYPES_COLUMNS)
        self.assertEqual(len(table.tuples), 1)
        return [bytes(cell) if isinstance(cell, (bytearray, memoryview)) or hasattr(cell, "tobytes") else cell for cell in table.tuples[0]]

    def test_every_type_comes_back_as_it_was_sent(self):
        for row in TYPES_ROWS:
            with self.subTest(row=row[0]):
                self.assertEqual(self.modified(self.succeed("TYPES.insert", TYPES_PARAMETERS, row)), 1)
                self.assertEqual(self.stored(row[0]), row)
        self.assertEqual(self.sum_partitions("SELECT COUNT(*) FROM types WHERE c_tinyint IS NULL AND c_varbinary IS NULL"), 1)

    def test_the_untyped_null_fits_every_type(self):
        types = [Wire.VOLTTYPE_INTEGER] + [Wire.VOLTTYPE_NULL] * 10
        self.succeed("TYPES.insert", types, [50] + [None] * 10)
        self.assertEqual(self.stored(50), [50] + [None] * 10)

    def test_parameters_are_converted_to_the_declared_types(self):
        types = [Wire.VOLTTYPE_BIGINT, Wire.VOLTTYPE_STRING, Wire.VOLTTYPE_BIGINT, Wire.VOLTTYPE_TINYINT, Wire.VOLTTYPE_INTEGER,
                 Wire.VOLTTYPE_INTEGER, Wire.VOLTTYPE_STRING, Wire.VOLTTYPE_BIGINT, Wire.VOLTTYPE_STRING, Wire.VOLTTYPE_STRING,
                 Wire.VOLTTYPE_BIGINT]
        self.succeed("TYPES.insert", types, [60, "7", 8, 9, 10, 3, "1.25", 77, "s", "00ff", 1])
        row = self.stored(60)
        self.assertEqual(row[:7], [60, 7, 8, 9, 10, 3.0, decimal.Decimal("1.250000000000")])
        self.assertEqual(row[7:10], ["77", "s", b"\x00\xff"])
        self.assertEqual(row[10].microsecond, 1)

    def test_values_out_of_range_are_refused(self):
        def insert(column, type_code, value):
            types = [Wire.VOLTTYPE_INTEGER] + [Wire.VOLTTYPE_NULL] * 10
            row = [70] + [None] * 10
            types[column], row[column] = type_code, value
            self.refuse(GRACEFUL_FAILURE, "TYPES.insert", types, row)

        insert(1, Wire.VOLTTYPE_INTEGER, 128)
        insert(1, Wire.VOLTTYPE_INTEGER, -129)
        insert(2, Wire.VOLTTYPE_INTEGER, 32768)
        insert(3, Wire.VOLTTYPE_BIGINT, 2147483648)
        insert(3, Wire.VOLTTYPE_STRING, "twelve")
        insert(4, Wire.VOLTTYPE_FLOAT, 1.5)
        insert(7, Wire.VOLTTYPE_STRING, "x" * 101)
        insert(8, Wire.VOLTTYPE_STRING, "\N{SNOWMAN}" * 22)
        insert(9, Wire.VOLTTYPE_VARBINARY, bytes(101))
        insert(10, Wire.VOLTTYPE_STRING, "yesterday")
        self.assertEqual(self.rows("SELECT COUNT(*) FROM types WHERE id = 70"), [[0]])

    def test_geography(self):
        self.sql("DROP TABLE places IF EXISTS")
        self.apply(["CREATE TABLE places (id INTEGER NOT NULL PRIMARY KEY, point GEOGRAPHY_POINT, area GEOGRAPHY)",
                    "PARTITION TABLE places ON COLUMN id"])
        types = [Wire.VOLTTYPE_INTEGER, Wire.VOLTTYPE_GEOGRAPHY_POINT, Wire.VOLTTYPE_GEOGRAPHY]
        from voltdbclient import XYZPoint
        ring = [XYZPoint.fromGeographyPoint(point) for point in ((0, 0), (1, 0), (1, 1), (0, 1))]
        self.succeed("PLACES.insert", types, [1, (-71.25, 42.5), Geography([ring])])
        self.succeed("PLACES.insert", types, [2, None, None])
        row = self.succeed("PLACES.select", [Wire.VOLTTYPE_INTEGER], [1]).tables[0].tuples[0]
        self.assertEqual(tuple(row[1]), (-71.25, 42.5))
        self.assertEqual([[vars(vertex) for vertex in loop] for loop in row[2].loops], [[vars(vertex) for vertex in ring]])
        row = self.succeed("PLACES.select", [Wire.VOLTTYPE_INTEGER], [2]).tables[0].tuples[0]
        self.assertEqual(row[1:], [None, None])


class Sql(LegacyCase):
    def setUp(self):
        super().setUp()
        for statement in ("DROP PROCEDURE halve IF EXISTS", "DROP PROCEDURE name_of IF EXISTS", "DROP VIEW by_team IF EXISTS",
                          "DROP TABLE people IF EXISTS", "DROP TABLE teams IF EXISTS"):
            self.sql(statement)
        self.apply([
            "CREATE TABLE people (id BIGINT NOT NULL, name VARCHAR(40) NOT NULL, team INTEGER, score INTEGER DEFAULT 0, PRIMARY KEY (id))",
            "PARTITION TABLE people ON COLUMN id",
            "CREATE TABLE teams (id INTEGER NOT NULL PRIMARY KEY, label VARCHAR(20))",
            "CREATE INDEX people_team ON people (team)",
            "CREATE VIEW by_team (team, members, total) AS SELECT team, COUNT(*), SUM(score) FROM people GROUP BY team",
            "CREATE PROCEDURE name_of PARTITION ON TABLE people COLUMN id AS SELECT name FROM people WHERE id = ?",
            "CREATE PROCEDURE halve (who BIGINT, by_what INTEGER) PARTITION ON TABLE people COLUMN id AS BEGIN"
            " UPDATE people SET score = 100 WHERE id = who;"
            " IF by_what = 13 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not by thirteen'; END IF;"
            " UPDATE people SET score = score / by_what WHERE id = who;"
            " RETURN 7; END",
        ])
        for statement in ("INSERT INTO teams VALUES (1, 'red'); INSERT INTO teams VALUES (2, 'blue')",
                          "INSERT INTO people VALUES (1, 'Ada', 1, 10)", "INSERT INTO people VALUES (2, 'Bob', 2, 20)",
                          "INSERT INTO people VALUES (3, 'Cyd', 1, 30)", "INSERT INTO people (id, name) VALUES (4, 'Dan')"):
            self.sql(statement)

    def test_queries_over_all_partitions(self):
        self.assertEqual(self.rows("SELECT name FROM people WHERE score >= 10 ORDER BY score DESC LIMIT 2"), [["Cyd"], ["Bob"]])
        self.assertEqual(self.rows("SELECT team, members, total FROM by_team ORDER BY team"), [[None, 1, 0], [1, 2, 40], [2, 1, 20]])
        joined = "SELECT t.label, COUNT(*) AS n FROM people p, teams t WHERE p.team = t.id GROUP BY t.label HAVING COUNT(*) > 1"
        self.assertEqual(self.rows(joined), [["red", 2]])
        table = self.sql("SELECT COUNT(*), SUM(score), AVG(score), MIN(name), MAX(score) FROM people").tables[0]
        self.assertEqual(self.names_and_types(table), [("C1", Wire.VOLTTYPE_BIGINT), ("C2", Wire.VOLTTYPE_BIGINT),
                                                       ("C3", Wire.VOLTTYPE_BIGINT), ("C4", Wire.VOLTTYPE_STRING),
                                                       ("C5", Wire.VOLTTYPE_INTEGER)])
        self.assertEqual(table.tuples, [[4, 60, 15, "Ada", 30]])

    def test_parameters_of_ad_hoc_statements(self):
        response = self.succeed("@AdHoc", [Wire.VOLTTYPE_STRING, Wire.VOLTTYPE_BIGINT], ["SELECT name FROM people WHERE id = ?", 2])
        self.assertEqual(response.tables[0].tuples, [["Bob"]])
        types = [Wire.VOLTTYPE_STRING, Wire.VOLTTYPE_BIGINT, Wire.VOLTTYPE_STRING]
        self.assertEqual(self.modified(self.succeed("@AdHoc", types, ["INSERT INTO people (id, name) VALUES (?, ?)", 9, "Eve"])), 1)
        self.assertEqual(self.rows("SELECT name, score FROM people WHERE id = 9"), [["Eve", 0]])

    def test_several_statements_in_one_call_are_one_transaction(self):
        response = self.sql("SELECT name FROM people WHERE id = 1; SELECT label FROM teams ORDER BY id")
        self.assertEqual([table.tuples for table in response.tables], [[["Ada"]], [["red"], ["blue"]]])
        self.refuse_sql("INSERT INTO people (id, name) VALUES (50, 'Fay'); INSERT INTO people (id, name) VALUES (1, 'dup')",
                        "CONSTRAINT VIOLATION")
        self.assertEqual(self.rows("SELECT COUNT(*) FROM people WHERE id = 50"), [[0]])

    def test_a_multi_partition_change_is_all_or_nothing(self):
        self.assertEqual(self.modified(self.sql("UPDATE people SET score = score + 1")), 4)
        self.refuse_sql("UPDATE people SET score = 2147483647 / (id - 3)")
        scores = [self.rows(f"SELECT score FROM people WHERE id = {person}") for person in (1, 2, 3, 4)]
        self.assertEqual(scores, [[[11]], [[21]], [[31]], [[1]]])
        self.assertEqual(self.sum_partitions("SELECT SUM(total) FROM by_team"), 64)

    def test_a_procedure_that_fails_leaves_no_trace(self):
        types = [Wire.VOLTTYPE_BIGINT, Wire.VOLTTYPE_INTEGER]
        self.assertEqual(self.scalar(self.succeed("halve", types, [1, 2])), 7)
        self.assertEqual(self.rows("SELECT score FROM people WHERE id = 1"), [[50]])
        self.refuse(GRACEFUL_FAILURE, "halve", types, [2, 0], "SQL ERROR")
        aborted = self.refuse(USER_ABORT, "halve", types, [2, 13], "not by thirteen")
        self.assertIn("USER ABORT", aborted.statusString)
        self.assertEqual(self.rows("SELECT score FROM people WHERE id = 2"), [[20]])
        self.assertEqual(self.sum_partitions("SELECT SUM(total) FROM by_team WHERE team = 2"), 20)

    def test_failures_have_the_right_status(self):
        bigint, string = Wire.VOLTTYPE_BIGINT, Wire.VOLTTYPE_STRING
        self.refuse(UNEXPECTED_FAILURE, "nosuch", text="Procedure nosuch was not found")
        self.refuse(UNEXPECTED_FAILURE, "TEAMS.select", [Wire.VOLTTYPE_INTEGER], [1], "was not found")
        self.refuse(UNEXPECTED_FAILURE, "@NoSuch", text="@NoSuch")
        self.refuse(GRACEFUL_FAILURE, "name_of", [bigint, bigint], [1, 2], "EXPECTS 1 PARAMS, BUT RECEIVED 2")
        self.refuse(GRACEFUL_FAILURE, "halve", [bigint, string], [1, "two"], "TYPE ERROR FOR PARAMETER 1")
        self.refuse(GRACEFUL_FAILURE, "PEOPLE.insert", [bigint, string, bigint, bigint], [1, "dup", 1, 1], "CONSTRAINT VIOLATION")
        self.refuse(GRACEFUL_FAILURE, "PEOPLE.insert", [bigint, string, bigint, bigint], [77, None, 1, 1], "CONSTRAINT VIOLATION")
        self.refuse_sql("SELEC 1", "SELEC")
        self.refuse_sql("SELECT nosuch FROM people", "NOSUCH")
        self.refuse_sql("SELECT * FROM nosuch", "NOSUCH")
        self.refuse_sql("CREATE TABLE people (id INTEGER)", "PEOPLE")
        self.refuse_sql("DROP TABLE nosuch", "NOSUCH")
        self.refuse_sql("SELECT 9223372036854775807 + id FROM people WHERE id = 1")
        self.refuse_sql("SELECT score / (id - 1) FROM people WHERE id = 1")
        self.refuse_sql("INSERT INTO people (id, name) VALUES (88, '%s')" % ("n" * 41))
        self.refuse_sql("INSERT INTO people (id, name) VALUES (89, 'x'); CREATE TABLE more (id INTEGER)", "DDL mixed with DML")
        self.refuse_sql("", "no SQL statement")
        self.assertEqual(self.sum_partitions("SELECT COUNT(*) FROM people"), 4)

    def test_array_parameters_where_a_scalar_is_declared_are_refused(self):
        self.refuse(GRACEFUL_FAILURE, "name_of", [Wire.VOLTTYPE_BIGINT], [[1, 2]])


class SystemProcedures(LegacyCase):
    schema = VOTER_SCHEMA

    def table_of(self, procedure, types, parameters):
        return self.succeed(procedure, types, parameters).tables[0]

    def by_name(self, table):
        names = [column.name for column in table.columns]
        return [dict(zip(names, row)) for row in table.tuples]

    def test_ping(self):
        response = self.succeed("@Ping")
        self.assertEqual(response.statusString, "SUCCESS")
        self.assertEqual(response.tables[0].tuples, [[0]])

    def test_topology(self):
        response = self.succeed("@Statistics", [Wire.VOLTTYPE_STRING, Wire.VOLTTYPE_INTEGER], ["TOPO", 0])
        partitions, ring = response.tables
        self.assertEqual([column.name for column in partitions.columns], ["Partition", "Sites", "Leader"])
        self.assertEqual([row[0] for row in partitions.tuples], [0, 1, 2, MULTI_PARTITION_ID])
        self.assertEqual([column.name for column in ring.columns], ["HASHTYPE", "HASHCONFIG"])
        self.assertEqual(ring.tuples[0][0], "ELASTIC")
        self.assertEqual(len(bytes(ring.tuples[0][1])), 4 + 8 * 16384)

    def test_partition_keys(self):
        for word in ("INTEGER", "STRING", "VARCHAR", "VARBINARY"):
            table = self.table_of("@GetPartitionKeys", [Wire.VOLTTYPE_STRING], [word])
            self.assertEqual([column.name for column in table.columns], ["PARTITION_ID", "PARTITION_KEY"])
            self.assertEqual(sorted(row[0] for row in table.tuples), [0, 1, 2])
        self.refuse(GRACEFUL_FAILURE, "@GetPartitionKeys", [Wire.VOLTTYPE_STRING], ["BIGINT"])

    def test_catalog(self):
        catalog = lambda word: self.by_name(self.table_of("@SystemCatalog", [Wire.VOLTTYPE_STRING], [word]))
        tables = {row["TABLE_NAME"]: row["TABLE_TYPE"] for row in catalog("TABLES")}
        self.assertEqual(tables, {"AREA_CODE_STATE": "TABLE", "CONTESTANTS": "TABLE", "VOTES": "TABLE",
                                  "V_VOTES_BY_PHONE_NUMBER": "VIEW", "V_VOTES_BY_CONTESTANT_NUMBER_STATE": "VIEW"})
        columns = {row["COLUMN_NAME"]: row for row in catalog("columns") if row["TABLE_NAME"] == "VOTES"}
        self.assertEqual([columns[name]["ORDINAL_POSITION"] for name in ("PHONE_NUMBER", "STATE", "CONTESTANT_NUMBER")], [1, 2, 3])
        self.assertEqual(columns["PHONE_NUMBER"]["REMARKS"], "PARTITION_COLUMN")
        self.assertEqual((columns["STATE"]["TYPE_NAME"], columns["STATE"]["COLUMN_SIZE"]), ("VARCHAR", 2))
        procedures = {row["PROCEDURE_NAME"]: row["REMARKS"] for row in catalog("PROCEDURES")}
        self.assertLessEqual({"Vote", "Results", "Initialize", "VOTES.insert", "CONTESTANTS.upsert"}, set(procedures))
        self.assertIn('"singlePartition":true', procedures["Vote"].replace(" ", ""))
        self.assertIn('"singlePartition":false', procedures["Results"].replace(" ", ""))
        keys = [(row["TABLE_NAME"], row["COLUMN_NAME"], row["KEY_SEQ"]) for row in catalog("PRIMARYKEYS")]
        self.assertEqual(sorted(keys), [
            ("AREA_CODE_STATE", "AREA_CODE", 1), ("CONTESTANTS", "CONTESTANT_NUMBER", 1),
            ("V_VOTES_BY_CONTESTANT_NUMBER_STATE", "CONTESTANT_NUMBER", 1), ("V_VOTES_BY_CONTESTANT_NUMBER_STATE", "STATE", 2),
            ("V_VOTES_BY_PHONE_NUMBER", "PHONE_NUMBER", 1),
        ])
        for word in ("INDEXINFO", "PROCEDURECOLUMNS", "TYPEINFO", "FUNCTIONS", "CLASSES", "ROLES", "USERS"):
            catalog(word)
        self.refuse(GRACEFUL_FAILURE, "@SystemCatalog", [Wire.VOLTTYPE_STRING], ["NOSUCH"], "Invalid @SystemCatalog selector: NOSUCH")

    def test_information(self):
        for parameters in ([], ["OVERVIEW"]):
            table = self.table_of("@SystemInformation", [Wire.VOLTTYPE_STRING] * len(parameters), parameters)
            hosts = {}
            for host, key, value in table.tuples:
                hosts.setdefault(host, {})[key] = value
            self.assertEqual(len(hosts), NODES)
            values = next(values for values in hosts.values() if values["CLIENTPORT"] == str(self.server.port))
            self.assertEqual(values["CLUSTERSTATE"], "RUNNING")
            self.assertGreaterEqual(len(values["VERSION"].split(".")), 2)
        self.table_of("@SystemInformation", [Wire.VOLTTYPE_STRING], ["DEPLOYMENT"])
        self.refuse(GRACEFUL_FAILURE, "@SystemInformation", [Wire.VOLTTYPE_STRING], ["NOSUCH"])

    def test_statistics(self):
        types = [Wire.VOLTTYPE_STRING, Wire.VOLTTYPE_INTEGER]
        for word in ("MEMORY", "CPU", "PARTITIONCOUNT", "COMMANDLOG", "LIMITS", "SNAPSHOTSTATUS", "EXPORT", "memory"):
            self.succeed("@Statistics", types, [word, 0])
        self.refuse(GRACEFUL_FAILURE, "@Statistics", types, ["NOSUCH", 0])

    def test_subscription(self):
        self.assertEqual(self.succeed("@Subscribe", [Wire.VOLTTYPE_STRING], ["TOPOLOGY"]).tables, [])
        self.refuse(GRACEFUL_FAILURE, "@Subscribe", [Wire.VOLTTYPE_STRING], ["NOSUCH"])

    def test_any_user_may_log_in_without_security(self):
        other = self.connect(username="alice", password="secret")
        try:
            self.assertEqual(VoltProcedure(other, "@Ping", []).call([]).status, SUCCESS)
        finally:
            other.close()


class Restart(unittest.TestCase):
    """What was acknowledged is there after a stop and after a kill."""

    def check(self, how, durability):
        server = Server(partitions=3, durability=durability, schema=VOTER_SCHEMA)
        with server:
            connection = FastSerializer(server.host, server.port, procedure_timeout=30)
            call = lambda name, types, values: VoltProcedure(connection, name, types).call(values)
            initialize_voter(call, CONTESTANTS)
            types = [Wire.VOLTTYPE_BIGINT, Wire.VOLTTYPE_INTEGER, Wire.VOLTTYPE_BIGINT]
            for caller in range(200):
                answer = call("Vote", types, [2120000000 + caller, caller % 6 + 1, 1])
                self.assertEqual((answer.status, answer.tables[0].tuples), (SUCCESS, [[0]]))
            connection.close()
            code = server.stop(how)
            if how == signal.SIGTERM:
                self.assertEqual(code, 0, server.log())
            server.start()
            connection = FastSerializer(server.host, server.port, procedure_timeout=30)
            self.assertEqual(sum_partitions(call, "SELECT COUNT(*) FROM votes"), 200)
            self.assertEqual(sum_partitions(call, "SELECT SUM(num_votes) FROM v_votes_by_contestant_number_state"), 200)
            again = VoltProcedure(connection, "Vote", types).call([2120000000, 1, 1])
            self.assertEqual(again.tables[0].tuples, [[2]], "the limit counts the votes from before the restart")
            connection.close()

    def test_clean_stop(self):
        self.check(signal.SIGTERM, "sync")

    def test_kill(self):
        self.check(signal.SIGKILL, "sync")

    def test_interrupt_flushes_what_an_interval_had_not(self):
        self.check(signal.SIGTERM, "interval=50")
