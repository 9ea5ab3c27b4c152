package app;

import org.voltcore.logging.Level;
import org.voltcore.logging.VoltLogger;
import org.voltdb.VoltProcedure;

/** Writes to the server's log, at every level. */
public class Logs extends VoltProcedure {
    private static final VoltLogger LOG = new VoltLogger("app.Logs");
    private static final VoltLogger QUIET = new VoltLogger("app.Quiet");

    public long run(String words) {
        LOG.fatal(words + " fatal");
        LOG.error(words + " error", new IllegalStateException("why"));
        LOG.warnFmt("%s %s", words, "warn");
        LOG.infoFmt(new IllegalStateException("formatted"), "%d of %s", "x", words);
        LOG.debug(words + " debug");
        for (int i = 0; i < 3; i++) {
            LOG.rateLimitedWarn(3600, "limited %s %d", words, i);
        }
        QUIET.setLevel(Level.ERROR);
        new VoltLogger("app.Quiet").warn(words + " quiet");
        VoltLogger.logWithEmphasis(LOG, words + " last", Level.ERROR);
        return (LOG.isInfoEnabled() ? 1 : 0) + (LOG.isDebugEnabled() ? 2 : 0) + (QUIET.isEnabledFor(Level.WARN) ? 4 : 0);
    }
}
