package voter;

import org.voltdb.VoltProcedure;

/** Does nothing: what the way into Java and back costs. */
public class Nothing extends VoltProcedure {
    public long run(long phoneNumber, int contestantNumber, long maxVotes) {
        return 0;
    }
}
