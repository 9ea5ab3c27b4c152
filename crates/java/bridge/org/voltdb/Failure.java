package org.voltdb;

import java.lang.reflect.InvocationTargetException;

/** How an exception of a procedure is told to its caller: the message, and the stack as far as it is the user's. */
final class Failure {
    private static final int FRAMES_MAX = 32;
    private static final int CAUSES_MAX = 8;

    private Failure() {
    }

    /** See {@link Bridge#failure}. */
    static String of(Throwable e, String procedure) {
        try {
            char kind = e instanceof SQLFailureException ? 'S' : e instanceof VoltProcedure.VoltAbortException ? 'A'
                    : e instanceof VoltCompoundProcedure.CompoundProcAbortException ? 'C' : 'E';
            for (Throwable at = e; at != null && kind == 'E'; at = at.getCause()) {
                if (at instanceof SQLFailureException) {
                    kind = 'S';
                }
            }
            return kind + (kind == 'S' ? frames(e) : words(e, procedure));
        } catch (OutOfMemoryError | StackOverflowError again) {
            return e instanceof StackOverflowError ? "EStackOverflowError" : "EOutOfMemoryError";
        }
    }

    static String words(Throwable e, String procedure) {
        StringBuilder out = new StringBuilder();
        if (e instanceof InvocationTargetException && e.getCause() != null) {
            e = e.getCause();
        }
        boolean compound = e instanceof VoltCompoundProcedure.CompoundProcAbortException;
        boolean abort = compound || e instanceof VoltProcedure.VoltAbortException;
        String message = e.getMessage();
        String silent = "the procedure " + procedure + (compound ? " ended itself" : " rolled back");
        out.append(abort ? (message == null ? silent : message) : e.toString());
        out.append(frames(e));
        Throwable cause = e.getCause();
        for (int i = 0; cause != null && cause != e && i < CAUSES_MAX; i++) {
            out.append("\ncaused by ").append(cause).append(frames(cause));
            cause = cause.getCause();
        }
        return out.toString();
    }

    /** The user's frames: those of the API and of the server's own are left out. */
    private static String frames(Throwable e) {
        return frames(e.getStackTrace());
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
