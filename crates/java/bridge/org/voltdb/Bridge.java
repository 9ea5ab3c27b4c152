package org.voltdb;

import java.nio.ByteBuffer;

/** The fence between the server and Java: native code comes in through the methods here, and is called through those below. */
final class Bridge {
    private Bridge() {
    }

    /**
     * Runs the batch that stands in the calling thread's request buffer. Answers how many bytes of results there are in the response
     * buffer, and above them (from bit 32) the buffer's generation; -1: an error, told by {@link #error}; {@link Long#MIN_VALUE}: no
     * procedure runs on this thread.
     */
    static native long execute(int batchBytes);

    /** The response buffer as it is now: a large result has moved it. */
    static native ByteBuffer response();

    /** A request buffer of at least so many bytes; what the old one held is lost. */
    static native ByteBuffer request(int bytes);

    /** What was wrong with the last batch. */
    static native String error();

    static Exchange attach(int slot, ByteBuffer request, ByteBuffer response) {
        return new Exchange(slot, request, response);
    }

    static JarLoader load(byte[] jar) throws java.io.IOException {
        return new JarLoader(jar);
    }

    /** A {@link ProcedureClass}, or a string that says why the class is none. */
    static Object describe(JarLoader loader, String className) {
        try {
            return ProcedureClass.of(loader, className);
        } catch (ProcedureClass.Unfit e) {
            return e.getMessage();
        } catch (Throwable e) {
            return "class " + className + " cannot be loaded: " + Failure.words(e, className);
        }
    }

    static String[] description(ProcedureClass procedure) {
        return procedure.description();
    }

    /**
     * Runs a procedure whose parameters stand in the response buffer; how many bytes they are is told as by {@link #execute}. Answers how many bytes it left in the request buffer: its status,
     * then its tables. Negative: it failed, and {@link #failure} says how.
     */
    static int run(ProcedureClass procedure, Exchange exchange, long parameters, long time, long uniqueId, int partition) {
        try {
            return procedure.runner(exchange).run(parameters, time, uniqueId, partition);
        } catch (Throwable e) {
            exchange.failure = Failure.of(e, procedure.name);
            return -1;
        }
    }

    /** A letter (A: the procedure's wish, S: the error of its last batch, E: any other), then what to tell its caller. */
    static String failure(Exchange exchange) {
        String failure = exchange.failure;
        exchange.failure = null;
        return failure;
    }
}
