package ferrite.support;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * A server process on a free port with a fresh directory; closing it stops the process and removes
 * the directory.
 */
public final class Server implements AutoCloseable {
    public static final String CONTESTANTS =
            "Edwina Burnam,Tabatha Gehling,Kelly Clauss,Jessie Alloway,Alana Bregman,Jessie Eichman";

    /** As many nodes as FERRITE_BINARY starts behind one server (tests/cluster/ferrite). */
    public static final int NODES = Integer.parseInt(System.getenv().getOrDefault("FERRITE_CLUSTER_NODES", "1"));

    /** Each of them leads a part of the partitions; what needs several parts' rows is refused. */
    public static final boolean SEVERAL_GROUPS = "several".equals(System.getenv("FERRITE_CLUSTER_GROUPS"));

    /** As many of them have the data. */
    public static final int COPIES =
            NODES == 1 ? 1 : 1 + Integer.parseInt(System.getenv().getOrDefault("FERRITE_CLUSTER_KFACTOR", "1"));

    private static final Pattern READY =
            Pattern.compile("ferrite ready on ([0-9.]+):(\\d+) \\((\\d+) partitions?, durability ([^)]+)\\)");
    private static final long START_SECONDS_MAX = 120;
    private static final long STOP_SECONDS_MAX = 120;

    private final Path directory;
    private final int partitions;
    private final List<String> options;
    private Process process;
    private int port;

    private Server(Path directory, int partitions, List<String> options) {
        this.directory = directory;
        this.partitions = partitions;
        this.options = options;
    }

    /** Starts a server with Voter's schema, and perhaps further options of the command line. */
    public static Server withVoter(int partitions, String... options) throws IOException {
        Server server = new Server(Files.createTempDirectory("ferrite-java-"), partitions, List.of(options));
        server.start();
        return server;
    }

    /** Kills the process and starts another one on the same directory. */
    public void killAndRestart() throws IOException {
        try {
            process.destroyForcibly().waitFor();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
        start();
    }

    /** What the server has written to its standard error since it was started last. */
    public String log() throws IOException {
        return Files.readString(directory.resolve("server.log"));
    }

    /**
     * The sum of a query's one number over the partitions' answers: several groups of them are not
     * read together.
     */
    public long sum(String query) throws IOException {
        long total = 0;
        for (String row : shell("EXEC @GetPartitionKeys INTEGER")) {
            String key = row.substring(row.indexOf(',') + 1);
            total += Long.parseLong(shell("EXEC @AdHocSpForTest '" + query.replace("'", "''") + "' " + key).get(0));
        }
        return total;
    }

    /** The rows that a statement returns in our shell. */
    private List<String> shell(String statement) throws IOException {
        List<String> command = List.of(environment("FERRITE_BINARY"), "sql", "--server", host() + ":" + port, "--csv", "-c", statement);
        Process shell = new ProcessBuilder(command).redirectErrorStream(true).start();
        List<String> lines = shell.inputReader().lines().toList();
        try {
            if (shell.waitFor() != 0) {
                throw new IOException(statement + ": " + lines);
            }
        } catch (InterruptedException interrupted) {
            throw new IOException(interrupted);
        }
        return lines.subList(1, lines.size());
    }

    private void start() throws IOException {
        List<String> command = new ArrayList<>(List.of(
                environment("FERRITE_BINARY"), "server",
                "--dir", directory.resolve("data").toString(),
                "--listen", "127.0.0.1:0",
                "--partitions", Integer.toString(partitions),
                "--durability", "sync",
                "--schema", Path.of(environment("FERRITE_ROOT"), "examples", "voter", "ddl.sql").toString()));
        command.addAll(options);
        File log = directory.resolve("server.log").toFile();
        process = new ProcessBuilder(command).redirectError(log).start();
        BufferedReader output =
                new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        FutureTask<String> firstLine = new FutureTask<>(output::readLine);
        Thread reader = new Thread(firstLine, "ready line");
        reader.setDaemon(true);
        reader.start();
        String line;
        try {
            line = firstLine.get(START_SECONDS_MAX, TimeUnit.SECONDS);
        } catch (InterruptedException | ExecutionException | TimeoutException problem) {
            line = problem.toString();
        }
        Matcher ready = READY.matcher(line == null ? "" : line);
        if (!ready.matches() || Integer.parseInt(ready.group(3)) != partitions) {
            process.destroyForcibly();
            throw new IOException("the server said '" + line + "' instead of the ready line; its log:\n" + Files.readString(log.toPath()));
        }
        port = Integer.parseInt(ready.group(2));
    }

    private static String environment(String name) {
        String value = System.getenv(name);
        if (value == null) {
            throw new IllegalStateException(name + " is not set; start the tests with tests/clients/java/run");
        }
        return value;
    }

    public String host() {
        return "127.0.0.1";
    }

    public int port() {
        return port;
    }

    @Override
    public void close() throws IOException {
        process.destroy();
        try {
            if (!process.waitFor(STOP_SECONDS_MAX, TimeUnit.SECONDS)) {
                process.destroyForcibly();
                throw new IOException("the server did not stop within " + STOP_SECONDS_MAX + " s");
            }
            if (process.exitValue() != 0) {
                throw new IOException("the server ended with " + process.exitValue() + "; its log:\n"
                        + Files.readString(directory.resolve("server.log")));
            }
        } catch (InterruptedException interrupted) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        } finally {
            try (Stream<Path> paths = Files.walk(directory)) {
                paths.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
            }
        }
    }
}
