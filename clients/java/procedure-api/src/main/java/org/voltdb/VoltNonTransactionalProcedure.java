package org.voltdb;

/** What procedures have in common that run outside of transactions. Of these there are the compound ones: {@link VoltCompoundProcedure}. */
public abstract class VoltNonTransactionalProcedure {
    /** What the server gives; null outside of it. */
    CompoundContext context;

    public VoltNonTransactionalProcedure() {
    }

    CompoundContext context() {
        if (context == null) {
            throw new IllegalStateException("a procedure runs in a server only, and not in its own constructor");
        }
        return context;
    }

    /** A status of the procedure's own, which its caller receives. */
    public void setAppStatusCode(byte code) {
        context().statusCode(code);
    }

    public void setAppStatusString(String text) {
        context().statusString(text);
    }
}
