package ferrite.support;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.voltdb.VoltTable;
import org.voltdb.client.ClientResponse;

/**
 * Backups with the parameters of the original procedures, through one of the APIs: by position and
 * in JSON, native and CSV, and wrong ones. Begins and ends with Voter's rows as they were.
 */
final class Backups {
    /** How the API makes a call; a failure of the procedure is returned, not thrown. */
    interface Calls {
        ClientResponse call(String procedure, Object... parameters) throws Exception;
    }

    private static final List<String> TABLES = List.of("VOTES", "CONTESTANTS", "AREA_CODE_STATE");
    private static final long SAVE_SECONDS_MAX = 60;

    private final Calls api;
    private final int partitions;
    private final Path directory;
    private final String path;

    private Backups(Calls api, int partitions) throws Exception {
        this.api = api;
        this.partitions = partitions;
        directory = Files.createTempDirectory("ferrite-backups-");
        path = directory.resolve("backups").toString();
    }

    static void tryOut(Calls api, int partitions) throws Exception {
        Backups backups = new Backups(api, partitions);
        try {
            backups.byPosition();
            backups.inJson();
            backups.asCsv();
            backups.wrongParameters();
        } finally {
            try (Stream<Path> paths = Files.walk(backups.directory)) {
                paths.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
            }
        }
    }

    private void byPosition() throws Exception {
        for (Object wait : new Object[] {(byte) 1, 1, 1L}) {
            String nonce = "at_" + wait.getClass().getSimpleName();
            VoltTable saved = succeed("@SnapshotSave", path, nonce, wait)[0];
            check(saved, partitions, "HOST_ID", "HOSTNAME", "SITE_ID", "RESULT", "ERR_MSG");
        }
        List<Long> before = counts();
        TABLES.forEach(this::empty);
        VoltTable restored = succeed("@SnapshotRestore", path, "at_Byte")[0];
        check(restored, TABLES.size() * partitions, "HOST_ID", "HOSTNAME", "SITE_ID", "TABLE", "PARTITION_ID", "RESULT", "ERR_MSG");
        assertEquals(before, counts());
        String[] nonces = {"at_Byte", "at_Integer", "at_Long"};
        assertEquals(Map.of(nonces[0], "TRUE", nonces[1], "TRUE", nonces[2], "TRUE"), scan());
        VoltTable deleted = succeed("@SnapshotDelete", new String[] {path, path, path}, nonces)[0];
        check(deleted, 3 * (partitions + 1),
                "HOST_ID", "HOSTNAME", "PATH", "PATHTYPE", "NONCE", "NAME", "SIZE", "DELETED", "RESULT", "ERR_MSG");
        assertEquals(Map.of(), scan());
    }

    private void inJson() throws Exception {
        // As voltadmin writes it.
        VoltTable begun = succeed("@SnapshotSave", "{uripath:\"file://" + path + "\",nonce:\"n\",block:false,format:\"native\"}")[0];
        check(begun, TABLES.size(), "HOST_ID", "HOSTNAME", "TABLE", "RESULT", "ERR_MSG");
        long deadline = System.nanoTime() + SAVE_SECONDS_MAX * 1_000_000_000L;
        while (!"TRUE".equals(scan().get("n"))) {
            assertTrue(System.nanoTime() < deadline, "the backup is not whole");
        }
        List<Long> before = counts();
        empty("CONTESTANTS");
        // The save may take a moment more to end.
        String settings = "{path:'" + path + "',nonce:'n',tables:['contestants'],hashinator:true}";
        while (String.valueOf(api.call("@SnapshotRestore", settings).getStatusString()).contains("in progress")) {
            assertTrue(System.nanoTime() < deadline, "the backup does not end");
        }
        assertEquals(before, counts());
        empty("CONTESTANTS");
        succeed("@SnapshotRestore", "{\"path\":\"" + path + "\",\"nonce\":\"n\",\"skiptables\":[\"AREA_CODE_STATE\",\"VOTES\"]}");
        assertEquals(before, counts());
        succeed("@SnapshotDelete", new String[] {path}, new String[] {"n"});
    }

