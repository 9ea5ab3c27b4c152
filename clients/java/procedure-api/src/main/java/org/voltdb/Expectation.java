package org.voltdb;

/**
 * What a procedure expects of a statement's result; see the EXPECT constants of {@link
 * VoltProcedure}.
 */
public class Expectation {
    enum Kind {
        EMPTY,
        ONE_ROW,
        ZERO_OR_ONE_ROW,
        NON_EMPTY,
        SCALAR,
        SCALAR_LONG,
        SCALAR_MATCH
    }

    private final Kind kind;
    private final long wanted;

    Expectation(Kind kind) {
        this(kind, 0);
    }

    Expectation(Kind kind, long wanted) {
        this.kind = kind;
        this.wanted = wanted;
    }

    /** Throws what rolls the procedure back when the table is not as expected. */
    void check(String procedure, String sql, int number, VoltTable table) {
        if (!holds(table)) {
            throw new VoltProcedure.VoltAbortException("Unexpected result of statement " + number + " of procedure " + procedure
                    + ": " + this + " was expected, but it has " + table.getRowCount() + " rows: " + sql);
        }
    }

    private boolean holds(VoltTable table) {
        int rows = table.getRowCount();
        switch (kind) {
            case EMPTY:
                return rows == 0;
            case ONE_ROW:
                return rows == 1;
            case ZERO_OR_ONE_ROW:
                return rows <= 1;
            case NON_EMPTY:
                return rows > 0;
            case SCALAR:
                return rows == 1 && table.getColumnCount() == 1;
            case SCALAR_LONG:
                return rows == 1 && table.getColumnCount() == 1 && table.getColumnType(0).isAnyIntegerType();
            default:
                return rows == 1 && table.getColumnCount() == 1 && table.getColumnType(0).isAnyIntegerType()
                        && table.asScalarLong() == wanted;
        }
    }

    @Override
    public String toString() {
        return kind == Kind.SCALAR_MATCH ? "EXPECT_SCALAR_MATCH(" + wanted + ")" : "EXPECT_" + kind;
    }
}
