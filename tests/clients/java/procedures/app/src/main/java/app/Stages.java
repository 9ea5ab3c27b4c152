package app;

import java.math.BigDecimal;
import java.util.function.Consumer;
import org.voltdb.VoltCompoundProcedure;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;
import org.voltdb.client.ClientResponse;
import org.voltdb.types.TimestampType;

/** What stages may do and what they may not, as the parameter says. */
public class Stages extends VoltCompoundProcedure {
    private String how;
    private int ran;

    public long run(String how) throws Exception {
        this.how = how;
        switch (how) {
            case "no stages":
                return 0;
            case "not built":
                newStageList(this::complete);
                return 0;
            case "no stage":
                newStageList((Consumer<ClientResponse[]>) null).build();
                return 0;
            case "built twice":
                newStageList(this::complete).build();
                newStageList(this::complete).build();
                return 0;
            case "run throws":
                throw new java.io.IOException("run failed");
            case "run aborts":
                abortProcedure("not even begun");
                return 0;
            case "run queues":
                queueProcedureCall("@Ping");
                return 0;
            case "run completes":
                completeProcedure(11L);
                return 0;
            default:
                newStageList(this::first).then(this::second).then(this::complete).build();
                return 0;
        }
    }

    private void first(ClientResponse[] none) {
        ran++;
        switch (how) {
            case "throws":
                Object[] nothing = {};
                nothing[ran] = "past the end";
                return;
            case "overflows":
                first(none);
                return;
            case "catches its abort":
                try {
                    abortProcedure("for good");
                } catch (CompoundProcAbortException caught) {
                    queueProcedureCall("@Ping");
                }
                return;
            case "aborts without words":
                throw new CompoundProcAbortException();
            case "too many":
                for (int i = 0; i < 11; i++) {
                    queueProcedureCall("@Ping");
                }
                return;
            case "as many as it may":
                for (int i = 0; i < 10; i++) {
                    queueProcedureCall("@AdHoc", "SELECT " + i + " FROM one");
                }
                return;
            case "ends early":
                completeProcedure(1L);
                return;
            case "completes twice":
                completeProcedure(1L);
                completeProcedure(2L);
                return;
            case "completes and queues":
                queueProcedureCall("Open", 770, 1);
                completeProcedure(1L);
                return;
            case "replaces its stages, queues and completes":
                newStageList(this::complete).build();
                queueProcedureCall("Open", 770, 1);
                completeProcedure(1L);
                return;
            case "another thread":
                Throwable[] caught = new Throwable[1];
                Thread other = new Thread(() -> {
                    try {
                        queueProcedureCall("@Ping");
                    } catch (IllegalStateException refused) {
                        caught[0] = refused;
                    }
                });
                other.start();
                try {
                    other.join();
                } catch (InterruptedException interrupted) {
                    throw new AssertionError(interrupted);
                }
                throw new IllegalStateException(caught[0]);
            case "stages in a stage":
                queueProcedureCall("@Ping");
                newStageList(answers -> ran += 10 * answers.length).then(this::complete).build();
                return;
            case "a wrong value":
                queueProcedureCall("Open", new Object(), 1);
                return;
            case "no name":
                queueProcedureCall(null, 1);
                return;
            case "compound":
                queueProcedureCall("Stages", "waits for nothing");
                return;
            case "types":
                queueProcedureCall("Types", (byte) 1, (short) 2, 3, 4L, 5.5, "sechs", new byte[] {7}, new BigDecimal("8.25"),
                        new TimestampType(9L), null, null, null, null, 14);
                return;
            case "failures":
                queueProcedureCall("Nothing");
                queueProcedureCall("Deposit", 999_999_999, 1);
                queueProcedureCall("Deposit", 1);
                queueProcedureCall("Fails", 880L, "exception");
                queueProcedureCall("@Statistics", "TABLE", 0);
                return;
            default:
        }
    }

    private void second(ClientResponse[] answers) {
        ran++;
        switch (how) {
            case "as many as it may":
                long sum = 0;
                for (ClientResponse answer : answers) {
                    sum = sum * 10 + answer.getResults()[0].asScalarLong();
                }
                completeProcedure(sum);
                return;
            case "compound":
                completeProcedure(answer(answers[0]));
                return;
            case "types":
                completeProcedure(answers[0].getResults());
                return;
            case "failures":
                VoltTable[] tables = new VoltTable[answers.length];
                for (int i = 0; i < tables.length; i++) {
                    tables[i] = answer(answers[i]);
                }
                completeProcedure(tables);
                return;
            case "waits for nothing":
                if (answers.length != 0) {
                    throw new AssertionError(answers.length + " answers to no calls");
                }
                return;
            default:
        }
    }

    private static VoltTable answer(ClientResponse answer) {
        VoltTable table = new VoltTable(new VoltTable.ColumnInfo("STATUS", VoltType.TINYINT),
                new VoltTable.ColumnInfo("WORDS", VoltType.STRING), new VoltTable.ColumnInfo("APP", VoltType.INTEGER),
                new VoltTable.ColumnInfo("TABLES", VoltType.INTEGER), new VoltTable.ColumnInfo("TIMED", VoltType.INTEGER));
        boolean timed = answer.getClientRoundtripNanos() > 0 && answer.getClientRoundtrip() >= 0 && answer.getClusterRoundtrip() >= 0;
        table.addRow(answer.getStatus(), answer.getStatusString(), (int) answer.getAppStatus(), answer.getResults().length,
                timed ? 1 : 0);
        return table;
    }

    private void complete(ClientResponse[] answers) {
        ran++;
        if (how.equals("does not complete")) {
            queueProcedureCall("Open", 771, 1);
            return;
        }
        completeProcedure(how.equals("no result") ? null : Long.valueOf(ran));
    }
}
