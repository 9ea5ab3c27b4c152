package voter;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/**
 * The leading contestant of each state, ties included, then the totals of all contestants: a map
 * and its legend.
 */
public class GetStateHeatmap extends VoltProcedure {
    public final SQLStmt byState = new SQLStmt(ByState.QUERY);
    public final SQLStmt totals = new SQLStmt(
            "SELECT contestant_number, SUM(num_votes) AS num_votes FROM v_votes_by_contestant_number_state"
            + " GROUP BY contestant_number ORDER BY num_votes DESC, contestant_number ASC");

    public VoltTable[] run() {
        voltQueueSQL(byState);
        voltQueueSQL(totals);
        VoltTable[] answers = voltExecuteSQL(true);
        return new VoltTable[] {ByState.leaders(answers[0]), answers[1]};
    }
}
