package app;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;

/**
 * A procedure that others lay hands on while it runs: a function that its statement calls, another
 * thread.
 */
public class Intruded extends VoltProcedure {
    public final SQLStmt intrudes = new SQLStmt("SELECT f_intrudes() FROM one");
    public final SQLStmt one = new SQLStmt("SELECT id FROM one");
    private static Intruded running;
    private String answer;

    public long run(String who) throws InterruptedException {
        running = this;
        if (who.equals("function")) {
            voltQueueSQL(intrudes);
            return voltExecuteSQL()[0].asScalarLong();
        }
        Thread other = new Thread(() -> {
            try {
                answer = "answered " + intrude();
            } catch (IllegalStateException e) {
                answer = e.getMessage();
            }
        });
        other.start();
        other.join();
        setAppStatusString(answer);
        voltQueueSQL(one);
        return voltExecuteSQL()[0].asScalarLong();
    }

    static long intrude() {
        running.voltQueueSQL(running.one);
        return running.voltExecuteSQL()[0].asScalarLong();
    }
}
