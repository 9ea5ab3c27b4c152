package io.ferritedb.client;

/** What came is not the protocol. The connection cannot go on. */
public class ProtocolException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    ProtocolException(String message) {
        super(message);
    }

    /** The SQLSTATE: {@code 08P01}. */
    public String code() {
        return "08P01";
    }
}
