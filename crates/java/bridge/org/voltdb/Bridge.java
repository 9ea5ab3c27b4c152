package org.voltdb;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;

/**
 * The fence between the server and Java: native code comes in through the methods here, and is
 * called through those below.
 */
final class Bridge {
    static {
        Runtime.getRuntime().addShutdownHook(new Thread(Bridge::exits, "procedure-exit"));
    }

    private Bridge() {
    }

    /**
     * Runs the batch that stands in the calling thread's request buffer. Answers how many bytes of
     * results there are in the response buffer, and above them (from bit 32) the buffer's
     * generation; -1: an error, told by {@link #error}; {@link Long#MIN_VALUE}: no procedure runs
     * on this thread.
     */
    static native long execute(int batchBytes);

    /** The response buffer of a purpose as it is now: a large result has moved it. */
    static native ByteBuffer response(int purpose);

    /** A request buffer of at least so many bytes; what the old one held is lost. */
    static native ByteBuffer request(int purpose, int bytes);

    /** What was wrong with the last batch. */
    static native String error();

    /**
     * Lets a server's thread come by to a call that goes on; nothing happens when it has ended. By
     * any thread.
     */
    static native void wake(long waker);

    /**
     * Says lines on standard output (0) or standard error (1) without waiting for whoever reads
     * them. By any thread.
     */
    static native void say(int stream, byte[] lines);

    /**
     * Code has called {@link System#exit}; where, if that is known. Answers when the server is
     * about to end in good order. By any thread.
     */
    static native void exit(String where);

    /** A call of a procedure or function runs for longer than it should; where. By any thread. */
    static native void runsLong(String routine, String serverThread, long millis, String where);

    /** A call of a procedure was ended, and its code still runs; where. By any thread. */
    static native void stillRuns(String procedure, String where);

    /** What code prints goes the way of the server's own lines from now on. */
    static void takeStreams() {
        System.setOut(Lines.stream(0));
        System.setErr(Lines.stream(1));
    }

    /**
     * Keeps whoever has called {@link System#exit} where it is: the process ends when the server
     * has ended.
     */
    private static void exits() {
        StringBuilder where = new StringBuilder();
        Thread.getAllStackTraces().forEach((thread, stack) -> {
            for (StackTraceElement frame : stack) {
                if (frame.getClassName().equals("java.lang.Shutdown") && frame.getMethodName().equals("exit")) {
                    StackTraceElement[] code = Arrays.stream(stack).filter(at -> !at.getClassName().startsWith("java.lang."))
                            .toArray(StackTraceElement[]::new);
                    where.append(Failure.frames(code));
                    return;
                }
            }
        });
        exit(where.toString());
        // System.exit returns to nobody, but ends the JVM, and the server with it, once the hooks
        // have ended. So this one never does.
        CountDownLatch never = new CountDownLatch(1);
        while (true) {
            try {
                never.await();
            } catch (InterruptedException e) {
                // The interrupt is used up by this, and the next round waits again.
                continue;
            }
        }
    }

    static Exchange attach(int slot, int purpose, String serverThread, ByteBuffer request, ByteBuffer response) {
        Exchange exchange = new Exchange(slot, purpose, serverThread, request, response);
        Watch.add(exchange);
        return exchange;
    }

    static JarLoader load(byte[] jar) {
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
     * Runs a procedure whose parameters stand in the response buffer; how many bytes they are is
     * told as by {@link #execute}. Answers how many bytes it left in the request buffer: its
     * status, then its tables. Negative: it failed, and {@link #failure} says how.
     */
    static int run(ProcedureClass procedure, Exchange exchange, long parameters, long time, long uniqueId, int partition) {
        exchange.begin(procedure);
        try {
            return procedure.runner(exchange).run(parameters, time, uniqueId, partition);
        } catch (Throwable e) {
            exchange.fail(Failure.of(e, procedure.name));
            return -1;
        } finally {
            exchange.end();
        }
    }

    /**
     * Begins a call of a procedure outside of transactions, whose parameters are told as by {@link
     * #run}; {@code callsMax} of its calls may go on at a time. Null: it failed, and {@link
     * #failure} says how.
     */
    static StagedCall compound(ProcedureClass procedure, Exchange exchange, long parameters, int callsMax, long waker) {
        exchange.begin(procedure);
        try {
            return procedure.begin(exchange, parameters, callsMax, waker);
        } catch (Throwable e) {
            exchange.fail(Failure.of(e, procedure.name));
            return null;
        } finally {
            exchange.end();
        }
    }

    /** Says that nobody comes by to the call any more. */
    static void over(StagedCall call) {
        call.over();
    }

    /**
     * Runs the next stage, given the answers to its calls; sizes and failures are told as by {@link
     * #run}.
     */
    static int stage(ProcedureClass procedure, StagedCall call, Exchange exchange, long answers) {
        exchange.begin(procedure);
        try {
            return call.stage(exchange, answers);
        } catch (Throwable e) {
            exchange.fail(Failure.of(e, procedure.name));
            return -1;
        } finally {
            exchange.end();
        }
    }

    /**
     * A {@link FunctionClass}, or a string that says why the class is none. Without a method's name
     * an aggregate.
     */
    static Object function(JarLoader loader, String className, String method) {
        try {
            return new FunctionClass(loader, className, method);
        } catch (ProcedureClass.Unfit e) {
            return e.getMessage();
        } catch (Throwable e) {
            return "class " + className + " cannot be loaded: " + Failure.words(e, className);
        }
    }

    /** Calls a function; sizes and failures are told as by {@link #run}. */
    static int call(FunctionClass function, Exchange exchange, long arguments) {
        exchange.begin(function);
        try {
            return function.call(exchange, arguments);
        } catch (Throwable e) {
            exchange.fail(Failure.of(e, function.name));
            return -1;
        } finally {
            exchange.end();
        }
    }

    /** Calls an aggregate for so many rows, whose arguments stand one after the other. */
    static int aggregate(FunctionClass function, Exchange exchange, long arguments, int rows) {
        exchange.begin(function);
        try {
            return function.aggregate(exchange, arguments, rows);
        } catch (Throwable e) {
            exchange.fail(Failure.of(e, function.name));
            return -1;
        } finally {
            exchange.end();
        }
    }

    /**
     * A letter (A: the procedure's wish, C: a compound procedure's, S: the error of its last batch,
     * E: any other), then what to tell its caller.
     */
    static String failure(Exchange exchange) {
        String failure = exchange.failure;
        exchange.failure = null;
        return failure;
    }
}
