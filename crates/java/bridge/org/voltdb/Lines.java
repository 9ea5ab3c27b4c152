package org.voltdb;

import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;

/**
 * A standard stream of the JVM's that hands whole lines to the server, whose threads must not wait
 * for whoever reads them.
 */
final class Lines extends OutputStream {
    /** A line is broken where it is longer. */
    private static final int LINE_BYTES_MAX = 65_536;
    private final int stream;
    private final ByteArrayOutputStream line = new ByteArrayOutputStream();

    private Lines(int stream) {
        this.stream = stream;
    }

    static PrintStream stream(int stream) {
        return new PrintStream(new Lines(stream), false);
    }

    @Override
    public synchronized void write(int value) {
        line.write(value);
        if (value == '\n' || line.size() >= LINE_BYTES_MAX) {
            say();
        }
    }

    @Override
    public synchronized void write(byte[] bytes, int offset, int length) {
        for (int i = offset; i < offset + length; i++) {
            write(bytes[i]);
        }
    }

    @Override
    public synchronized void flush() {
        if (line.size() > 0) {
            say();
        }
    }

    private void say() {
        Bridge.say(stream, line.toByteArray());
        line.reset();
    }
}
