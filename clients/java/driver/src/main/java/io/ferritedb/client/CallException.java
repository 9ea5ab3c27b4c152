package io.ferritedb.client;

/**
 * A call that did not succeed. {@link #code()} says what was wrong, {@link #outcome()} what is
 * known of the transaction.
 *
 * <p>Thrown by {@link Client#callSync} with the caller's stack trace. Futures end with it, without
 * a stack trace.
 */
public class CallException extends RuntimeException {
    private static final long serialVersionUID = 2L;

    /** What is known of the transaction. */
    public enum Outcome {
        /** The server answered: rolled back. */
        FAILED,
        /** No answer: it may have committed. */
        UNKNOWN,
        /** It never left this process. */
        NOT_SENT
    }

    private final String procedure;
    private final String code;
    private final int status;
    private final Outcome outcome;
    private final Integer applicationStatus;
    private final String applicationStatusText;

    CallException(String message, String procedure, String code, int status, Outcome outcome, Integer applicationStatus, String applicationStatusText) {
        // A stack trace would be that of a network thread; filling it in costs more than the call.
        this(message, procedure, code, status, outcome, applicationStatus, applicationStatusText, null);
    }

    private CallException(
            String message,
            String procedure,
            String code,
            int status,
            Outcome outcome,
            Integer applicationStatus,
            String applicationStatusText,
            CallException cause) {
        super(message, cause, cause != null, cause != null);
        this.procedure = procedure;
        this.code = code;
        this.status = status;
        this.outcome = outcome;
        this.applicationStatus = applicationStatus;
        this.applicationStatusText = applicationStatusText;
    }

    /**
     * The same for a thread that has waited for it: with that thread's stack trace, which has the
     * caller.
     */
    CallException here() {
        return new CallException(getMessage(), procedure, code, status, outcome, applicationStatus, applicationStatusText, this);
    }

    static CallException notSent(String message, String procedure, String code) {
        return new CallException(message, procedure, code, Status.CLIENT_ERROR_NOT_SENT, Outcome.NOT_SENT, null, null);
    }

    static CallException unknown(String message, String procedure, String code, int status) {
        return new CallException(message, procedure, code, status, Outcome.UNKNOWN, null, null);
    }

    static Outcome outcomeOf(int status) {
        return status == Status.CONNECTION_LOST || status == Status.RESPONSE_UNKNOWN || status == Status.CONNECTION_TIMEOUT
                || status == Status.RESPONSE_TIMEOUT ? Outcome.UNKNOWN : Outcome.FAILED;
    }

    /** The procedure that was called, {@code @AdHoc} for SQL text; never null. */
    public String procedure() {
        return procedure;
    }

    /**
     * The SQLSTATE: five characters, such as {@code 23505} for a violated unique key; never null.
     * docs/errors.md lists them. {@code HY000} if the server sent none.
     */
    public String code() {
        return code;
    }

    /** Status code, see {@link Status}. */
    public int status() {
        return status;
    }

    /** Whether the transaction may have taken place; never null. */
    public Outcome outcome() {
        return outcome;
    }

    /** Status that the procedure set, or null. */
    public Integer applicationStatus() {
        return applicationStatus;
    }

    /** Text that the procedure set, or null. */
    public String applicationStatusText() {
        return applicationStatusText;
    }
}
