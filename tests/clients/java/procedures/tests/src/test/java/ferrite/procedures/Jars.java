package ferrite.procedures;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.jar.JarOutputStream;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;

/** The module with the procedures, as it was compiled, in a jar. */
final class Jars {
    private static final String RESOURCE = "app/greeting.txt";

    private Jars() {
    }

    /** With these words in the resource that the procedures read. */
    static byte[] application(String words) throws Exception {
        Path root = Path.of(Class.forName("app.Helper", false, Jars.class.getClassLoader())
                .getProtectionDomain().getCodeSource().getLocation().toURI());
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (JarOutputStream out = new JarOutputStream(bytes); Stream<Path> files = Files.walk(root)) {
            for (Path file : (Iterable<Path>) files.filter(Files::isRegularFile)::iterator) {
                String name = root.relativize(file).toString();
                if (name.startsWith("org/voltdb/")) {
                    continue;
                }
                out.putNextEntry(new ZipEntry(name));
                out.write(name.equals(RESOURCE) ? words.getBytes(StandardCharsets.UTF_8) : Files.readAllBytes(file));
                out.closeEntry();
            }
        }
        return bytes.toByteArray();
    }
}
