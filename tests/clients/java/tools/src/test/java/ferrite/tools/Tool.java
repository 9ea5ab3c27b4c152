package ferrite.tools;

import ferrite.support.Server;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** A command line tool in a process of its own, as users run it. */
record Tool(int exit, String output) {
    private static final long SECONDS_MAX = 60;

    static Tool sqlcmd(Server server, Path directory, String script, String... more) throws Exception {
        List<String> arguments = new ArrayList<>(List.of("--servers=" + server.host(), "--port=" + server.port()));
        arguments.addAll(List.of(more));
        return run("org.voltdb.utils.SQLCommand", directory, script, arguments);
    }

    static Tool csvloader(Server server, Path directory, String... more) throws Exception {
        List<String> arguments = new ArrayList<>(
                List.of("--servers", server.host(), "--port", Integer.toString(server.port()), "--reportdir", directory.toString()));
        arguments.addAll(List.of(more));
        return run("org.voltdb.utils.CSVLoader", directory, "", arguments);
    }

    private static Tool run(String program, Path directory, String input, List<String> arguments) throws Exception {
        String classes = System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED", "-cp", classes, program));
        command.addAll(arguments);
        Path given = Files.writeString(Files.createTempFile(directory, "input", ".txt"), input);
        File output = Files.createTempFile(directory, "output", ".txt").toFile();
        Process process = new ProcessBuilder(command).directory(directory.toFile())
                .redirectInput(given.toFile()).redirectErrorStream(true).redirectOutput(output).start();
        try {
            if (!process.waitFor(SECONDS_MAX, TimeUnit.SECONDS)) {
                throw new IOException(program + arguments + " did not end within " + SECONDS_MAX + " s; it said:\n"
                        + Files.readString(output.toPath()));
            }
        } finally {
            process.destroyForcibly();
        }
        return new Tool(process.exitValue(), Files.readString(output.toPath(), StandardCharsets.UTF_8));
    }
}
