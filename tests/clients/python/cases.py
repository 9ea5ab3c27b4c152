"""What both Python APIs are tested with: schemas, values, and a test case that owns a server."""

import datetime
import decimal
import unittest

from server import SEVERAL_GROUPS, Server, voter_rows
from voltdbclient import FastSerializer as Wire

SUCCESS = 1
USER_ABORT = -1
GRACEFUL_FAILURE = -2
UNEXPECTED_FAILURE = -3
MULTI_PARTITION_ID = 16383

KEY_VALUE_SCHEMA = [
    "CREATE TABLE store (key VARCHAR(250) NOT NULL, value VARBINARY(1048576) NOT NULL, PRIMARY KEY (key))",
    "PARTITION TABLE store ON COLUMN key",
]

TYPES_SCHEMA = [
    """CREATE TABLE types (
         id INTEGER NOT NULL PRIMARY KEY,
         c_tinyint TINYINT, c_smallint SMALLINT, c_integer INTEGER, c_bigint BIGINT, c_float FLOAT,
         c_decimal DECIMAL, c_varchar VARCHAR(100), c_bytes VARCHAR(64 BYTES), c_varbinary VARBINARY(100), c_timestamp TIMESTAMP)""",
    "PARTITION TABLE types ON COLUMN id",
]

TYPES_PARAMETERS = [
    Wire.VOLTTYPE_INTEGER, Wire.VOLTTYPE_TINYINT, Wire.VOLTTYPE_SMALLINT, Wire.VOLTTYPE_INTEGER, Wire.VOLTTYPE_BIGINT,
    Wire.VOLTTYPE_FLOAT, Wire.VOLTTYPE_DECIMAL, Wire.VOLTTYPE_STRING, Wire.VOLTTYPE_STRING, Wire.VOLTTYPE_VARBINARY,
    Wire.VOLTTYPE_TIMESTAMP,
]

TYPES_ROWS = [
    # Ordinary values.
    [1, 42, -1234, 123456789, -1234567890123456789, 2.5, decimal.Decimal("123.456000000000"), "héllo wörld", "plain",
     b"\x00\x01\xfe\xff", datetime.datetime(2026, 1, 2, 3, 4, 5, 678901)],
    # The largest values.
    [2, 127, 32767, 2147483647, 9223372036854775807, 1.7976931348623157e308,
     decimal.Decimal("99999999999999999999999999.999999999999"), "x" * 100, "y" * 64, b"\xab" * 100,
     datetime.datetime(2037, 12, 31, 23, 59, 59, 999999)],
    # The smallest values; one below each integer stands for NULL on the wire.
    [3, -127, -32767, -2147483647, -9223372036854775807, -1.0e300,
     decimal.Decimal("-99999999999999999999999999.999999999999"), "", "", b"", datetime.datetime(1970, 1, 1)],
    # Zeroes and the smallest steps.
    [4, 0, 0, 0, 0, 5e-324, decimal.Decimal("-0.000000000001"), "日本語 𝄞", "\N{SNOWMAN}", b"\x00",
     datetime.datetime(2000, 2, 29, 0, 0, 0, 1)],
    # NULL in every column that may be.
    [5, None, None, None, None, None, None, None, None, None, None],
]

TYPES_COLUMNS = [
    ("ID", Wire.VOLTTYPE_INTEGER), ("C_TINYINT", Wire.VOLTTYPE_TINYINT), ("C_SMALLINT", Wire.VOLTTYPE_SMALLINT),
    ("C_INTEGER", Wire.VOLTTYPE_INTEGER), ("C_BIGINT", Wire.VOLTTYPE_BIGINT), ("C_FLOAT", Wire.VOLTTYPE_FLOAT),
    ("C_DECIMAL", Wire.VOLTTYPE_DECIMAL), ("C_VARCHAR", Wire.VOLTTYPE_STRING), ("C_BYTES", Wire.VOLTTYPE_STRING),
    ("C_VARBINARY", Wire.VOLTTYPE_VARBINARY), ("C_TIMESTAMP", Wire.VOLTTYPE_TIMESTAMP),
]


def initialize_voter(succeed, contestants):
    """Voter's contestants and area codes. `succeed`: calls a procedure, by its name, types and parameters."""
    if not SEVERAL_GROUPS:
        return succeed("Initialize", [Wire.VOLTTYPE_INTEGER, Wire.VOLTTYPE_STRING], [len(contestants.split(",")), contestants])
    return [succeed("@AdHoc", [Wire.VOLTTYPE_STRING], [statement]) for statement in voter_rows(contestants)]


def sum_partitions(succeed, query):
    """The sum of a query's one number over the partitions' answers: several groups of them are not read together."""
    keys = [row[1] for row in succeed("@GetPartitionKeys", [Wire.VOLTTYPE_STRING], ["INTEGER"]).tables[0].tuples]
    types = [Wire.VOLTTYPE_STRING, Wire.VOLTTYPE_BIGINT]
    return sum(succeed("@AdHocSpForTest", types, [query, key]).tables[0].tuples[0][0] or 0 for key in keys)


class ServerCase(unittest.TestCase):
    """One server for all tests of a class. `schema` is a file for --schema, or None."""

    schema = None
    partitions = 3
    durability = "sync"

    @classmethod
    def setUpClass(cls):
        cls.server = Server(cls.partitions, cls.durability, cls.schema)
        cls.server.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def call(self, procedure, types=(), parameters=()):
        raise NotImplementedError

    def succeed(self, procedure, types=(), parameters=()):
        response = self.call(procedure, list(types), list(parameters))
        self.assertEqual(response.status, SUCCESS, f"{procedure}{list(parameters)}: {response.statusString}")
        return response

    def refuse(self, status, procedure, types=(), parameters=(), text=""):
        response = self.call(procedure, list(types), list(parameters))
        self.assertEqual(response.status, status, f"{procedure}{list(parameters)}: {response.statusString}")
        self.assertTrue(response.statusString, "a failure says why")
        self.assertIn(text, response.statusString)
        self.assertEqual(response.tables, [], "a failure has no tables")
        return response

    def sql(self, statement):
        return self.succeed("@AdHoc", [Wire.VOLTTYPE_STRING], [statement])

    def refuse_sql(self, statement, text="", status=GRACEFUL_FAILURE):
        return self.refuse(status, "@AdHoc", [Wire.VOLTTYPE_STRING], [statement], text)

    def rows(self, statement):
        return self.sql(statement).tables[0].tuples

    def sum_partitions(self, query):
        return sum_partitions(self.succeed, query)

    def apply(self, statements):
        for statement in statements:
            response = self.sql(statement)
            self.assertEqual([column.name for column in response.tables[0].columns], ["STATUS"])
            self.assertEqual(response.tables[0].tuples, [[0]])

    def scalar(self, response):
        self.assertEqual(len(response.tables), 1)
        self.assertEqual(len(response.tables[0].tuples), 1)
        self.assertEqual(len(response.tables[0].tuples[0]), 1)
        return response.tables[0].tuples[0][0]

    def modified(self, response):
        self.assertEqual([column.name for column in response.tables[0].columns], ["modified_tuples"])
        return self.scalar(response)

    def names_and_types(self, table):
        return [(column.name, column.type) for column in table.columns]