    private void asCsv() throws Exception {
        String settings = "{uripath:'file://" + path + "',nonce:'c',block:true,format:'csv',tables:['CONTESTANTS']}";
        check(succeed("@SnapshotSave", settings)[0], partitions, "HOST_ID", "HOSTNAME", "SITE_ID", "RESULT", "ERR_MSG");
        List<String> lines = Files.readAllLines(Path.of(path, "c-CONTESTANTS.csv"));
        assertEquals(6, lines.size());
        assertTrue(lines.contains("\"1\",\"Edwina Burnam\"") || lines.contains("\"Edwina Burnam\",\"1\""), lines.toString());
        assertEquals(Map.of("c", "TRUE"), scan());
        refuse("CSV", "@SnapshotRestore", path, "c");
        succeed("@SnapshotDelete", new String[] {path}, new String[] {"c"});
    }

    private void wrongParameters() throws Exception {
        succeed("@SnapshotSave", path, "one", 1);
        List<Long> before = counts();
        // A save that cannot be is an answer with a table, as tools expect it.
        refuseSave("not absolute", "relative", "x", 1);
        refuseSave("has a -", path, "a-b", 1);
        refuseSave("already exists", path, "one", 1);
        refuseSave("not JSON", "no settings");
        refuseSave("no nonce", "{uripath:'file://" + path + "'}");
        refuseSave("xml", "{uripath:'file://" + path + "',nonce:'x',format:'xml'}");
        refuseSave("colour", "{uripath:'file://" + path + "',nonce:'x',colour:'red'}");
        refuse("other.manifest", "@SnapshotRestore", path, "other");
        refuse("has rows", "@SnapshotRestore", path, "one");
        refuse("not absolute", "@SnapshotRestore", "relative", "one");
        refuse("takes a path and a nonce", "@SnapshotRestore", path, 1);
        refuse("no table nothing", "@SnapshotRestore", "{path:'" + path + "',nonce:'one',tables:['nothing']}");
        refuse("path", "@SnapshotScan", 1);
        refuse("as many nonces", "@SnapshotDelete", new String[] {path}, new String[] {"one", "two"});
        refuse("nonce", "@SnapshotDelete", new String[] {path}, new String[] {"../one"});
        assertEquals(before, counts());
        assertEquals(Map.of("one", "TRUE"), scan());
    }

    private VoltTable[] succeed(String procedure, Object... parameters) throws Exception {
        ClientResponse response = api.call(procedure, parameters);
        assertEquals(ClientResponse.SUCCESS, response.getStatus(), () -> procedure + Arrays.toString(parameters) + ": " + response.getStatusString());
        return response.getResults();
    }

    private void refuse(String text, String procedure, Object... parameters) throws Exception {
        ClientResponse response = api.call(procedure, parameters);
        assertEquals(ClientResponse.GRACEFUL_FAILURE, response.getStatus(), procedure + ": " + response.getStatusString());
        assertTrue(response.getStatusString().contains(text), response.getStatusString());
    }

    private void refuseSave(String text, Object... parameters) throws Exception {
        VoltTable refused = succeed("@SnapshotSave", parameters)[0];
        assertEquals(List.of("HOST_ID", "HOSTNAME", "TABLE", "RESULT", "ERR_MSG"), columns(refused));
        assertEquals("FAILURE", refused.fetchRow(0).getString("RESULT"));
        assertTrue(refused.fetchRow(0).getString("ERR_MSG").contains(text), refused.toString());
    }

    private void check(VoltTable table, int rows, String... columns) {
        assertEquals(List.of(columns), columns(table));
        assertEquals(rows, table.getRowCount(), table.toString());
        table.resetRowPosition();
        while (table.advanceRow()) {
            assertEquals("SUCCESS", table.getString("RESULT"), table.toString());
        }
    }

    private static List<String> columns(VoltTable table) {
        return Stream.iterate(0, column -> column + 1).limit(table.getColumnCount()).map(table::getColumnName).toList();
    }

    /** By nonce: whether it is complete. */
    private Map<String, String> scan() throws Exception {
        VoltTable[] seen = succeed("@SnapshotScan", path);
        assertEquals(3, seen.length);
        Map<String, String> complete = new LinkedHashMap<>();
        while (seen[0].advanceRow()) {
            complete.put(seen[0].getString("NONCE"), seen[0].getString("COMPLETE"));
        }
        return complete;
    }

    private List<Long> counts() throws Exception {
        Long[] counts = new Long[TABLES.size()];
        for (int table = 0; table < counts.length; table++) {
            counts[table] = succeed("@AdHoc", "SELECT COUNT(*) FROM " + TABLES.get(table))[0].asScalarLong();
        }
        return List.of(counts);
    }

    private void empty(String table) {
        try {
            succeed("@AdHoc", "DELETE FROM " + table);
        } catch (Exception problem) {
            throw new AssertionError(problem);
        }
    }
}
