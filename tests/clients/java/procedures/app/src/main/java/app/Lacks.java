package app;

import org.voltdb.VoltProcedure;
import org.voltdb.utils.Gone;

/** Needs a class that the server does not have, and that is not in the jar. */
public class Lacks extends VoltProcedure {
    public long run() {
        return Gone.now();
    }
}
