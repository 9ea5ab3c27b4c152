package voter;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/**
 * One vote, as a class: three reads in a batch, a decision, an insert. Returns what the SQL/PSM
 * procedure of ddl.sql returns.
 */
public class Vote extends VoltProcedure {
    public static final long VOTE_COUNTS = 0;
    public static final long NO_SUCH_CONTESTANT = 1;
    public static final long OVER_LIMIT = 2;

    public final SQLStmt checkContestant = new SQLStmt("SELECT contestant_number FROM contestants WHERE contestant_number = ?");
    public final SQLStmt checkVoter = new SQLStmt("SELECT num_votes FROM v_votes_by_phone_number WHERE phone_number = ?");
    public final SQLStmt checkState = new SQLStmt("SELECT state FROM area_code_state WHERE area_code = ?");
    public final SQLStmt insertVote =
            new SQLStmt("INSERT INTO votes (phone_number, state, contestant_number) VALUES (?, ?, ?)");

    public long run(long phoneNumber, int contestantNumber, long maxVotes) {
        voltQueueSQL(checkContestant, EXPECT_ZERO_OR_ONE_ROW, contestantNumber);
        voltQueueSQL(checkVoter, EXPECT_ZERO_OR_ONE_ROW, phoneNumber);
        voltQueueSQL(checkState, EXPECT_ZERO_OR_ONE_ROW, (short) (phoneNumber / 10_000_000L));
        VoltTable[] answers = voltExecuteSQL();
        if (answers[0].getRowCount() == 0) {
            return NO_SUCH_CONTESTANT;
        }
        if (answers[1].getRowCount() == 1 && answers[1].asScalarLong() >= maxVotes) {
            return OVER_LIMIT;
        }
        String state = answers[2].getRowCount() == 1 ? answers[2].fetchRow(0).getString(0) : "XX";
        voltQueueSQL(insertVote, EXPECT_SCALAR_MATCH(1), phoneNumber, state, contestantNumber);
        voltExecuteSQL(true);
        return VOTE_COUNTS;
    }
}
