package app;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;

/** All ways to fail, after a write that must leave no trace. */
public class Fails extends VoltProcedure {
    public final SQLStmt insert = new SQLStmt("INSERT INTO accounts (id, balance) VALUES (?, 1)");
    public final SQLStmt select = new SQLStmt("SELECT * FROM accounts WHERE id = ?");

    public long run(long id, String how) throws Exception {
        voltQueueSQL(insert, id);
        voltExecuteSQL();
        switch (how) {
            case "abort":
                throw new VoltAbortException("aborted on purpose");
            case "exception":
                return deeper(0);
            case "checked":
                throw new java.io.IOException("a checked exception", new IllegalStateException("its cause"));
            case "stack":
                return endless(1);
            case "memory":
                List<long[]> hoard = new ArrayList<>();
                while (true) {
                    hoard.add(new long[10_000_000]);
                }
            case "constraint":
                voltQueueSQL(insert, id);
                voltExecuteSQL();
                return 0;
            case "caught":
                try {
                    voltQueueSQL(insert, id + 1_000_000);
                    voltQueueSQL(insert, id);
                    voltExecuteSQL();
                    return 1;
                } catch (RuntimeException e) {
                    // None of the batch has happened, and the transaction goes on.
                    voltQueueSQL(select, EXPECT_EMPTY, id + 1_000_000);
                    voltQueueSQL(select, EXPECT_ONE_ROW, id);
                    voltExecuteSQL();
                    return 2;
                }
            case "expectation":
                voltQueueSQL(select, EXPECT_EMPTY, id);
                voltExecuteSQL();
                return 0;
            case "thread":
                String[] said = {""};
                Thread thread = new Thread(() -> {
                    try {
                        voltQueueSQL(select, id);
                        voltExecuteSQL();
                    } catch (RuntimeException e) {
                        said[0] = e.getMessage();
                    }
                });
                thread.start();
                thread.join();
                throw new VoltAbortException(said[0]);
            case "foreign statement":
                voltQueueSQL(new SQLStmt("SELECT 1 FROM accounts"));
                return 0;
            case "long":
                while (true) {
                    voltQueueSQL(select, id);
                    voltExecuteSQL();
                }
            default:
                if (how.startsWith("busy until ")) {
                    busy(Path.of(how.substring("busy until ".length())));
                    voltQueueSQL(select, id);
                    voltExecuteSQL();
                    return 0;
                }
                return -1;
        }
    }

    private long deeper(int depth) {
        if (depth == 3) {
            throw new IllegalArgumentException("thrown on purpose");
        }
        return deeper(depth + 1);
    }

    /** Executes no batch until there is such a file. */
    private static void busy(Path file) {
        while (!Files.exists(file)) {
            Thread.onSpinWait();
        }
    }

    private long endless(long depth) {
        return endless(depth + 1) + 1;
    }
}
