package io.ferritedb.client;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** Answers from bytes. Every length is checked against what is there; tables are read later. */
final class Decoder {
    record Response(long handle, int status, String text, Integer applicationStatus, String applicationText, int milliseconds, List<Table> tables, String code) {
        CallResult result() {
            return new CallResult(tables, text, applicationStatus, applicationText, milliseconds);
        }

        CallException failure(String procedure) {
            return new CallException(text == null ? "status " + status : text, procedure, code == null ? "HY000" : code, status, CallException.outcomeOf(status), applicationStatus, applicationText);
        }
    }

    record Login(int refused, String reason, int hostId, long connectionId, long clusterStart, int leaderAddress, String build) {}

    private Decoder() {}

    /** A response whose body is in `bytes` from `start` to `end`. The tables keep `bytes`. */
    static Response response(byte[] bytes, int start, int end) {
        ByteBuffer in = ByteBuffer.wrap(bytes, 0, end);
        in.position(start);
        try {
            in.get();
            long handle = in.getLong();
            byte fields = in.get();
            int status = in.get();
            String text = (fields & 0x20) != 0 ? Table.string(in, end) : null;
            byte application = in.get();
            String applicationText = (fields & 0x80) != 0 ? Table.string(in, end) : null;
            int milliseconds = in.getInt();
            if ((fields & 0x40) != 0) skip(in, in.getInt());
            if ((fields & 0x10) != 0) skip(in, 4 * in.getShort());
            int count = in.getShort();
            if (count < 0) throw new ProtocolException("an answer with " + count + " tables");
            List<Table> tables = count == 0 ? List.of() : count == 1 ? List.of(table(in, bytes, end)) : new ArrayList<>();
            if (count > 1) {
                for (int at = 0; at < count; at++) tables.add(table(in, bytes, end));
            }
            return new Response(handle, status, text, application == Byte.MIN_VALUE ? null : (int) application, applicationText, milliseconds, tables, in.hasRemaining() ? code(in) : null);
        } catch (BufferUnderflowException early) {
            throw new ProtocolException("an answer ends early");
        }
    }

    /**
     * Behind the tables of a failure: fields of id, length and bytes. Number 1 is the code; later
     * servers may have more.
     */
    private static String code(ByteBuffer in) {
        String code = null;
        while (in.hasRemaining()) {
            byte id = in.get();
            int length = in.get();
            int at = in.position();
            skip(in, length);
            if (id == 1) code = new String(in.array(), at, length, StandardCharsets.US_ASCII);
        }
        return code;
    }

    private static Table table(ByteBuffer in, byte[] bytes, int end) {
        int length = in.getInt();
        int at = in.position();
        skip(in, length);
        return new Table(bytes, at, at + length);
    }

    private static void skip(ByteBuffer in, int count) {
        if (count < 0 || count > in.remaining()) throw new ProtocolException("an answer ends early");
        in.position(in.position() + count);
    }

    static Login login(byte[] bytes) {
        ByteBuffer in = ByteBuffer.wrap(bytes);
        try {
            in.get();
            int result = in.get();
            if (result != 0) return new Login(result, reason(in, bytes.length), 0, 0, 0, 0, "");
            return new Login(0, null, in.getInt(), in.getLong(), in.getLong(), in.getInt(), Table.string(in, bytes.length));
        } catch (BufferUnderflowException early) {
            throw new ProtocolException("the answer to the login ends early");
        }
    }

    /**
     * Behind the code of a refusal: of a node that is not open yet the reason, of another server
     * perhaps something else, or nothing.
     */
    private static String reason(ByteBuffer in, int end) {
        try {
            return in.hasRemaining() ? Table.string(in, end) : null;
        } catch (BufferUnderflowException | ProtocolException other) {
            return null;
        }
    }

    static String refusal(int code) {
        return switch (code) {
            case -1 -> "user or password is wrong";
            case 1 -> "the server has too many connections";
            case 2 -> "the login took too long";
            case 3 -> "the server did not understand the login";
            case 4 -> "the node is rejoining its cluster";
            case 5 -> "the service is not available";
            case 6 -> "the server asks for TLS";
            case 7 -> "the server asks for a client certificate";
            case 8 -> "the client certificate has been revoked";
            default -> "the server refused the login with code " + code;
        };
    }

    /** The SQLSTATE of a refusal. */
    static String codeOf(int refusal) {
        return switch (refusal) {
            case -1, 7, 8 -> "28000";
            case 1 -> "53300";
            case 3 -> "08P01";
            case 4 -> "57P03";
            default -> "08004";
        };
    }

    static boolean permanent(int code) {
        return code != 1 && code != 2 && code != 4;
    }
}
