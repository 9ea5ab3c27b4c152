package app;

import org.voltdb.SQLStmtAdHocHelper;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;
import org.voltdb.exceptions.ConstraintFailureException;
import org.voltdb.exceptions.SQLException;

/** Runs SQL that it is given, and catches what comes of it as published procedures do. */
public class MakesUp extends VoltProcedure {
    public VoltTable[] run(String sql, long value) {
        SQLStmtAdHocHelper.voltQueueSQLExperimental(this, sql, value);
        try {
            return voltExecuteSQL();
        } catch (ConstraintFailureException e) {
            setAppStatusString("a constraint: " + e.getMessage());
        } catch (SQLException e) {
            setAppStatusString("SQL: " + e.getMessage());
        } catch (VoltAbortException e) {
            setAppStatusString("an abort: " + e.getMessage());
        }
        SQLStmtAdHocHelper.voltQueueSQLExperimental(this, "SELECT COUNT(*) FROM one");
        return voltExecuteSQL();
    }
}
