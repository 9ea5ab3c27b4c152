package io.ferritedb.client;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Which partition owns a key: the upper half of MurmurHash3 (x64, 128 bits, seed 0), and the ring
 * of tokens.
 */
final class Ring {
    private static final long C1 = 0x87c37b91114253d5L;
    private static final long C2 = 0x4cf5ad432745937fL;

    private final int[] tokens;
    private final int[] partitions;

    private Ring(int[] tokens, int[] partitions) {
        this.tokens = tokens;
        this.partitions = partitions;
    }

    /** From the raw form: a count, then pairs of token and partition. Null if it is not one. */
    static Ring parse(byte[] raw) {
        ByteBuffer in = ByteBuffer.wrap(raw);
        if (raw.length < 4) return null;
        int count = in.getInt();
        if (count < 1 || raw.length != 4 + 8L * count) return null;
        int[] tokens = new int[count];
        int[] partitions = new int[count];
        for (int at = 0; at < count; at++) {
            tokens[at] = in.getInt();
            partitions[at] = in.getInt();
            if (at == 0 ? tokens[0] != Integer.MIN_VALUE : tokens[at] <= tokens[at - 1]) return null;
        }
        return new Ring(tokens, partitions);
    }

    int owner(int token) {
        int at = Arrays.binarySearch(tokens, token);
        return partitions[at >= 0 ? at : -at - 2];
    }

    /** Partition of a partitioning value; NULL belongs to partition 0. */
    int owner(Object value, boolean integer) {
        if (value instanceof String text && integer) {
            try {
                return owner(token(Long.parseLong(text.trim())));
            } catch (NumberFormatException text2) {
                return 0; // The server refuses it anyway.
            }
        }
        if (value instanceof CharSequence text) return owner(token(text.toString().getBytes(StandardCharsets.UTF_8)));
        if (value instanceof byte[] bytes) return owner(token(bytes));
        if (value instanceof Boolean flag) return owner(token(flag ? 1 : 0));
        if (value instanceof Number number) return owner(token(number.longValue()));
        return 0;
    }

    static int token(long value) {
        // One tail of eight bytes, little-endian: the value itself.
        return finish(mixTail1(value), 0, 8);
    }

    static int token(byte[] bytes) {
        ByteBuffer in = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        long h1 = 0;
        long h2 = 0;
        while (in.remaining() >= 16) {
            h1 ^= Long.rotateLeft(in.getLong() * C1, 31) * C2;
            h1 = (Long.rotateLeft(h1, 27) + h2) * 5 + 0x52dce729;
            h2 ^= Long.rotateLeft(in.getLong() * C2, 33) * C1;
            h2 = (Long.rotateLeft(h2, 31) + h1) * 5 + 0x38495ab5;
        }
        long k1 = 0;
        long k2 = 0;
        for (int at = 0; in.hasRemaining(); at++) {
            long next = (in.get() & 0xffL) << 8 * (at % 8);
            if (at < 8) k1 |= next;
            else k2 |= next;
        }
        h2 ^= Long.rotateLeft(k2 * C2, 33) * C1;
        h1 ^= mixTail1(k1);
        return finish(h1, h2, bytes.length);
    }

    private static long mixTail1(long k1) {
        return Long.rotateLeft(k1 * C1, 31) * C2;
    }

    private static int finish(long h1, long h2, int length) {
        h1 ^= length;
        h2 ^= length;
        h1 += h2;
        h2 += h1;
        return (int) (mix(h1) + mix(h2) >>> 32);
    }

    private static long mix(long k) {
        k ^= k >>> 33;
        k *= 0xff51afd7ed558ccdL;
        k ^= k >>> 33;
        k *= 0xc4ceb9fe1a85ec53L;
        return k ^ k >>> 33;
    }
}
