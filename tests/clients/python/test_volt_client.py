"""The new Python API (VoltClient): many calls at once, topology, routing by partition, pushes after DDL."""

import threading
import time

from cases import (
    GRACEFUL_FAILURE, KEY_VALUE_SCHEMA, MULTI_PARTITION_ID, SUCCESS, TYPES_PARAMETERS, TYPES_ROWS, TYPES_SCHEMA,
    UNEXPECTED_FAILURE, ServerCase, initialize_voter,
)
from server import NODES, VOTER_SCHEMA
from voltclient import VoltClient, VoltType
from voltdbclient import FastSerializer as Wire

PUSH_SECONDS_MAX = 10
CONTESTANTS = "Edwina Burnam,Tabatha Gehling,Kelly Clauss,Jessie Alloway,Alana Bregman,Jessie Eichman"
VOTE_TYPES = [VoltType.BIGINT, VoltType.INTEGER, VoltType.BIGINT]


class ClientCase(ServerCase):
    def setUp(self):
        self.client = VoltClient([self.server.host], self.server.port, procedure_timeout=60)
        # It connects to the other nodes by itself, and asks for everything again then.
        self.wait_for(lambda: len(self.client.affinity_stats()) == NODES, "the other nodes")

    def tearDown(self):
        self.client.close()

    def call(self, procedure, types=(), parameters=()):
        return self.client.call(procedure, list(types), list(parameters))

    def wait_for(self, condition, what):
        """Waits for what the server pushes by itself, at most PUSH_SECONDS_MAX."""
        deadline = time.monotonic() + PUSH_SECONDS_MAX
        pause = threading.Event()
        while not condition():
            self.assertLess(time.monotonic(), deadline, f"{what} did not come within {PUSH_SECONDS_MAX} s")
            pause.wait(0.02)


