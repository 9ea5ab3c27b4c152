package org.voltdb.client;

import org.voltdb.VoltTable;

/**
 * What became of a call that a procedure outside of transactions has made: as its caller would be
 * told who called it through a client.
 */
public interface ClientResponse {
    byte SUCCESS = 1;
    byte USER_ABORT = -1;
    byte GRACEFUL_FAILURE = -2;
    byte UNEXPECTED_FAILURE = -3;
    byte CONNECTION_LOST = -4;
    byte SERVER_UNAVAILABLE = -5;
    byte CONNECTION_TIMEOUT = -6;
    byte RESPONSE_UNKNOWN = -7;
    byte TXN_RESTART = -8;
    byte OPERATIONAL_FAILURE = -9;
    byte TXN_MISPARTITIONED = -10;
    byte TXN_MISROUTED = -11;
    byte DR_TABLE_HASH_NOT_FOUND = -12;
    byte UNSUPPORTED_DYNAMIC_CHANGE = -13;
    byte CLIENT_ERROR_TXN_NOT_SENT = -14;
    byte CLIENT_REQUEST_TIMEOUT = -15;
    byte CLIENT_RESPONSE_TIMEOUT = -16;
    byte COMPOUND_PROC_USER_ABORT = -17;
    byte COMPOUND_PROC_TIMEOUT = -18;
    byte SYSPROC_UNAVAILABLE_IN_MIXED_MODE = -19;
    byte UNINITIALIZED_APP_STATUS_CODE = -128;

    byte getStatus();

    /** The procedure's own status; {@link #UNINITIALIZED_APP_STATUS_CODE} when it has set none. */
    byte getAppStatus();

    /** Empty after a failure. */
    VoltTable[] getResults();

    /** Why it failed; null after a success. */
    String getStatusString();

    String getAppStatusString();

    /** Milliseconds, as the server measured them; 0 where it did not. */
    int getClusterRoundtrip();

    /** Milliseconds from the call's being sent to the answer. */
    int getClientRoundtrip();

    long getClientRoundtripNanos();
}
