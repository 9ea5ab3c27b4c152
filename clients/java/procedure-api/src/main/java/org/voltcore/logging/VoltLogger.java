package org.voltcore.logging;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.Arrays;
import java.util.IllegalFormatException;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/**
 * Writes lines to the standard error stream, in the server to the server's, with their level and
 * the logger's name in front: {@code WARN payments: no such account}. Callers never wait for it.
 *
 * <p>Loggers of the same name have the same level, {@link Level#INFO} at the start.
 */
public class VoltLogger {
    /** Formats that {@link #rateLimitedLog} remembers; the oldest is forgotten. */
    private static final int FORMATS_MAX = 1_000;
    /** Names that may have a level of their own. */
    private static final int NAMES_MAX = 10_000;
    private static final Map<String, Level> LEVELS = new ConcurrentHashMap<>();
    /** When a line of the format came last, by {@link System#nanoTime}. */
    private static final Map<String, Long> LAST = new LinkedHashMap<>() {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Long> eldest) {
            return size() > FORMATS_MAX;
        }
    };

    private final String name;

    public VoltLogger(String name) {
        this.name = name;
    }

    public void fatal(Object message) {
        log(Level.FATAL, message, null);
    }

    public void fatal(Object message, Throwable cause) {
        log(Level.FATAL, message, cause);
    }

    public void fatalFmt(String format, Object... values) {
        logFmt(Level.FATAL, format, values);
    }

    public void fatalFmt(Throwable cause, String format, Object... values) {
        logFmt(Level.FATAL, cause, format, values);
    }

    public void error(Object message) {
        log(Level.ERROR, message, null);
    }

    public void error(Object message, Throwable cause) {
        log(Level.ERROR, message, cause);
    }

    public void errorFmt(String format, Object... values) {
        logFmt(Level.ERROR, format, values);
    }

    public void errorFmt(Throwable cause, String format, Object... values) {
        logFmt(Level.ERROR, cause, format, values);
    }

    public void warn(Object message) {
        log(Level.WARN, message, null);
    }

    public void warn(Object message, Throwable cause) {
        log(Level.WARN, message, cause);
    }

    public void warnFmt(String format, Object... values) {
        logFmt(Level.WARN, format, values);
    }

    public void warnFmt(Throwable cause, String format, Object... values) {
        logFmt(Level.WARN, cause, format, values);
    }

    public void info(Object message) {
        log(Level.INFO, message, null);
    }

    public void info(Object message, Throwable cause) {
        log(Level.INFO, message, cause);
    }

    public void infoFmt(String format, Object... values) {
        logFmt(Level.INFO, format, values);
    }

    public void infoFmt(Throwable cause, String format, Object... values) {
        logFmt(Level.INFO, cause, format, values);
    }

    public void debug(Object message) {
        log(Level.DEBUG, message, null);
    }

    public void debug(Object message, Throwable cause) {
        log(Level.DEBUG, message, cause);
    }

    public void debugFmt(String format, Object... values) {
        logFmt(Level.DEBUG, format, values);
    }

    public void debugFmt(Throwable cause, String format, Object... values) {
        logFmt(Level.DEBUG, cause, format, values);
    }

    public void trace(Object message) {
        log(Level.TRACE, message, null);
    }

    public void trace(Object message, Throwable cause) {
        log(Level.TRACE, message, cause);
    }

    public void traceFmt(String format, Object... values) {
        logFmt(Level.TRACE, format, values);
    }

    public void traceFmt(Throwable cause, String format, Object... values) {
        logFmt(Level.TRACE, cause, format, values);
    }

    public void log(Level level, Object message, Throwable cause) {
        if (isEnabledFor(level)) {
            write(level, String.valueOf(message), cause);
        }
    }

    /** {@code format} is one of {@link String#format}. */
    public void logFmt(Level level, String format, Object... values) {
        logFmt(level, null, format, values);
    }

    public void logFmt(Level level, Throwable cause, Object format, Object... values) {
        if (isEnabledFor(level)) {
            write(level, formatted(String.valueOf(format), values), cause);
        }
    }

    /** Writes at most one line of a format within these seconds, whatever its values. */
    public void rateLimitedLog(long seconds, Level level, Throwable cause, String format, Object... values) {
        if (isEnabledFor(level) && isDue(seconds, format)) {
            write(level, formatted(format, values), cause);
        }
    }

    public void rateLimitedError(long seconds, String format, Object... values) {
        rateLimitedLog(seconds, Level.ERROR, null, format, values);
    }

    public void rateLimitedWarn(long seconds, String format, Object... values) {
        rateLimitedLog(seconds, Level.WARN, null, format, values);
    }

    public void rateLimitedInfo(long seconds, String format, Object... values) {
        rateLimitedLog(seconds, Level.INFO, null, format, values);
    }

    public boolean isInfoEnabled() {
        return isEnabledFor(Level.INFO);
    }

    public boolean isDebugEnabled() {
        return isEnabledFor(Level.DEBUG);
    }

    public boolean isTraceEnabled() {
        return isEnabledFor(Level.TRACE);
    }

    public boolean isEnabledFor(Level level) {
        return level.compareTo(LEVELS.getOrDefault(String.valueOf(name), Level.INFO)) >= 0;
    }

    /** Less serious lines of all loggers of this name are left out from now on. */
    public void setLevel(Level level) {
        if (level == Level.INFO) {
            LEVELS.remove(String.valueOf(name));
        } else if (LEVELS.size() < NAMES_MAX) {
            LEVELS.put(String.valueOf(name), level);
        }
    }

    /** Lines are always written by another thread than the caller's where that matters. */
    public static void startAsynchronousLogging() {
    }

    /** See {@link #startAsynchronousLogging}. */
    public static void shutdownAsynchronousLogging() {
    }

    /** The message between two lines of asterisks. */
    public static void logWithEmphasis(VoltLogger logger, String message, Level level) {
        String rule = "*".repeat(80);
        logger.log(level, rule + "\n" + message + "\n" + rule, null);
    }

    private static boolean isDue(long seconds, String format) {
        long now = System.nanoTime();
        synchronized (LAST) {
            Long last = LAST.get(format);
            if (last != null && now - last < TimeUnit.SECONDS.toNanos(seconds)) {
                return false;
            }
            LAST.put(format, now);
            return true;
        }
    }

    private static String formatted(String format, Object... values) {
        try {
            return String.format(String.valueOf(format), values);
        } catch (IllegalFormatException e) {
            return values == null || values.length == 0 ? format : format + " " + Arrays.toString(values);
        }
    }

    private void write(Level level, String message, Throwable cause) {
        StringWriter text = new StringWriter();
        text.append(level.name()).append(' ').append(name).append(": ").append(message).append('\n');
        if (cause != null) {
            cause.printStackTrace(new PrintWriter(text, true));
        }
        // In one piece, so that lines of other threads do not come between.
        System.err.print(text);
        System.err.flush();
    }
}
