package app;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;

/** Not a procedure. */
final class Helper {
    private Helper() {
    }

    static long same(long value) {
        return value;
    }

    static String resource() {
        try (InputStream in = Helper.class.getResourceAsStream("greeting.txt")) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }
}
