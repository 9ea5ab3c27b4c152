package org.voltdb;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.voltdb.client.ClientResponse;

/**
 * A procedure that calls procedures. A subclass has a public constructor without parameters and one
 * public method {@code run}, which takes the parameters of the call and says what the stages are:
 *
 * <pre>
 * public long run(long id) {
 *     newStageList(this::lookUp).then(this::store).then(this::finish).build();
 *     return 0;
 * }
 * </pre>
 *
 * <p>Stages are methods that take the answers to the calls that the stage before them has queued,
 * in their order. They run one after the other, each perhaps on another thread; the calls of a
 * stage run side by side, each a transaction of its own. The last stage must call {@code
 * completeProcedure}. The whole is no transaction: what was called stays, whatever comes after it.
 *
 * <p>Each call has an object of its own, so what stages have to tell each other stands in fields.
 */
public abstract class VoltCompoundProcedure extends VoltNonTransactionalProcedure {
    /** Ends the procedure, by its own wish. */
    public static class CompoundProcAbortException extends RuntimeException {
        private static final long serialVersionUID = 1L;

        public CompoundProcAbortException() {
        }

        public CompoundProcAbortException(String message) {
            super(message);
        }

        public CompoundProcAbortException(Throwable cause) {
            super(cause);
        }

        public CompoundProcAbortException(String message, Throwable cause) {
            super(message, cause);
        }
    }

    /** One of a procedure's stages; made by a {@link StageListBuilder}. */
    public static final class Stage {
        final Consumer<ClientResponse[]> body;

        private Stage(Consumer<ClientResponse[]> body) {
            if (body == null) {
                throw new IllegalArgumentException("a stage is null");
            }
            this.body = body;
        }
    }

    /** Gathers stages in their order; {@link #build} makes them those of the procedure. */
    public final class StageListBuilder {
        private final List<Stage> stages = new ArrayList<>();

        private StageListBuilder(Consumer<ClientResponse[]> first) {
            then(first);
        }

        public StageListBuilder then(Consumer<ClientResponse[]> stage) {
            stages.add(new Stage(stage));
            return this;
        }

        public void build() {
            compound().stages(stages);
        }
    }

    public VoltCompoundProcedure() {
    }

    private CompoundContext compound() {
        return (CompoundContext) context();
    }

    /**
     * Begins the list of stages with the first. In {@code run} that one gets no answers: an empty
     * array. In a stage the list takes the place of the stages that have not run, and its first one
     * gets the answers to the calls of this stage.
     */
    public StageListBuilder newStageList(Consumer<ClientResponse[]> first) {
        return new StageListBuilder(first);
    }

    /** Adds a call to those of this stage. They are sent when the stage returns. */
    public void queueProcedureCall(String procedure, Object... values) {
        compound().queue(procedure, values);
    }

    /** Ends the procedure with a number. Stages that have not run are left out. */
    public void completeProcedure(long result) {
        compound().complete(result);
    }

    /** Ends the procedure with a number. Stages that have not run are left out. */
    public void completeProcedure(Long result) {
        compound().complete(result);
    }

    public void completeProcedure(VoltTable result) {
        compound().complete(result);
    }

    public void completeProcedure(VoltTable[] results) {
        compound().complete(results);
    }

    /** Ends the procedure without a result, by throwing a {@link CompoundProcAbortException}. */
    public void abortProcedure(String reason) {
        CompoundProcAbortException wish = new CompoundProcAbortException(reason);
        compound().abort(wish);
        throw wish;
    }
}
