package org.voltdb;

import java.lang.reflect.InvocationTargetException;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;

/**
 * How an exception of a procedure is told to its caller: the message, and the stack as far as it is
 * the user's.
 */
final class Failure {
    private static final int FRAMES_MAX = 32;
    private static final int CAUSES_MAX = 8;
    /** Causes among which an error of SQL is looked for: a chain may be long, or go in a circle. */
    private static final int CAUSES_LOOKED_AT = 100;

    private Failure() {
    }

    /** See {@link Bridge#failure}. */
    static String of(Throwable e, String procedure) {
        try {
            char kind = e instanceof SQLFailureException ? 'S' : e instanceof VoltProcedure.VoltAbortException ? 'A'
                    : e instanceof VoltCompoundProcedure.CompoundProcAbortException ? 'C' : 'E';
            Throwable at = e;
            for (int i = 0; at != null && kind == 'E' && i < CAUSES_LOOKED_AT; i++) {
                if (at instanceof SQLFailureException) {
                    kind = 'S';
                }
                at = cause(at);
            }
            return kind + (kind == 'S' ? frames(e) : words(e, procedure));
        } catch (Throwable again) {
            // There is no memory or no stack for more.
            return e instanceof StackOverflowError ? "EStackOverflowError"
                    : again instanceof OutOfMemoryError ? "EOutOfMemoryError" : "E" + e.getClass().getName();
        }
    }

    static String words(Throwable e, String procedure) {
        StringBuilder out = new StringBuilder();
        if (e instanceof InvocationTargetException && cause(e) != null) {
            e = cause(e);
        }
        boolean compound = e instanceof VoltCompoundProcedure.CompoundProcAbortException;
        boolean abort = compound || e instanceof VoltProcedure.VoltAbortException;
        String message = abort ? message(e) : null;
        String silent = "the procedure " + procedure + (compound ? " ended itself" : " rolled back");
        out.append(abort ? (message == null ? silent : message) : text(e));
        // Applications compare the end of a compound procedure's answer with the reason they gave.
        if (!compound || message == null) {
            out.append(frames(e));
        }
        Set<Throwable> told = Collections.newSetFromMap(new IdentityHashMap<>());
        told.add(e);
        Throwable cause = cause(e);
        for (int i = 0; cause != null && told.add(cause) && i < CAUSES_MAX; i++) {
            out.append("\ncaused by ").append(text(cause)).append(frames(cause));
            cause = cause(cause);
        }
        return out.toString();
    }

    // A class of the user's may have its own of each of these methods. What they throw is not told
    // of.

    static Throwable cause(Throwable e) {
        try {
            return e.getCause();
        } catch (Throwable again) {
            return null;
        }
    }

    private static String message(Throwable e) {
        try {
            return e.getMessage();
        } catch (Throwable again) {
            return null;
        }
    }

    private static String text(Throwable e) {
        try {
            return e.toString();
        } catch (Throwable again) {
            return e.getClass().getName();
        }
    }

    /** The user's frames: those of the API and of the server's own are left out. */
    private static String frames(Throwable e) {
        try {
            return frames(e.getStackTrace());
        } catch (Throwable again) {
            return "";
        }
    }

    static String frames(StackTraceElement[] stack) {
        StringBuilder out = new StringBuilder();
        int shown = 0;
        for (StackTraceElement frame : stack) {
            String type = frame.getClassName();
            String packageName = type.substring(0, Math.max(0, type.lastIndexOf('.')));
            if (packageName.equals("org.voltdb") || packageName.equals("java.lang.invoke")
                    || packageName.equals("jdk.internal.reflect") || packageName.equals("java.lang.reflect")
                    || type.startsWith("java.util.concurrent.CompletableFuture") || type.startsWith("java.util.concurrent.ForkJoin")) {
                continue;
            }
            if (shown == FRAMES_MAX) {
                out.append("\n    ...");
                break;
            }
            String name = frame.getMethodName();
            String file = frame.getFileName();
            out.append("\n    at ").append(type).append(".").append(name).append("(");
            out.append(file == null ? "no source" : file + ":" + frame.getLineNumber()).append(")");
            shown++;
        }
        return out.toString();
    }
}
