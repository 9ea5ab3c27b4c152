package io.ferritedb.client;

/** How a call ended that did not succeed. */
public class CallException extends RuntimeException {
    private static final long serialVersionUID = 1L;

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
    private final int status;
    private final Outcome outcome;
    private final Integer applicationStatus;
    private final String applicationStatusText;

    CallException(String message, String procedure, int status, Outcome outcome, Integer applicationStatus, String applicationStatusText) {
        // A stack trace would be that of a network thread; filling it in costs more than the call.
        this(message, procedure, status, outcome, applicationStatus, applicationStatusText, null);
    }

    private CallException(
            String message,
            String procedure,
            int status,
            Outcome outcome,
            Integer applicationStatus,
            String applicationStatusText,
            CallException cause) {
        super(message, cause, cause != null, cause != null);
        this.procedure = procedure;
        this.status = status;
        this.outcome = outcome;
        this.applicationStatus = applicationStatus;
        this.applicationStatusText = applicationStatusText;
    }

    /** The same for a thread that has waited for it: with that thread's stack trace, which has the caller. */
    CallException here() {
        return new CallException(getMessage(), procedure, status, outcome, applicationStatus, applicationStatusText, this);
    }

    static CallException notSent(String message, String procedure) {
        return new CallException(message, procedure, Status.CLIENT_ERROR_NOT_SENT, Outcome.NOT_SENT, null, null);
    }

    static CallException unknown(String message, String procedure, int status) {
        return new CallException(message, procedure, status, Outcome.UNKNOWN, null, null);
    }

    static Outcome outcomeOf(int status) {
        return status == Status.CONNECTION_LOST || status == Status.RESPONSE_UNKNOWN || status == Status.CONNECTION_TIMEOUT
                || status == Status.RESPONSE_TIMEOUT ? Outcome.UNKNOWN : Outcome.FAILED;
    }

    public String procedure() {
        return procedure;
    }

    /** Status code, see {@link Status}. */
    public int status() {
        return status;
    }

    public Outcome outcome() {
        return outcome;
    }

    /** Status that the procedure set, or null. */
    public Integer applicationStatus() {
        return applicationStatus;
    }

    public String applicationStatusText() {
        return applicationStatusText;
    }
}
