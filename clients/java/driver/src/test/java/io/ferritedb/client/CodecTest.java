package io.ferritedb.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDate;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Bytes as real clients send and accept them. */
class CodecTest {
    private static final HexFormat HEX = HexFormat.of();

    private static String parameters(Object... values) {
        Encoder encoder = new Encoder(16);
        encoder.call(new byte[] {'P'}, 1, values, -1);
        return HEX.formatHex(encoder.array(), 4 + 1 + 5 + 8, encoder.length());
    }

    @Test
    void aRefusedLoginMaySayWhy() {
        assertEquals(new Decoder.Login(4, null, 0, 0, 0, 0, ""), Decoder.login(HEX.parseHex("0004")));
        byte[] waits = HEX.parseHex("0004" + "0000000f" + HEX.formatHex("this node waits".getBytes()));
        assertEquals(new Decoder.Login(4, "this node waits", 0, 0, 0, 0, ""), Decoder.login(waits));
        // Of another server, something else.
        for (String other : List.of("0004" + "ffff00", "0004" + "00000100" + "41", "0004" + "ffffffff")) {
            assertEquals(new Decoder.Login(4, null, 0, 0, 0, 0, ""), Decoder.login(HEX.parseHex(other)), other);
        }
    }

    @Test
    void parametersAsOtherClientsSendThem() {
        assertEquals("00010305", parameters((byte) 5));
        assertEquals("000104fffa", parameters((short) -6));
        assertEquals("00010500000007", parameters(7));
        assertEquals("000106fffffffffffffff8", parameters(-8L));
        assertEquals("0001083ff8000000000000", parameters(1.5));
        assertEquals("0001090000000368c3a9", parameters("hé"));
        assertEquals("00010b0005543df72ba240", parameters(Instant.ofEpochSecond(1500000000, 123456000)));
        assertEquals("00011600000000000000000000704857068000", parameters(new BigDecimal("123.456")));
        assertEquals("000116fffffffffffffffffffffea2c1086800", parameters(new BigDecimal("-1.5")));
        assertEquals("00011600000000000000000000000000000000", parameters(new BigDecimal("0E-999999999")));
        assertEquals("000119000000030102ff", parameters(new byte[] {1, 2, -1}));
        assertEquals("000101", parameters((Object) null));
        assertEquals("0000", parameters());
        assertEquals("00011ac051d000000000004045400000000000", parameters(new Point(-71.25, 42.5)));
        assertEquals("00010c07e8021d", parameters(LocalDate.of(2024, 2, 29)));
        assertEquals("00019d05000200000001fffffffe", parameters(new int[] {1, -2}));
        assertEquals("00019d0600020000000000000001fffffffffffffffe", parameters(new long[] {1, -2}));
        assertEquals("00019d0900030000000161ffffffff000000026263", parameters((Object) new String[] {"a", null, "bc"}));
        assertEquals("00019d03000000030102fd", parameters(List.of((byte) 1, (byte) 2, (byte) -3)));
        assertEquals("00040600000000000000010900000003616263010500000002", parameters(1L, "abc", null, 2));
    }

    @Test
    void whatCannotBeSentLeavesNoTrace() {
        Encoder encoder = new Encoder(16);
        for (Object wrong : new Object[] {new Object(), Long.MIN_VALUE, Integer.MIN_VALUE, new BigDecimal("1e27"), new BigDecimal("1e999999999"),
            new BigDecimal("0.1234567890123"), new BigDecimal("1e-999999999"), Double.NaN,
            Arrays.asList(1, "a"), new char[0]}) {
            assertThrows(IllegalArgumentException.class, () -> encoder.call(new byte[] {'P'}, 1, new Object[] {1, wrong}, -1), String.valueOf(wrong));
            assertEquals(0, encoder.length());
        }
    }

    private static final String ALL_TYPES = "00000000000000000100018000000000000100000106000000448000090304050608090b16190000000254310000000253320000000249340000000242380000000246380000000353545200000002545300000003444543000000025642000000030000004001000200000003000000000000000440160000000000000000000668c3a96c6c6f0005543df72ba24000000000000000000000011f71fb04cb000000030102ff0000003781800180000001800000000000000181b01297d23ab68300000000ffffffffffffffffffffffffffffffffffffffffffffffff0000000000000037808000800000008000000000000000ffee42d130773b76ffffffff800000000000000080000000000000000000000000000000ffffffff";

    @Test
    void answersAsTheyCome() {
        byte[] body = HEX.parseHex(ALL_TYPES);
        Decoder.Response response = Decoder.response(body, 0, body.length);
        assertEquals(Status.SUCCESS, response.status());
        Table table = response.tables().get(0);
        assertEquals(3, table.rowCount());
        List<List<Object>> rows = new java.util.ArrayList<>();
        for (Row row : table) rows.add(row.toList());
        assertEquals(List.of((byte) 1, (short) 2, 3, 4L, 5.5, "héllo", Instant.ofEpochSecond(1500000000, 123456000), new BigDecimal("1.234567890123")), rows.get(0).subList(0, 8));
        assertArrayEquals(new byte[] {1, 2, -1}, (byte[]) rows.get(0).get(8));
        assertEquals(new BigDecimal("-0.000000000001"), rows.get(1).get(7));
        assertTrue(rows.get(2).stream().allMatch(java.util.Objects::isNull));
        // Cells may be asked for in any order.
        Row first = table.iterator().next();
        assertEquals("héllo", first.getString("str"));
        assertEquals(4, first.getLong("B8"));
        assertThrows(java.util.NoSuchElementException.class, () -> first.get("nothing"));
    }

    @Test
    void noPrefixOfAnAnswerIsTakenForOne() {
        byte[] body = HEX.parseHex(ALL_TYPES);
        for (int end = 0; end < body.length; end++) {
            byte[] cut = Arrays.copyOf(body, end);
            assertThrows(ProtocolException.class, () -> {
                for (Table table : Decoder.response(cut, 0, cut.length).tables()) {
                    for (Row row : table) row.toList();
                }
            }, "cut at " + end);
        }
    }
}
