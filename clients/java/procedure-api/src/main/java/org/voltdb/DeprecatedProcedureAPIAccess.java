package org.voltdb;

/** What procedures once could do, for those that still do it. */
public abstract class DeprecatedProcedureAPIAccess {
    public DeprecatedProcedureAPIAccess() {
    }

    /** {@link VoltProcedure#getUniqueId()}. */
    public static long getVoltPrivateRealTransactionId(VoltProcedure procedure) {
        return procedure.getUniqueId();
    }

    /** {@link VoltProcedure#getUniqueId()}. */
    public static long getTransactionId(VoltProcedure procedure) {
        return procedure.getUniqueId();
    }

    /**
     * Inserts a table's rows into a table of the database that has the same columns, in their
     * order, at once: what is queued stays so. Up to 100,000 rows happen as a whole or not at all.
     * On one partition the rows must be that partition's. Without a table ({@code null}) nothing
     * happens.
     */
    public static void voltLoadTable(VoltProcedure procedure, String tableName, VoltTable rows) throws VoltProcedure.VoltAbortException {
        procedure.context().load(tableName, rows);
    }
}
