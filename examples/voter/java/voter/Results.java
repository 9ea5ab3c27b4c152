package voter;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** Votes per contestant over all states, the winner first. */
public class Results extends VoltProcedure {
    public final SQLStmt results = new SQLStmt(
            "SELECT c.contestant_name AS contestant_name, c.contestant_number AS contestant_number, SUM(v.num_votes) AS total_votes"
            + " FROM v_votes_by_contestant_number_state AS v, contestants AS c"
            + " WHERE v.contestant_number = c.contestant_number"
            + " GROUP BY c.contestant_name, c.contestant_number"
            + " ORDER BY total_votes DESC, contestant_number ASC, contestant_name ASC");

    public VoltTable[] run() {
        voltQueueSQL(results);
        return voltExecuteSQL(true);
    }
}
