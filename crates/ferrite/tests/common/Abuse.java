import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;

/** What a procedure should not do. */
public class Abuse extends VoltProcedure {
    public final SQLStmt insert = new SQLStmt("INSERT INTO t VALUES (?)");

    public static class Evil extends RuntimeException {
        @Override
        public String getMessage() {
            throw new RuntimeException("evil");
        }

        @Override
        public String toString() {
            return toString() + toString();
        }
    }

    public static class Endless extends RuntimeException {
        Endless() {
            super("endless");
        }

        @Override
        public Throwable getCause() {
            return new Endless();
        }
    }

    public static class Bare extends RuntimeException {
        Bare() {
            super("without a stack");
        }

        @Override
        public StackTraceElement[] getStackTrace() {
            return null;
        }
    }

    public static class Silent extends VoltAbortException {
        @Override
        public String getMessage() {
            throw new RuntimeException("silent");
        }
    }

    public long run(String what) throws Exception {
        switch (what) {
            case "circle":
                Exception a = new Exception("circle-a");
                Exception b = new Exception("circle-b", a);
                a.initCause(b);
                throw b;
            case "thrown by getMessage":
                throw new Evil();
            case "endless causes":
                throw new Endless();
            case "long chain":
                RuntimeException chain = new RuntimeException("c0");
                for (int i = 1; i < 100_000; i++) {
                    chain = new RuntimeException("c" + i, chain);
                }
                throw chain;
            case "null for a stack":
                throw new Bare();
            case "abort without words":
                throw new Silent();
            case "another thread":
                return besideAnother();
            case "print":
                String x = "x".repeat(1_000);
                for (int i = 0; i < 2_000; i++) {
                    System.out.println(x);
                    System.err.println("printed " + x);
                }
                return 0;
            case "exit":
                System.exit(0);
                return 0;
            case "halt":
                Runtime.getRuntime().halt(0);
                return 0;
            default:
                return 0;
        }
    }

    private long besideAnother() throws InterruptedException {
        int[] taken = new int[1];
        Thread other = new Thread(() -> {
            for (int i = 0; i < 2_000; i++) {
                try {
                    voltQueueSQL(insert, -1);
                    taken[0]++;
                } catch (IllegalStateException e) {
                    // As it should be.
                }
                try {
                    setAppStatusString("another's");
                    taken[0]++;
                } catch (IllegalStateException e) {
                    // As it should be.
                }
            }
        });
        other.start();
        for (int i = 0; i < 1_000; i++) {
            voltQueueSQL(insert, i);
            voltQueueSQL(insert, i);
            if (voltExecuteSQL().length != 2) {
                throw new VoltAbortException("a batch has another's statements");
            }
        }
        other.join();
        if (taken[0] > 0) {
            throw new VoltAbortException(taken[0] + " calls of another thread were taken");
        }
        return 0;
    }
}
