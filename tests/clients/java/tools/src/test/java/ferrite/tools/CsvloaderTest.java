package ferrite.tools;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ferrite.support.Server;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.io.TempDir;

/** The loader of CSV files. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
class CsvloaderTest {
    private static final int ROWS = 20_000;

    @TempDir
    Path directory;

    private Server server;

    @BeforeAll
    void startServer() throws Exception {
        server = Server.withVoter(3);
    }

    @AfterAll
    void stopServer() throws Exception {
        server.close();
    }

    private void sql(String text) throws Exception {
        Tool done = Tool.sqlcmd(server, directory, text);
        assertEquals(0, done.exit(), done.output());
    }

    private Path file(String text) throws Exception {
        return Files.writeString(Files.createTempFile(directory, "rows", ".csv"), text);
    }

    @Test
    void aPartitionedTable() throws Exception {
        sql("CREATE TABLE loaded (id BIGINT NOT NULL, name VARCHAR(20), PRIMARY KEY (id));\nPARTITION TABLE loaded ON COLUMN id;\n");
        StringBuilder rows = new StringBuilder();
        for (int row = 0; row < ROWS; row++) {
            rows.append(row).append(",name ").append(row % 10).append('\n');
        }
        Tool done = Tool.csvloader(server, directory, "--file", file(rows.toString()).toString(), "loaded");
        assertEquals(0, done.exit(), done.output());
        assertEquals(ROWS, server.sum("SELECT COUNT(*) FROM loaded"));
        assertEquals(ROWS / 10, server.sum("SELECT COUNT(*) FROM loaded WHERE name = 'name 7'"));
    }

    @Test
    void aReplicatedTable() throws Exception {
        sql("CREATE TABLE codes (code VARCHAR(4) NOT NULL, meaning VARCHAR(20), PRIMARY KEY (code));\n");
        Tool done = Tool.csvloader(server, directory, "--file", file("a,first\nb,second\nc,\n").toString(), "codes");
        assertEquals(0, done.exit(), done.output());
        Tool counted = Tool.sqlcmd(server, directory, "SELECT COUNT(*) FROM codes;\n");
        assertTrue(counted.output().replaceAll("\\s+", " ").contains("- 3 (Returned 1 rows"), counted.output());
    }

    @Test
    void badRowsAreSetAside() throws Exception {
        sql("CREATE TABLE checked (id INTEGER NOT NULL, name VARCHAR(4), PRIMARY KEY (id));\nPARTITION TABLE checked ON COLUMN id;\n");
        Path reports = Files.createTempDirectory(directory, "reports");
        Path rows = file("1,a\nx,not a number\n2,too long a text\n1,again\n3,c\n");
        Tool done = Tool.csvloader(server, reports, "--file", rows.toString(), "checked");
        assertEquals(2, server.sum("SELECT COUNT(*) FROM checked"));
        String refused;
        try (var files = Files.list(reports)) {
            Path path = files.filter(file -> file.toString().endsWith("invalidrows.csv")).findFirst().orElseThrow();
            refused = Files.readString(path);
        }
        assertTrue(refused.contains("not a number") && refused.contains("too long a text") && refused.contains("again"),
                refused + "\n" + done.output());
    }

    @Test
    void throughAProcedure() throws Exception {
        sql("CREATE TABLE called (id INTEGER NOT NULL, name VARCHAR(10), PRIMARY KEY (id));\nPARTITION TABLE called ON COLUMN id;\n");
        Tool done = Tool.csvloader(server, directory, "--file", file("1,a\n2,b\n").toString(), "--procedure", "CALLED.upsert");
        assertEquals(0, done.exit(), done.output());
        assertEquals(2, server.sum("SELECT COUNT(*) FROM called"));
    }
}
