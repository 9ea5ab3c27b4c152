package org.voltdb;

import java.lang.invoke.MethodHandle;
import java.util.Random;

/** One thread's object of a procedure, and the transaction that it is in. */
final class Runner implements ProcedureContext {
    /**
     * Statements of one batch: the server's ROUTINE_BATCH_STATEMENTS_MAX, and one more, which it
     * refuses.
     */
    private static final int BATCH_MAX = 100_001;
    private static final int STATUS_NOT_SET = -128;
    /**
     * In the place of a statement's number: its text follows, or nothing, for the one before it.
     */
    private static final int TEXT = 0xFFFF;

    private final ProcedureClass procedure;
    private final VoltProcedure object;
    private final MethodHandle run;
    private final Exchange exchange;
    private final Decoder.Input input = new Decoder.Input();
    /** The batch: a count, then the statements. */
    private final Bytes batch = new Bytes(512);
    private final Bytes answer = new Bytes(512);
    private int queued;
    private Expectation[] expectations = new Expectation[8];
    private SQLStmt[] statements = new SQLStmt[8];
    private long time;
    private long uniqueId;
    private int partition;
    private Random random;
    private byte statusCode;
    private String statusString;

    Runner(ProcedureClass procedure, VoltProcedure object, MethodHandle run, Exchange exchange) {
        this.procedure = procedure;
        this.object = object;
        this.run = run;
        this.exchange = exchange;
    }

    int run(long parameters, long time, long uniqueId, int partition) throws Throwable {
        this.time = time;
        this.uniqueId = uniqueId;
        this.partition = partition;
        random = null;
        statusCode = STATUS_NOT_SET;
        statusString = null;
        clearBatch();
        input.bytes = exchange.receive(parameters);
        input.at = 0;
        Object[] values = procedure.parameters(input);
        input.bytes = null;
        object.context = this;
        Object result;
        try {
            result = (Object) run.invokeExact((Object) object, values);
        } finally {
            object.context = null;
        }
        return answer(result);
    }

    private int answer(Object result) {
        answer.length = 0;
        putAnswer(answer, statusCode, statusString, result);
        int length = answer.length;
        exchange.send(answer);
        // A procedure that once returned much does not keep its memory for ever.
        if (answer.array.length > 1 << 20) {
            answer.array = new byte[512];
        }
        return length;
    }

    /** Status, its text, tables: what a procedure leaves for its caller. */
    static void putAnswer(Bytes answer, byte statusCode, String statusString, Object result) {
        answer.putByte(statusCode);
        if (statusString == null) {
            answer.putInt(-1);
        } else {
            answer.putString(statusString);
        }
        if (result instanceof VoltTable) {
            ((VoltTable) result).writeTo(answer);
        } else if (result instanceof VoltTable[]) {
            for (VoltTable table : (VoltTable[]) result) {
                if (table == null) {
                    throw new NullPointerException("the procedure's result is an array with a table that is null");
                }
                table.writeTo(answer);
            }
        } else if (result != null) {
            putNumber(answer, ((Number) result).longValue());
        }
    }

    /** A table of one nameless BIGINT column and one row. */
    private static void putNumber(Bytes answer, long number) {
        answer.putInt(4 + 8 + 4 + 12);
        answer.putInt(8);
        answer.putByte(STATUS_NOT_SET);
        answer.putShort(1);
        answer.putByte(VoltType.BIGINT.getValue());
        answer.putInt(0);
        answer.putInt(1);
        answer.putInt(8);
        answer.putLong(number);
    }

    private void clearBatch() {
        queued = 0;
        if (batch.array.length > 1 << 20) {
            batch.array = new byte[512];
        }
        batch.length = 0;
        batch.putInt(0);
    }

    /** A batch belongs to the thread whose call it is. */
    private void check(String method) {
        if (Thread.currentThread() != exchange.thread) {
            throw new IllegalStateException(method + " was called by another thread than that which runs the procedure");
        }
    }

    @Override
    public void queueText(String sql, Object[] values) {
        check("voltQueueSQL");
        if (sql == null) {
            throw new IllegalArgumentException("voltQueueSQLExperimental was given null for a statement");
        }
        checkRoom();
        int start = batch.length;
        batch.putShort(TEXT);
        batch.putString(sql);
        putValues(batch, start, values);
        queued(null, null);
    }

