package io.ferritedb.client;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;

/**
 * A server process on a data directory of its own, also for the tests of what stands on the driver.
 * FERRITE_BINARY names the program.
 */
public final class TestServer implements AutoCloseable {
    private final Path directory;
    private final String[] flags;
    private Process process;
    private String address = "127.0.0.1:0";

    public TestServer(String... flags) throws IOException {
        this.flags = flags;
        directory = Files.createTempDirectory("ferrite-java");
        // A test that fails before it has begun closes nothing.
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Optional.ofNullable(process).ifPresent(Process::destroyForcibly)));
        start();
    }

    /** Starts on the directory; again on the same port after a kill. */
    public void start() throws IOException {
        String binary = System.getenv("FERRITE_BINARY");
        if (binary == null) throw new IllegalStateException("FERRITE_BINARY names no server binary");
        List<String> command = new ArrayList<>(List.of(binary, "server", "--new", "--dir", directory.toString(), "--listen", address));
        command.addAll(List.of(flags));
        process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.DISCARD).start();
        BufferedReader out = process.inputReader();
        for (String line = out.readLine(); line != null; line = out.readLine()) {
            var ready = java.util.regex.Pattern.compile("ready on (\\S+)").matcher(line);
            if (ready.find()) {
                address = ready.group(1);
                return;
            }
        }
        throw new IllegalStateException("the server ended before it was ready");
    }

    public String address() {
        return address;
    }

    /** Ends the process without a word, as a crash would. */
    public void kill() throws InterruptedException {
        process.destroyForcibly().waitFor();
    }

    @Override
    public void close() throws IOException, InterruptedException {
        kill();
        try (var files = Files.walk(directory)) {
            files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
        }
    }
}
