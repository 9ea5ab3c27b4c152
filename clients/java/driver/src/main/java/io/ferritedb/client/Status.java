package io.ferritedb.client;

/** Status codes of the protocol, and those that a client gives itself. */
public final class Status {
    public static final byte SUCCESS = 1;
    public static final byte USER_ABORT = -1;
    public static final byte GRACEFUL_FAILURE = -2;
    public static final byte UNEXPECTED_FAILURE = -3;
    public static final byte CONNECTION_LOST = -4;
    public static final byte SERVER_UNAVAILABLE = -5;
    public static final byte CONNECTION_TIMEOUT = -6;
    public static final byte RESPONSE_UNKNOWN = -7;
    public static final byte CLIENT_ERROR_NOT_SENT = -14;
    public static final byte REQUEST_TIMEOUT = -15;
    public static final byte RESPONSE_TIMEOUT = -16;

    private Status() {}
}