    @Override
    public void load(String table, VoltTable rows) {
        check("voltLoadTable");
        if (rows == null) {
            return;
        }
        int columns = rows.getColumnCount();
        String sql = "INSERT INTO " + table + " VALUES (?" + ", ?".repeat(columns - 1) + ")";
        Bytes inserts = new Bytes(rows.getSerializedSize() + 1024);
        VoltTableRow row = rows.cloneRow();
        row.resetRowPosition();
        int count = 0;
        inserts.putInt(0);
        while (row.advanceRow()) {
            int start = inserts.length;
            inserts.putShort(TEXT);
            inserts.putString(count == 0 ? sql : "");
            putValues(inserts, start, row.getRowObjects());
            if (++count == BATCH_MAX - 1) {
                insert(inserts, count);
                count = 0;
                inserts.length = 0;
                inserts.putInt(0);
            }
        }
        if (count > 0) {
            insert(inserts, count);
        }
    }

    private void insert(Bytes inserts, int count) {
        inserts.setInt(0, count);
        exchange.execute(inserts);
    }

    @Override
    public void queue(SQLStmt statement, Expectation expectation, Object[] values) {
        check("voltQueueSQL");
        if (statement == null) {
            throw new IllegalArgumentException("voltQueueSQL was given null for a statement");
        }
        if (statement.number < 0) {
            throw new IllegalArgumentException("an SQLStmt that is not a field of the procedure's class cannot be queued: "
                    + statement.getText());
        }
        checkRoom();
        int start = batch.length;
        batch.putShort(statement.number);
        putValues(batch, start, values);
        queued(statement, expectation);
    }

    private void checkRoom() {
        if (queued == BATCH_MAX) {
            throw new IllegalStateException("more than " + (BATCH_MAX - 1) + " statements in a batch: execute them in several");
        }
    }

    /**
     * A statement's values, their length in front; what began at `start` is taken back when one of
     * them does not fit.
     */
    private static void putValues(Bytes out, int start, Object[] values) {
        int length = out.length;
        out.putInt(0);
        int count = values == null ? 1 : values.length;
        out.putShort(count);
        try {
            if (values == null) {
                out.putParameter(null);
            } else {
                for (Object value : values) {
                    out.putParameter(value);
                }
            }
        } catch (RuntimeException e) {
            out.length = start;
            throw e;
        }
        out.setInt(length, out.length - length - 4);
    }

    private void queued(SQLStmt statement, Expectation expectation) {
        if (queued == statements.length) {
            statements = java.util.Arrays.copyOf(statements, queued * 2);
            expectations = java.util.Arrays.copyOf(expectations, queued * 2);
        }
        statements[queued] = statement;
        expectations[queued] = expectation;
        queued++;
    }

    @Override
    public VoltTable[] execute(boolean last) {
        check("voltExecuteSQL");
        int count = queued;
        if (count == 0) {
            return new VoltTable[0];
        }
        batch.setInt(0, count);
        byte[] results;
        try {
            results = exchange.execute(batch);
        } finally {
            clearBatch();
        }
        VoltTable[] tables = new VoltTable[count];
        int at = 0;
        for (int i = 0; i < count; i++) {
            int end = at + 4 + Bytes.intAt(results, at);
            tables[i] = VoltTable.ofResult(results, at + 4, end);
            at = end;
        }
        for (int i = 0; i < count; i++) {
            if (expectations[i] != null) {
                expectations[i].check(procedure.name, statements[i].getText(), i, tables[i]);
            }
        }
        return tables;
    }

    @Override
    public long uniqueId() {
        return uniqueId;
    }

    @Override
    public long transactionTimeMicros() {
        return time;
    }

    @Override
    public Random random() {
        check("getSeededRandomNumberGenerator");
        if (random == null) {
            random = new Random(uniqueId);
        }
        return random;
    }

    @Override
    public void statusCode(byte code) {
        check("setAppStatusCode");
        statusCode = code;
    }

    @Override
    public void statusString(String text) {
        check("setAppStatusString");
        statusString = text;
    }

    @Override
    public int partition() {
        return partition;
    }
}
