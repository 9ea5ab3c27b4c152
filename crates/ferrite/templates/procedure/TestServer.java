package procedures;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.jar.JarOutputStream;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;

/**
 * A server process on a directory and a port of its own. The variable FERRITE_BINARY names the
 * program; without it, ferrite of the path.
 */
final class TestServer implements AutoCloseable {
    private static final Pattern READY = Pattern.compile("ready on (\\S+)");
    private final Path directory = Files.createTempDirectory("@NAME@-");
    private final Process process;
    private final String address;

    TestServer() throws IOException {
        String binary = System.getenv().getOrDefault("FERRITE_BINARY", "ferrite");
        process = new ProcessBuilder(binary, "server", "--new", "--dir", directory.toString(), "--listen", "127.0.0.1:0", "--partitions", "2")
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        BufferedReader output = process.inputReader();
        for (String line = output.readLine(); line != null; line = output.readLine()) {
            Matcher ready = READY.matcher(line);
            if (ready.find()) {
                address = ready.group(1);
                return;
            }
        }
        throw new IOException("the server ended before it was ready");
    }

    String address() {
        return address;
    }

    /** A file of the project. */
    static String text(String file) throws IOException {
        return Files.readString(Path.of(file));
    }

    /** The project's compiled classes as a jar. */
    static byte[] classes() throws IOException {
        Path root = Path.of("target", "classes");
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (JarOutputStream out = new JarOutputStream(bytes); Stream<Path> files = Files.walk(root)) {
            for (Path file : (Iterable<Path>) files.filter(Files::isRegularFile)::iterator) {
                out.putNextEntry(new ZipEntry(root.relativize(file).toString().replace('\\', '/')));
                Files.copy(file, out);
                out.closeEntry();
            }
        }
        return bytes.toByteArray();
    }

    @Override
    public void close() throws IOException, InterruptedException {
        process.destroy();
        process.waitFor();
        try (Stream<Path> files = Files.walk(directory)) {
            files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(java.io.File::delete);
        }
    }
}
