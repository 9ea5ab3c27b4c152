package org.voltdb;

/**
 * One call of a procedure that runs outside of transactions. The server's threads come by, one at a
 * time: they bring the answers to its calls and take what it wants next.
 */
abstract class StagedCall {
    /**
     * What it wants, as the first byte of what it leaves: these calls, and to go on when all of
     * them are answered;
     */
    static final int CALLS = 0;
    /** to end, with what {@link Runner#putAnswer} writes; */
    static final int COMPLETED = 1;
    /** these calls, and to go on when there is any answer or it rings; */
    static final int RESTS = 2;
    /** to end as a call that it made has ended: its status, the words for it, then as above. */
    static final int ANSWERED = 3;
    /** No partition in particular. */
    static final int ANYWHERE = -1;

    /**
     * Given the answers to its calls; what it wants stands in the request buffer then, and this is
     * how many bytes it has.
     */
    abstract int stage(Exchange exchange, long answers) throws Throwable;

    /** Nobody comes by any more. */
    void over() {
    }

    /**
     * What the answers stand in: a count, then for each the call's number, the nanoseconds, a
     * length, and the response as clients get it.
     */
    static final class Answers {
        private final byte[] bytes;
        int left;
        private int at = 4;
        /** The call's number, counted from the first of all. */
        long call;

        Answers(byte[] bytes) {
            this.bytes = bytes;
            left = bytes.length == 0 ? 0 : Bytes.intAt(bytes, 0);
        }

        CompoundResponse next() {
            left--;
            call = Bytes.longAt(bytes, at);
            int start = at + 20;
            CompoundResponse response = new CompoundResponse(bytes, start, Bytes.longAt(bytes, at + 8));
            at = start + Bytes.intAt(bytes, at + 16);
            return response;
        }
    }

    /** A parameter set; what does not fit is thrown before it is sent. */
    static void putParameters(Bytes out, Object[] values) {
        if (values == null) {
            out.putShort(1);
            out.putParameter(null);
            return;
        }
        out.putShort(values.length);
        for (Object value : values) {
            out.putParameter(value);
        }
    }
}
