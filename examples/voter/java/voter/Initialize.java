package voter;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;

/**
 * Fills the two small tables, once: contestants 1 to maxContestants with the first of the names,
 * and the area codes. Returns how many contestants there are.
 */
public class Initialize extends VoltProcedure {
    public final SQLStmt existing = new SQLStmt("SELECT COUNT(*) FROM contestants");
    public final SQLStmt insertContestant = new SQLStmt("INSERT INTO contestants (contestant_number, contestant_name) VALUES (?, ?)");
    public final SQLStmt insertAreaCode = new SQLStmt("INSERT INTO area_code_state (area_code, state) VALUES (?, ?)");

    public long run(int maxContestants, String names) {
        voltQueueSQL(existing, EXPECT_SCALAR_LONG);
        long there = voltExecuteSQL()[0].asScalarLong();
        if (there != 0) {
            return there;
        }
        String[] name = names.split(",");
        if (name.length < maxContestants) {
            throw new VoltAbortException(maxContestants + " contestants need as many names; there are " + name.length);
        }
        for (int at = 0; at < maxContestants; at++) {
            voltQueueSQL(insertContestant, EXPECT_SCALAR_MATCH(1), at + 1, name[at]);
        }
        voltExecuteSQL();
        insertAreaCodes();
        return maxContestants;
    }

    /** The file in the jar has a line for each state: its name, then its codes. */
    private void insertAreaCodes() {
        try (var in = new BufferedReader(new InputStreamReader(Initialize.class.getResourceAsStream("area-codes.txt"), StandardCharsets.UTF_8))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] words = line.split(" ");
                for (int at = 1; at < words.length; at++) {
                    voltQueueSQL(insertAreaCode, EXPECT_SCALAR_MATCH(1), Short.valueOf(words[at]), words[0]);
                }
                voltExecuteSQL();
            }
        } catch (IOException unreadable) {
            throw new VoltAbortException(unreadable);
        }
    }
}
