package io.ferritedb.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.junit.jupiter.api.Test;

/** Tokens that real clients compute. */
class RingTest {
    @Test
    void tokensOfIntegers() {
        assertEquals(685728695, Ring.token(0));
        assertEquals(4457399, Ring.token(1));
        assertEquals(-1595624838, Ring.token(-1));
        assertEquals(-1381700295, Ring.token(5551234567L));
        assertEquals(1819732939, Ring.token(Long.MAX_VALUE));
    }

    @Test
    void tokensOfBytes() {
        assertEquals(0, Ring.token(new byte[0]));
        assertEquals(-2058005147, text("a"));
        assertEquals(88588495, text("abcdefghi"));
        assertEquals(1969517695, text("abcdefghijklmnopq"));
        assertEquals(1311865617, text("héllo"));
        assertEquals(442777327, Ring.token(new byte[] {1, 2, 3}));
        byte[] one = ByteBuffer.allocate(8).order(java.nio.ByteOrder.LITTLE_ENDIAN).putLong(42).array();
        assertEquals(Ring.token(42), Ring.token(one));
    }

    private static int text(String text) {
        return Ring.token(text.getBytes(StandardCharsets.UTF_8));
    }

    @Test
    void owners() {
        Ring ring = Ring.parse(HexFormat.of().parseHex("0000000880000000000000029fffffff00000001bffffffe00000001dffffffd00000001fffffffc000000021ffffffb000000003ffffffa000000005ffffff900000000"));
        assertEquals(2, ring.owner(Integer.MIN_VALUE));
        assertEquals(1, ring.owner(-1610612737));
        assertEquals(2, ring.owner(-4));
        assertEquals(2, ring.owner(0));
        assertEquals(0, ring.owner(Integer.MAX_VALUE));
        assertEquals(0, ring.owner(null, true));
        // A wrong guess is passed on by the server, and so is harmless; for what a key is meant to
        // be there is none.
        for (int key = -128; key < 128; key++) {
            int owner = ring.owner(Ring.token(key));
            for (Object same : new Object[] {(byte) key, (short) key, key, (long) key, BigInteger.valueOf(key), new BigDecimal(key + ".0"), (double) key, " " + key + " "}) {
                assertEquals(owner, ring.owner(same, true), same.getClass() + " " + same);
            }
            assertEquals(ring.owner(text("" + key)), ring.owner("" + key, false));
            byte[] bytes = {(byte) key, 1, 2};
            assertEquals(ring.owner(Ring.token(bytes)), ring.owner(bytes, false));
        }
        assertEquals(ring.owner(Ring.token(1)), ring.owner(true, true));
        assertNull(Ring.parse(new byte[] {0, 0, 0, 1}));
    }
}
