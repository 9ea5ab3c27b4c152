package org.voltdb;

import java.nio.charset.StandardCharsets;
import org.voltdb.client.ClientResponse;

/** An answer as clients get it (wire-protocol section 5), without the frame's length. */
final class CompoundResponse implements ClientResponse {
    private static final int STATUS_TEXT_PRESENT = 0x20;
    private static final int APPLICATION_TEXT_PRESENT = 0x80;
    private static final int CODE_FIELD = 1;

    private final long nanos;
    private final byte status;
    private final String statusString;
    private final byte appStatus;
    private final String appStatusString;
    private final int clusterRoundtrip;
    private final VoltTable[] results;
    /** The SQLSTATE of a failure; null if there is none. */
    final String code;

    CompoundResponse(byte[] bytes, int start, long nanos) {
        this.nanos = nanos;
        // Behind the version and the handle.
        int fields = bytes[start + 9];
        status = bytes[start + 10];
        int at = start + 11;
        if ((fields & STATUS_TEXT_PRESENT) != 0) {
            statusString = textAt(bytes, at);
            at += 4 + Math.max(0, Bytes.intAt(bytes, at));
        } else {
            statusString = null;
        }
        appStatus = bytes[at++];
        if ((fields & APPLICATION_TEXT_PRESENT) != 0) {
            appStatusString = textAt(bytes, at);
            at += 4 + Math.max(0, Bytes.intAt(bytes, at));
        } else {
            appStatusString = null;
        }
        clusterRoundtrip = Bytes.intAt(bytes, at);
        results = new VoltTable[Bytes.shortAt(bytes, at + 4)];
        at += 6;
        for (int i = 0; i < results.length; i++) {
            int end = at + 4 + Bytes.intAt(bytes, at);
            results[i] = VoltTable.ofResult(bytes, at + 4, end);
            at = end;
        }
        String found = null;
        // Behind the tables: fields of id, length and bytes (docs/decisions/0036).
        while (at + 2 <= bytes.length) {
            int length = bytes[at + 1];
            if (length < 0 || at + 2 + length > bytes.length) {
                break;
            }
            if (bytes[at] == CODE_FIELD) {
                found = new String(bytes, at + 2, length, StandardCharsets.UTF_8);
            }
            at += 2 + length;
        }
        code = found;
    }

    private static String textAt(byte[] bytes, int at) {
        int length = Bytes.intAt(bytes, at);
        return length < 0 ? null : new String(bytes, at + 4, length, StandardCharsets.UTF_8);
    }

    @Override
    public byte getStatus() {
        return status;
    }

    @Override
    public byte getAppStatus() {
        return appStatus;
    }

    @Override
    public VoltTable[] getResults() {
        return results;
    }

    @Override
    public String getStatusString() {
        return statusString;
    }

    @Override
    public String getAppStatusString() {
        return appStatusString;
    }

    @Override
    public int getClusterRoundtrip() {
        return clusterRoundtrip;
    }

    @Override
    public int getClientRoundtrip() {
        return (int) Math.min(Integer.MAX_VALUE, nanos / 1_000_000);
    }

    @Override
    public long getClientRoundtripNanos() {
        return nanos;
    }
}
