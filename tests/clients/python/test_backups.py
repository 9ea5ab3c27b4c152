"""Backups with the parameters of the original procedures, through both Python APIs: by position and in JSON, native and CSV, and wrong ones."""

import pathlib
import shutil
import tempfile
import time

import test_legacy_api
import test_volt_client
from cases import GRACEFUL_FAILURE
from voltdbclient import FastSerializer as Wire

STRING, TINYINT, INTEGER, BIGINT = Wire.VOLTTYPE_STRING, Wire.VOLTTYPE_TINYINT, Wire.VOLTTYPE_INTEGER, Wire.VOLTTYPE_BIGINT
SAVE_SECONDS_MAX = 60
PEOPLE = 50
SCHEMA = [
    "CREATE TABLE person (id BIGINT NOT NULL, name VARCHAR(40), PRIMARY KEY (id))",
    "PARTITION TABLE person ON COLUMN id",
    "CREATE VIEW names AS SELECT name, COUNT(*) AS n FROM person GROUP BY name",
    "CREATE TABLE country (code VARCHAR(2) NOT NULL, PRIMARY KEY (code))",
]
HOST = [("HOST_ID", INTEGER), ("HOSTNAME", STRING)]
OUTCOME = [("RESULT", STRING), ("ERR_MSG", STRING)]


