package voter;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;

/** The states in which a contestant leads, with the votes there, most votes first. */
public class ContestantWinningStates extends VoltProcedure {
    private record Won(String state, long votes) {}

    public final SQLStmt byState = new SQLStmt(ByState.QUERY);

    public VoltTable run(int contestantNumber, int max) {
        voltQueueSQL(byState);
        VoltTable leaders = ByState.leaders(voltExecuteSQL(true)[0]);
        List<Won> states = new ArrayList<>();
        while (leaders.advanceRow()) {
            if (leaders.getLong(1) == contestantNumber) {
                states.add(new Won(leaders.getString(0), leaders.getLong(2)));
            }
        }
        states.sort(Comparator.comparingLong(Won::votes).reversed().thenComparing(Won::state));
        VoltTable answer = new VoltTable(new VoltTable.ColumnInfo("STATE", VoltType.STRING), new VoltTable.ColumnInfo("NUM_VOTES", VoltType.BIGINT));
        states.stream().limit(max).forEach(won -> answer.addRow(won.state(), won.votes()));
        return answer;
    }
}
