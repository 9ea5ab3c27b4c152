package app;

import java.util.HashSet;
import java.util.Random;
import java.util.Set;
import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;

/**
 * Does what may not be done where calls are run again: clocks, random numbers, hash order, what an
 * object remembers.
 */
public class Chaotic extends VoltProcedure {
    public final SQLStmt insert = new SQLStmt("INSERT INTO chaos (id, number, words, value) VALUES (?, ?, ?, ?)");
    public final SQLStmt delete = new SQLStmt("DELETE FROM chaos WHERE id = ? AND MOD(number, 3) = ?");
    private static long calls;
    private final Random random = new Random();

    public long run(long id) {
        Set<Object> objects = new HashSet<>();
        for (int i = 0; i < 5; i++) {
            objects.add(new Object());
        }
        int number = 0;
        for (Object object : objects) {
            voltQueueSQL(insert, id, number++, object + " at " + System.nanoTime() + " call " + ++calls, random.nextDouble());
        }
        voltQueueSQL(delete, id, System.nanoTime() % 3);
        voltExecuteSQL(true);
        return getSeededRandomNumberGenerator().nextInt();
    }
}
