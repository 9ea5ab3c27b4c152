package ferrite.support;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.Timeout;
import org.voltdb.VoltTable;
import org.voltdb.VoltTableRow;
import org.voltdb.VoltType;
import org.voltdb.client.ClientAffinityStats;
import org.voltdb.client.ClientResponse;
import org.voltdb.client.ClientResponseWithPartitionKey;
import org.voltdb.types.GeographyPointValue;
import org.voltdb.types.GeographyValue;
import org.voltdb.types.TimestampType;

/** What each Java client must be able to do. A subclass says how its API makes a call. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
@Timeout(value = 300, unit = TimeUnit.SECONDS)
public abstract class Scenario {
    /** Does not end within a test's time, and needs no rows. */
    protected static final String ENDLESS = "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3000)"
            + " SELECT COUNT(*) FROM r a, r b, r c, r d WHERE a.n + b.n + c.n + d.n < 0";

    protected static final int PARTITIONS = 3;
    private static final int MULTI_PARTITION_ID = 16383;
    private static final int LOAD_CALLS = 200_000;
    private static final int LOAD_OUTSTANDING_MAX = 900;

    protected Server server;

    protected abstract void connect(Server server) throws Exception;

    protected abstract void disconnect() throws Exception;

    /** A synchronous call; a failure of the procedure is returned, not thrown. */
    protected abstract ClientResponse call(String procedure, Object... parameters) throws Exception;

    /** An asynchronous call; the consumer gets the response, also of a failure. */
    protected abstract void callAsync(Consumer<ClientResponse> consumer, String procedure, Object... parameters) throws Exception;

    protected abstract ClientResponseWithPartitionKey[] callAllPartitions(String procedure, Object... parameters) throws Exception;

    /** Counters of calls routed by partition and in turn, per host, since the client was made. */
    protected abstract Map<Integer, ClientAffinityStats> affinity();

    @BeforeAll
    void startServer() throws Exception {
        server = Server.withVoter(PARTITIONS);
    }

    @AfterAll
    void stopServer() throws Exception {
        if (server != null) {
            server.close();
        }
    }

    @BeforeEach
    void prepare() throws Exception {
        connect(server);
        initialize();
        succeed("@AdHoc", "DELETE FROM votes");
    }

    private void initialize() throws Exception {
        if (!Server.SEVERAL_GROUPS) {
            assertEquals(6, succeed("Initialize", 6, Server.CONTESTANTS).getResults()[0].asScalarLong());
            return;
        }
        // It decides by what it has read, which several groups cannot do together.
        List<String> names = List.of(Server.CONTESTANTS.split(","));
        for (int number = 1; number <= names.size(); number++) {
            succeed("@AdHoc", "UPSERT INTO contestants VALUES (" + number + ", '" + names.get(number - 1) + "')");
        }
        for (int code : new int[] {212, 312, 415, 617}) {
            succeed("@AdHoc", "UPSERT INTO area_code_state VALUES (" + code + ", 'NY')");
        }
    }

    @AfterEach
    void finish() throws Exception {
        disconnect();
    }

    @Test
    void voteAnswersZeroOneAndTwo() throws Exception {
        assertEquals(0, vote(6175551234L, 3));
        assertEquals(0, vote(6175551234L, 3));
        assertEquals(2, vote(6175551234L, 3), "the third vote of a phone is over the limit");
        assertEquals(1, vote(6175551234L, 999), "no such contestant");
        assertEquals(0, vote(9995551234L, 1));
        assertEquals(3, sum("SELECT COUNT(*) FROM votes"));
        VoltTableRow last = sql("SELECT state, contestant_number FROM votes WHERE phone_number = 9995551234").fetchRow(0);
        assertEquals("XX", last.getString("STATE"));
        assertEquals(1, last.getLong("contestant_number"));
    }

    @Test
    void backupsAsExistingToolsAskForThem() throws Exception {
        disconnect();
        // One without other tests' tables.
        try (Server own = Server.withVoter(PARTITIONS)) {
            connect(own);
            initialize();
            for (int caller = 0; caller < 50; caller++) {
                assertEquals(0, vote(6175550000L + caller, 1 + caller % 6));
            }
            Backups.tryOut(this::call, PARTITIONS);
            assertEquals(50, sql("SELECT SUM(num_votes) FROM v_votes_by_phone_number").asScalarLong());
            disconnect();
        } finally {
            connect(server);
        }
    }

    @Test
    void pipelinedVotesAreCountedToTheLast() throws Exception {
        int phones = 60_000;
        AtomicLongArray answers = new AtomicLongArray(3);
        AtomicReference<String> failure = new AtomicReference<>();
        Semaphore outstanding = new Semaphore(LOAD_OUTSTANDING_MAX);
        long began = System.nanoTime();
        for (int number = 0; number < LOAD_CALLS; number++) {
            long phone = 2120000000L + number % phones;
            int contestant = number % 100 == 99 ? 999 : number % 6 + 1;
            outstanding.acquire();
            callAsync(response -> {
                if (response.getStatus() == ClientResponse.SUCCESS) {
                    answers.incrementAndGet((int) response.getResults()[0].asScalarLong());
                } else {
                    failure.compareAndSet(null, response.getStatus() + ": " + response.getStatusString());
                }
                outstanding.release();
            }, "Vote", phone, contestant, 2);
        }
        outstanding.acquire(LOAD_OUTSTANDING_MAX);
        double seconds = (System.nanoTime() - began) / 1e9;
        System.out.printf("%s: %d votes in %.1f s%n", getClass().getSimpleName(), LOAD_CALLS, seconds);
        assertEquals(null, failure.get());
        long counted = answers.get(0);
        assertEquals(LOAD_CALLS / 100, answers.get(1), "votes for a contestant that does not exist");
        assertEquals(LOAD_CALLS, counted + answers.get(1) + answers.get(2), "every call is answered once");
        assertTrue(counted > phones, "phones vote more than once");
        assertEquals(counted, sum("SELECT COUNT(*) FROM votes"));
        assertEquals(counted, sum("SELECT SUM(num_votes) FROM v_votes_by_phone_number"));
        assertEquals(counted, sum("SELECT SUM(num_votes) FROM v_votes_by_contestant_number_state"));
    }

    @Test
    void resultsAreThoseOfAllPartitions() throws Exception {
        for (int caller = 0; caller < 50; caller++) {
            assertEquals(0, vote(6175550000L + caller, 1 + caller % 6));
            assertEquals(0, vote(6175550000L + caller, 1));
        }
        assertEquals(100, sql("SELECT COUNT(*) FROM votes").asScalarLong());
        assertEquals(2, sql("SELECT MAX(num_votes) FROM v_votes_by_phone_number").asScalarLong());
        VoltTable results = succeed("Results").getResults()[0];
        long total = 0;
        while (results.advanceRow()) {
            total += results.getLong("total_votes");
        }
        assertEquals(100, total);
    }

    @Test
    void callsAreRoutedByPartition() throws Exception {
        Wait.until("the topology", () -> {
            long before = affinityWrites();
            vote(3120000000L, 1);
            return affinityWrites() > before;
        });
        long before = affinityWrites();
        for (int caller = 0; caller < 50; caller++) {
            vote(3125550000L + caller, 2);
        }
        assertEquals(50, affinityWrites() - before, "every vote went to the host of its partition");
    }

    @Test
    void aCallToAllPartitionsReachesEachOnce() throws Exception {
        succeed("@AdHoc", "DROP PROCEDURE count_here IF EXISTS");
        succeed("@AdHoc", "CREATE PROCEDURE count_here PARTITION ON TABLE votes COLUMN phone_number AS"
                + " SELECT COUNT(*) FROM votes WHERE phone_number <> ?");
        for (int caller = 0; caller < 300; caller++) {
            assertEquals(0, vote(4150000000L + caller, 1));
        }
        ClientResponseWithPartitionKey[] legs = callAllPartitions("count_here");
        assertEquals(PARTITIONS, legs.length);
        long total = 0;
        for (ClientResponseWithPartitionKey leg : legs) {
            assertEquals(ClientResponse.SUCCESS, leg.response.getStatus(), leg.response.getStatusString());
            long here = leg.response.getResults()[0].asScalarLong();
            assertTrue(here > 0 && here < 300, "the partition of key " + leg.partitionKey + " holds a part: " + here);
            total += here;
        }
        assertEquals(300, total);
    }

    @Test
    void ddlIsPushedToSubscribers() throws Exception {
        succeed("@AdHoc", "DROP TABLE pushed IF EXISTS");
        succeed("@AdHoc", "CREATE TABLE pushed (id BIGINT NOT NULL, note VARCHAR(20), PRIMARY KEY (id))");
        succeed("@AdHoc", "PARTITION TABLE pushed ON COLUMN id");
        // The client asked for the procedures before they existed: only a push can tell it how to
        // route them.
        long[] key = {0};
        Wait.until("routing of the new table's procedures", () -> {
            long before = affinityWrites();
            assertEquals(1, modified(succeed("PUSHED.upsert", key[0]++, "x")));
            return affinityWrites() > before;
        });
        assertEquals(key[0], sum("SELECT COUNT(*) FROM pushed"));
    }

    @Test
    void keyValue() throws Exception {
        succeed("@AdHoc", "DROP TABLE store IF EXISTS");
        succeed("@AdHoc", "CREATE TABLE store (key VARCHAR(250) NOT NULL, value VARBINARY(1048576) NOT NULL, PRIMARY KEY (key))");
        succeed("@AdHoc", "PARTITION TABLE store ON COLUMN key");
        for (int number = 0; number < 200; number++) {
            assertEquals(1, modified(succeed("STORE.upsert", storeKey(number), storeValue(number))));
        }
        for (int number = 0; number < 200; number++) {
            VoltTable found = succeed("STORE.select", storeKey(number)).getResults()[0];
            assertTrue(found.advanceRow());
            assertEquals(storeKey(number), found.getString("KEY"));
            assertArrayEquals(storeValue(number), found.getVarbinary("VALUE"));
        }
        assertEquals(1, modified(succeed("STORE.upsert", storeKey(5), storeValue(6))));
        VoltTable changed = succeed("STORE.select", storeKey(5)).getResults()[0];
        assertArrayEquals(storeValue(6), changed.fetchRow(0).getVarbinary(1));
        fail(ClientResponse.GRACEFUL_FAILURE, "CONSTRAINT VIOLATION", "STORE.insert", storeKey(5), storeValue(5));
        assertEquals(1, modified(succeed("STORE.delete", storeKey(5))));
        assertEquals(0, succeed("STORE.select", storeKey(5)).getResults()[0].getRowCount());
        byte[] longest = new byte[1048576];
        longest[1048575] = 1;
        succeed("STORE.upsert", "long", longest);
        assertArrayEquals(longest, succeed("STORE.select", "long").getResults()[0].fetchRow(0).getVarbinary(1));
    }

    @Test
    void everyTypeComesBackAsItWasSent() throws Exception {
        succeed("@AdHoc", "DROP TABLE types IF EXISTS");
        succeed("@AdHoc", "CREATE TABLE types (id INTEGER NOT NULL PRIMARY KEY, c_tinyint TINYINT, c_smallint SMALLINT,"
                + " c_integer INTEGER, c_bigint BIGINT, c_float FLOAT, c_decimal DECIMAL, c_varchar VARCHAR(100),"
                + " c_varbinary VARBINARY(100), c_timestamp TIMESTAMP)");
        succeed("@AdHoc", "PARTITION TABLE types ON COLUMN id");
        Object[][] rows = {
            {1, (byte) 42, (short) -1234, 123456789, -1234567890123456789L, 2.5, new BigDecimal("123.456000000000"), "héllo wörld",
                new byte[] {0, 1, -2, -1}, new TimestampType(1767323045678901L)},
            {2, Byte.MAX_VALUE, Short.MAX_VALUE, Integer.MAX_VALUE, Long.MAX_VALUE, Double.MAX_VALUE,
                new BigDecimal("99999999999999999999999999.999999999999"), "x".repeat(100), new byte[100],
                new TimestampType(2145916799999999L)},
            {3, (byte) -127, (short) -32767, -2147483647, -Long.MAX_VALUE, -1.0e300,
                new BigDecimal("-99999999999999999999999999.999999999999"), "", new byte[0], new TimestampType(-1L)},
            {4, (byte) 0, (short) 0, 0, 0L, Double.MIN_VALUE, new BigDecimal("-0.000000000001"), "日本語 𝄞", new byte[] {0},
                new TimestampType(0L)},
        };
        for (Object[] row : rows) {
            assertEquals(1, modified(succeed("TYPES.insert", row)));
            VoltTable stored = succeed("TYPES.select", row[0]).getResults()[0];
            assertTrue(stored.advanceRow());
            for (int column = 0; column < row.length; column++) {
                // Not getRowObjects: client 11.0 reads FLOAT wrongly there.
                Object cell = stored.get(column, stored.getColumnType(column));
                String what = "row " + row[0] + ", column " + stored.getColumnName(column);
                if (row[column] instanceof byte[] bytes) {
                    assertArrayEquals(bytes, (byte[]) cell, what);
                } else if (row[column] instanceof Double number) {
                    assertEquals(number, ((Number) cell).doubleValue(), what);
                } else if (row[column] instanceof Number number && !(number instanceof BigDecimal)) {
                    assertEquals(number.longValue(), ((Number) cell).longValue(), what);
                } else {
                    assertEquals(row[column], cell, what);
                }
            }
        }
        VoltType[] expected = {VoltType.INTEGER, VoltType.TINYINT, VoltType.SMALLINT, VoltType.INTEGER, VoltType.BIGINT, VoltType.FLOAT,
            VoltType.DECIMAL, VoltType.STRING, VoltType.VARBINARY, VoltType.TIMESTAMP};
        VoltTable shape = sql("SELECT * FROM types WHERE id = 1");
        for (int column = 0; column < expected.length; column++) {
            assertEquals(expected[column], shape.getColumnType(column), shape.getColumnName(column));
        }
        assertEquals(rows.length, sum("SELECT COUNT(*) FROM types"));
    }

    @Test
    void nullsOfEveryTypeComeBackAsNull() throws Exception {
        succeed("@AdHoc", "DROP TABLE nulls IF EXISTS");
        succeed("@AdHoc", "CREATE TABLE nulls (id INTEGER NOT NULL PRIMARY KEY, a TINYINT, b SMALLINT, c INTEGER, d BIGINT, e FLOAT,"
                + " f DECIMAL, g VARCHAR(10), h VARBINARY(10), i TIMESTAMP)");
        succeed("@AdHoc", "PARTITION TABLE nulls ON COLUMN id");
        succeed("NULLS.insert", 1, null, null, null, null, null, null, null, null, null);
        succeed("NULLS.insert", 2, VoltType.NULL_TINYINT, VoltType.NULL_SMALLINT, VoltType.NULL_INTEGER, VoltType.NULL_BIGINT,
                VoltType.NULL_FLOAT, VoltType.NULL_DECIMAL, VoltType.NULL_STRING_OR_VARBINARY, VoltType.NULL_STRING_OR_VARBINARY,
                VoltType.NULL_TIMESTAMP);
        for (int id = 1; id <= 2; id++) {
            VoltTable row = succeed("NULLS.select", id).getResults()[0];
            assertTrue(row.advanceRow());
            for (int column = 1; column < row.getColumnCount(); column++) {
                row.get(column, row.getColumnType(column));
                assertTrue(row.wasNull(), "row " + id + ", column " + row.getColumnName(column));
            }
        }
        assertEquals(2, sum("SELECT COUNT(*) FROM nulls WHERE a IS NULL AND e IS NULL AND f IS NULL AND i IS NULL"));
    }

    @Test
    void geographyComesBackAsItWasSent() throws Exception {
        succeed("@AdHoc", "DROP TABLE places IF EXISTS");
        succeed("@AdHoc", "CREATE TABLE places (id INTEGER NOT NULL PRIMARY KEY, point GEOGRAPHY_POINT, area GEOGRAPHY)");
        succeed("@AdHoc", "PARTITION TABLE places ON COLUMN id");
        GeographyPointValue point = new GeographyPointValue(-71.25, 42.5);
        GeographyValue area = new GeographyValue("POLYGON ((0.0 0.0, 1.0 0.0, 1.0 1.0, 0.0 0.0))");
        succeed("PLACES.insert", 1, point, area);
        VoltTable row = succeed("PLACES.select", 1).getResults()[0];
        assertTrue(row.advanceRow());
        assertEquals(point, row.getGeographyPointValue("POINT"));
        assertEquals(area, row.getGeographyValue("AREA"));
    }

    @Test
    void failuresHaveTheRightStatus() throws Exception {
        fail(ClientResponse.UNEXPECTED_FAILURE, "Procedure nosuch was not found", "nosuch");
        fail(ClientResponse.GRACEFUL_FAILURE, "EXPECTS 3 PARAMS, BUT RECEIVED 1", "Vote", 6175551234L);
        fail(ClientResponse.GRACEFUL_FAILURE, "TYPE ERROR FOR PARAMETER 1", "Vote", 6175551234L, "three", 2L);
        fail(ClientResponse.GRACEFUL_FAILURE, "CONSTRAINT VIOLATION", "CONTESTANTS.insert", 1, "again");
        fail(ClientResponse.GRACEFUL_FAILURE, "CONSTRAINT VIOLATION", "CONTESTANTS.insert", 77, null);
        fail(ClientResponse.GRACEFUL_FAILURE, "NOSUCH", "@AdHoc", "SELECT * FROM nosuch");
        fail(ClientResponse.GRACEFUL_FAILURE, "SELEC", "@AdHoc", "SELEC 1");
        fail(ClientResponse.GRACEFUL_FAILURE, "", "CONTESTANTS.insert", 3_000_000_000L, "too large a number");
        // A transaction of several statements.
        fail(ClientResponse.GRACEFUL_FAILURE, "CONSTRAINT VIOLATION", "@AdHoc", "DELETE FROM votes; INSERT INTO contestants VALUES (1, 'again')");
        assertEquals(6, sql("SELECT COUNT(*) FROM contestants").asScalarLong());
    }

    @Test
    void failuresOverAllPartitionsHaveTheRightStatus() throws Exception {
        fail(ClientResponse.GRACEFUL_FAILURE, "division by zero", "@AdHoc", "SELECT 1 / (COUNT(*) - COUNT(*)) FROM votes");
        succeed("@AdHoc", "CREATE PROCEDURE refuses AS BEGIN SIGNAL SQLSTATE '45007' SET MESSAGE_TEXT = 'not this one'; END");
        fail(ClientResponse.USER_ABORT, "not this one", "refuses");
        succeed("@AdHoc", "DROP PROCEDURE refuses");
    }

    @Test
    void systemProcedures() throws Exception {
        assertEquals(0, succeed("@Ping").getResults()[0].asScalarLong());
        VoltTable[] topology = succeed("@Statistics", "TOPO", 0).getResults();
        assertEquals(2, topology.length);
        long[] partitions = new long[PARTITIONS + 1];
        assertEquals(partitions.length, topology[0].getRowCount());
        for (int row = 0; topology[0].advanceRow(); row++) {
            partitions[row] = topology[0].getLong("Partition");
        }
        Arrays.sort(partitions);
        assertArrayEquals(new long[] {0, 1, 2, MULTI_PARTITION_ID}, partitions);
        assertEquals("ELASTIC", topology[1].fetchRow(0).getString("HASHTYPE"));
        VoltTable procedures = succeed("@SystemCatalog", "PROCEDURES").getResults()[0];
        String remarks = null;
        while (procedures.advanceRow()) {
            if (procedures.getString("PROCEDURE_NAME").equals("Vote")) {
                remarks = procedures.getString("REMARKS");
            }
        }
        assertNotNull(remarks, "Vote is in the catalog");
        assertTrue(remarks.replace(" ", "").contains("\"singlePartition\":true"), remarks);
        assertTrue(succeed("@SystemInformation", "OVERVIEW").getResults()[0].getRowCount() > 0);
    }

    protected long vote(long phone, int contestant) throws Exception {
        return succeed("Vote", phone, contestant, 2L).getResults()[0].asScalarLong();
    }

    protected ClientResponse succeed(String procedure, Object... parameters) throws Exception {
        ClientResponse response = call(procedure, parameters);
        assertEquals(ClientResponse.SUCCESS, response.getStatus(), () -> procedure + Arrays.toString(parameters) + ": " + response.getStatusString());
        return response;
    }

    protected VoltTable sql(String statement) throws Exception {
        return succeed("@AdHoc", statement).getResults()[0];
    }

    /** Of each partition's answer: several groups of them are not read together. */
    protected long sum(String statement) throws Exception {
        VoltTable keys = succeed("@GetPartitionKeys", "INTEGER").getResults()[0];
        long total = 0;
        while (keys.advanceRow()) {
            long number = succeed("@AdHocSpForTest", statement, keys.getLong("PARTITION_KEY")).getResults()[0].asScalarLong();
            // A sum without rows is NULL.
            total += number == VoltType.NULL_BIGINT ? 0 : number;
        }
        return total;
    }

    private void fail(byte status, String text, String procedure, Object... parameters) throws Exception {
        ClientResponse response = call(procedure, parameters);
        assertEquals(status, response.getStatus(), procedure + ": " + response.getStatusString());
        assertTrue(response.getStatusString().contains(text), response.getStatusString());
        assertEquals(0, response.getResults().length);
        // The code behind the tables is nothing that a client of its time can see, neither here nor
        // asynchronously.
        assertEquals(null, response.getAppStatusString());
        CompletableFuture<ClientResponse> later = new CompletableFuture<>();
        callAsync(later::complete, procedure, parameters);
        assertEquals(status, later.get(60, TimeUnit.SECONDS).getStatus());
        assertEquals(response.getStatusString(), later.get().getStatusString());
    }

    private long modified(ClientResponse response) {
        assertEquals("modified_tuples", response.getResults()[0].getColumnName(0));
        return response.getResults()[0].asScalarLong();
    }

    private long affinityWrites() {
        return affinity().values().stream().mapToLong(ClientAffinityStats::getAffinityWrites).sum();
    }

    private static String storeKey(int number) {
        return String.format("K%31d", number);
    }

    private static byte[] storeValue(int number) {
        byte[] value = new byte[1024];
        Arrays.fill(value, (byte) number);
        return value;
    }
}
