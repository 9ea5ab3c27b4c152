package org.voltdb;

import java.util.List;

/**
 * What the server does for a compound procedure. Not for use by procedures, which call the methods
 * of {@link VoltCompoundProcedure}.
 */
interface CompoundContext extends CallContext {
    void stages(List<VoltCompoundProcedure.Stage> stages);

    void queue(String procedure, Object[] values);

    void complete(Object result);

    void abort(VoltCompoundProcedure.CompoundProcAbortException wish);
}