class Voter(ClientCase):
    schema = VOTER_SCHEMA

    def setUp(self):
        super().setUp()
        initialize_voter(self.succeed, CONTESTANTS)
        self.sql("DELETE FROM votes")

    def test_pipelined_votes_are_counted_to_the_last(self):
        # Each phone calls four times or more; of those calls at most one names a contestant that
        # does not exist.
        calls, phones, votes_max = 20_000, 4_001, 2
        answers = {0: 0, 1: 0, 2: 0}
        futures = []
        for number in range(calls):
            phone = 2120000000 + number % phones
            contestant = 999 if number % 100 == 99 else number % 6 + 1
            futures.append(self.client.call_async("Vote", VOTE_TYPES, [phone, contestant, votes_max]))
        for future in futures:
            response = future.result()
            self.assertEqual(response.status, SUCCESS, response.statusString)
            answers[response.tables[0].tuples[0][0]] += 1
        self.assertEqual(answers[1], calls // 100)
        self.assertEqual(answers[0], phones * votes_max)
        self.assertEqual(sum(answers.values()), calls)
        self.assertEqual(self.sum_partitions("SELECT COUNT(*) FROM votes"), answers[0])
        self.assertEqual(self.sum_partitions("SELECT SUM(num_votes) FROM v_votes_by_phone_number"), answers[0])
        self.assertEqual(self.sum_partitions("SELECT COUNT(*) FROM v_votes_by_phone_number WHERE num_votes > 2"), 0)

    def test_results_are_those_of_all_partitions(self):
        for phone in range(2120000000, 2120000100):
            self.succeed("Vote", VOTE_TYPES, [phone, phone % 6 + 1, 2])
        self.assertEqual(self.rows("SELECT COUNT(*) FROM votes"), [[100]])
        self.assertEqual(sum(row[2] for row in self.succeed("Results").tables[0].tuples), 100)

    def test_topology_tells_partitions_and_procedures(self):
        topology = self.client.topology
        self.assertEqual(sorted(topology.partitions), [0, 1, 2, MULTI_PARTITION_ID])
        self.assertEqual(len(topology.hosts), NODES)
        hosts = [(host.ip, host.client_port) for host in topology.hosts.values()]
        self.assertIn((self.server.host, self.server.port), hosts)
        vote = topology.procedures["Vote"]
        self.assertEqual((vote.single_partition, vote.read_only, vote.partition_param, vote.partition_param_type),
                         (True, False, 0, VoltType.BIGINT))
        results = topology.procedures["Results"]
        self.assertEqual((results.single_partition, results.read_only), (False, True))
        self.assertEqual(topology.procedures["VoteStatements"].partition_param, 1)
        self.assertIsNotNone(topology.hashinator)

    def test_calls_go_to_the_node_of_their_partition(self):
        before = sum(stats.affinity_sends for stats in self.client.affinity_stats().values())
        for caller in range(30):
            self.succeed("Vote", VOTE_TYPES, [6170000000 + caller, 1, 1])
        after = sum(stats.affinity_sends for stats in self.client.affinity_stats().values())
        self.assertGreaterEqual(after - before, 30)

    def test_the_client_and_the_server_agree_on_partitions(self):
        # One leg per partition: each sees exactly the votes that this client's own ring puts there.
        self.sql("DROP PROCEDURE count_here IF EXISTS")
        self.sql("CREATE PROCEDURE count_here PARTITION ON TABLE votes COLUMN phone_number AS"
                 " SELECT COUNT(*) FROM votes WHERE phone_number <> ?")
        self.wait_for(lambda: "count_here" in self.client.topology.procedures, "the new procedure")
        phones = [4150000000 + caller for caller in range(300)]
        for phone in phones:
            self.succeed("Vote", VOTE_TYPES, [phone, 2, 1])
        expected = [0, 0, 0]
        for phone in phones:
            expected[self.client.get_partition_for_parameter(VoltType.BIGINT, phone)] += 1
        legs = self.client.call_all_partitions("count_here")
        self.assertEqual([leg.partition_id for leg in legs], [0, 1, 2])
        for leg in legs:
            self.assertTrue(leg.ok, leg)
        self.assertEqual([leg.response.tables[0].tuples[0][0] for leg in legs], expected)
        self.assertTrue(all(expected), "the test's phones reach every partition")

    def test_ddl_is_pushed_to_subscribers(self):
        self.sql("DROP TABLE pushed IF EXISTS")
        self.wait_for(lambda: "PUSHED.insert" not in self.client.topology.procedures, "the removal")
        self.sql("CREATE TABLE pushed (id BIGINT NOT NULL PRIMARY KEY)")
        self.wait_for(lambda: "PUSHED.insert" in self.client.topology.procedures, "the new table's procedures")
        self.assertFalse(self.client.topology.procedures["PUSHED.insert"].single_partition)
        self.sql("PARTITION TABLE pushed ON COLUMN id")
        insert = lambda: self.client.topology.procedures.get("PUSHED.insert")
        self.wait_for(lambda: insert() is not None and insert().single_partition, "the partitioning")


class KeyValueAndTypes(ClientCase):
    def test_key_value(self):
        self.apply(KEY_VALUE_SCHEMA)
        types = [VoltType.STRING, VoltType.VARBINARY]
        expected = {"K" + str(number).rjust(31): bytes([number % 256]) * 1024 for number in range(500)}
        futures = [self.client.call_async("STORE.upsert", types, [key, value]) for key, value in expected.items()]
        for future in futures:
            self.assertEqual(self.modified(future.result()), 1)
        futures = [(key, self.client.call_async("STORE.select", [VoltType.STRING], [key])) for key in expected]
        for key, future in futures:
            rows = future.result().tables[0].tuples
            self.assertEqual([[row[0], bytes(row[1])] for row in rows], [[key, expected[key]]])

    def test_every_type_comes_back_as_it_was_sent(self):
        self.apply(TYPES_SCHEMA)
        for row in TYPES_ROWS:
            self.assertEqual(self.modified(self.succeed("TYPES.insert", TYPES_PARAMETERS, row)), 1)
            stored = self.succeed("TYPES.select", [VoltType.INTEGER], [row[0]]).tables[0].tuples[0]
            self.assertEqual([bytes(cell) if hasattr(cell, "tobytes") else cell for cell in stored], row)

    def test_failures_have_the_right_status(self):
        self.refuse(UNEXPECTED_FAILURE, "nosuch", text="Procedure nosuch was not found")
        self.refuse(GRACEFUL_FAILURE, "@AdHoc", [Wire.VOLTTYPE_STRING], ["SELECT * FROM nosuch"], "NOSUCH")
        # The connection goes on.
        self.succeed("@Ping")
