package voter;

import org.voltdb.VoltTable;
import org.voltdb.VoltType;

/**
 * What two procedures have in common: the votes of each contestant in each state, state by state,
 * most votes first.
 */
final class ByState {
    static final String QUERY = "SELECT state, contestant_number, SUM(num_votes) AS num_votes"
            + " FROM v_votes_by_contestant_number_state GROUP BY state, contestant_number"
            + " ORDER BY state ASC, num_votes DESC, contestant_number ASC";

    private ByState() {}

    static VoltTable.ColumnInfo[] columns() {
        return new VoltTable.ColumnInfo[] {
            new VoltTable.ColumnInfo("STATE", VoltType.STRING),
            new VoltTable.ColumnInfo("CONTESTANT_NUMBER", VoltType.INTEGER),
            new VoltTable.ColumnInfo("NUM_VOTES", VoltType.BIGINT),
        };
    }

    /** The rows of those that nobody beats in their state. */
    static VoltTable leaders(VoltTable byState) {
        VoltTable leaders = new VoltTable(columns());
        String state = "";
        long most = 0;
        while (byState.advanceRow()) {
            if (!byState.getString(0).equals(state)) {
                state = byState.getString(0);
                most = byState.getLong(2);
            }
            if (byState.getLong(2) == most) {
                leaders.addRow(state, (int) byState.getLong(1), most);
            }
        }
        return leaders;
    }
}
