package app;

import org.voltdb.VoltProcedure;

/** Binary values as objects. */
public class Boxed extends VoltProcedure {
    public long run(Byte[] one, Byte[][] several) {
        long sum = one == null ? -1 : one.length;
        for (Byte[] bytes : several) {
            for (Byte value : bytes) {
                sum = sum * 10 + value;
            }
        }
        return sum;
    }
}