class Backups:
    """The cases; a class below says through which API."""

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="ferrite-backups-"))
        self.path = str(self.directory / "backups")
        for table in ("names", "person", "country"):
            self.sql(f"DROP {'VIEW' if table == 'names' else 'TABLE'} {table} IF EXISTS")
        self.apply(SCHEMA)
        for number in range(PEOPLE):
            self.succeed("PERSON.insert", [BIGINT, STRING], [number, f"name {number % 7}"])
        self.sql("INSERT INTO country VALUES ('CH')")

    def tearDown(self):
        super().tearDown()
        shutil.rmtree(self.directory, ignore_errors=True)

    def empty(self):
        self.sql("DELETE FROM person")
        self.sql("DELETE FROM country")

    def contents(self):
        """Partition by partition: where several groups have the rows, no query reads them all."""
        queries = ("SELECT * FROM person ORDER BY id", "SELECT * FROM names ORDER BY name", "SELECT * FROM country")
        keys = [row[1] for row in self.succeed("@GetPartitionKeys", [STRING], ["INTEGER"]).tables[0].tuples]
        self.assertEqual(len(keys), self.partitions)
        ask = lambda query, key: self.succeed("@AdHocSpForTest", [STRING, INTEGER], [query, key]).tables[0].tuples
        return [ask(query, key) for query in queries for key in keys]

    def json(self, procedure, text):
        return self.succeed(procedure, [STRING], [text])

    def check(self, response, columns, rows, column="RESULT", value="SUCCESS"):
        table = response.tables[0]
        self.assertEqual(self.names_and_types(table), columns)
        self.assertEqual(len(table.tuples), rows, table.tuples)
        position = [name for name, _ in columns].index(column)
        self.assertEqual({row[position] for row in table.tuples}, {value}, table.tuples)

    def scan(self):
        """By nonce: whether it is complete."""
        response = self.succeed("@SnapshotScan", [STRING], [self.path])
        self.assertEqual(len(response.tables), 3)
        return {row[1]: row[8] for row in response.tables[0].tuples}

    def test_by_position(self):
        by_site = HOST + [("SITE_ID", INTEGER)] + OUTCOME
        for kind, nonce in ((TINYINT, "one"), (BIGINT, "two")):
            saved = self.succeed("@SnapshotSave", [STRING, STRING, kind], [self.path, nonce, 1])
            self.check(saved, by_site, self.partitions)
        before = self.contents()
        self.empty()
        restored = self.succeed("@SnapshotRestore", [STRING, STRING], [self.path, "one"])
        columns = HOST + [("SITE_ID", INTEGER), ("TABLE", STRING), ("PARTITION_ID", INTEGER)] + OUTCOME
        self.check(restored, columns, 2 * self.partitions)
        self.assertEqual({row[3] for row in restored.tables[0].tuples}, {"PERSON", "COUNTRY"})
        self.assertEqual(self.contents(), before)
        self.assertEqual(self.scan(), {"one": "TRUE", "two": "TRUE"})
        deleted = self.succeed("@SnapshotDelete", [STRING, STRING], [[self.path] * 2, ["one", "two"]])
        columns = HOST + [("PATH", STRING), ("PATHTYPE", STRING), ("NONCE", STRING), ("NAME", STRING), ("SIZE", BIGINT),
                          ("DELETED", STRING)] + OUTCOME
        self.check(deleted, columns, 2 * (self.partitions + 1), "DELETED", "TRUE")
        self.assertEqual(self.scan(), {})
        self.assertEqual(list(pathlib.Path(self.path).iterdir()), [])

    def test_in_json(self):
        # As voltadmin writes it.
        begun = self.json("@SnapshotSave", f'{{uripath:"file://{self.path}",nonce:"n",block:false,format:"native"}}')
        self.check(begun, HOST + [("TABLE", STRING)] + OUTCOME, 2)
        deadline = time.monotonic() + SAVE_SECONDS_MAX
        while self.scan().get("n") != "TRUE":
            self.assertLess(time.monotonic(), deadline, "the backup is not whole")
        before = self.contents()
        self.sql("DELETE FROM person")
        # The other table has its row still, and is left out in either way. The save may take a
        # moment more to end.
        text = f"{{path:'{self.path}',nonce:'n',tables:['person'],hashinator:true}}"
        while "in progress" in (self.call("@SnapshotRestore", [STRING], [text]).statusString or ""):
            self.assertLess(time.monotonic(), deadline, "the backup does not end")
        self.assertEqual(self.contents(), before)
        self.sql("DELETE FROM person")
        self.json("@SnapshotRestore", f'{{"path":"{self.path}","nonce":"n","skiptables":["COUNTRY"]}}')
        self.assertEqual(self.contents(), before)

    def test_as_csv(self):
        text = f"{{uripath:'file://{self.path}',nonce:'c',block:true,format:'csv',tables:['PERSON']}}"
        self.check(self.json("@SnapshotSave", text), HOST + [("SITE_ID", INTEGER)] + OUTCOME, self.partitions)
        files = {path.name: path for path in pathlib.Path(self.path).iterdir()}
        self.assertTrue(files.pop("c.schema.sql", None), files)
        # Of several groups each has a file.
        if list(files) != ["c-PERSON.csv"]:
            names = {f"c-PERSON-group_{group}.csv" for group in range(len(files))}
            self.assertEqual(set(files), names)
            self.assertGreater(len(files), 1)
        lines = sorted(line for path in files.values() for line in path.read_text().splitlines())
        self.assertEqual(lines, sorted(f'"{number}","name {number % 7}"' for number in range(PEOPLE)))
        self.assertEqual(self.scan(), {"c": "TRUE"})
        self.refuse(GRACEFUL_FAILURE, "@SnapshotRestore", [STRING, STRING], [self.path, "c"], "CSV")

    def test_wrong_parameters(self):
        self.succeed("@SnapshotSave", [STRING, STRING, TINYINT], [self.path, "one", 1])
        before = self.contents()
        # A save that cannot be is an answer with a table, as tools expect it.
        for parameters, text in (
            (["relative", "x", 1], "not absolute"),
            ([self.path, "a-b", 1], "has a -"),
            ([self.path, "", 1], "is empty"),
            ([f"{self.path}/../x", "x", 1], "upwards"),
            ([self.path, "one", 1], "already exists"),
        ):
            refused = self.succeed("@SnapshotSave", [STRING, STRING, TINYINT], parameters)
            self.check(refused, HOST + [("TABLE", STRING)] + OUTCOME, 1, value="FAILURE")
            self.assertIn(text, refused.tables[0].tuples[0][4])
        for text, words in (
            ("no settings", "not JSON"),
            (f"{{uripath:'file://{self.path}'}}", "no nonce"),
            ("{nonce:'x'}", "no uripath"),
            (f"{{uripath:'file://{self.path}',nonce:'x',format:'xml'}}", "xml"),
            (f"{{uripath:'file://{self.path}',nonce:'x',colour:'red'}}", "colour"),
            (f"{{uripath:'file://{self.path}',nonce:'x',format:'csv',tables:['nothing']}}", "nothing"),
        ):
            refused = self.json("@SnapshotSave", text)
            self.check(refused, HOST + [("TABLE", STRING)] + OUTCOME, 1, value="FAILURE")
            self.assertIn(words, refused.tables[0].tuples[0][4])
        for types, parameters, words in (
            ([STRING, STRING], [self.path, "other"], "other.manifest"),
            ([STRING, STRING], [self.path, "one"], "has rows"),
            ([STRING, STRING], ["relative", "one"], "not absolute"),
            ([STRING, INTEGER], [self.path, 1], "takes a path and a nonce"),
            ([STRING], [f"{{path:'{self.path}',nonce:'one',tables:['nothing']}}"], "no table nothing"),
            ([STRING], ["{"], "not JSON"),
            ([], [], "takes a path and a nonce"),
        ):
            self.refuse(GRACEFUL_FAILURE, "@SnapshotRestore", types, parameters, words)
        for types, parameters in (([], []), ([INTEGER], [1])):
            self.refuse(GRACEFUL_FAILURE, "@SnapshotScan", types, parameters, "path")
        self.refuse(GRACEFUL_FAILURE, "@SnapshotDelete", [STRING, STRING], [[self.path], ["one", "two"]], "as many nonces")
        self.refuse(GRACEFUL_FAILURE, "@SnapshotDelete", [STRING], [[self.path]], "as many nonces")
        self.refuse(GRACEFUL_FAILURE, "@SnapshotDelete", [STRING, STRING], [[self.path], ["../one"]], "nonce")
        self.assertEqual(self.contents(), before)
        self.assertEqual(self.scan(), {"one": "TRUE"})


class Legacy(Backups, test_legacy_api.LegacyCase):
    pass


class Client(Backups, test_volt_client.ClientCase):
    pass
