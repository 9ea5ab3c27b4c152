package io.ferritedb.examples.kv;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.zip.GZIPInputStream;
import java.util.zip.GZIPOutputStream;

/** Keys and values: what they look like, and whether one that came back is such a value. */
final class Values {
    private final int keySize;
    private final int smallest;
    private final int largest;
    private final boolean compressed;
    /**
     * Random bytes that values are cut from: making them anew for each call would cost more than
     * the call.
     */
    private final byte[] material;
    private final int entropy;

    Values(int keySize, int smallest, int largest, int entropy, boolean compressed) {
        this.keySize = keySize;
        this.smallest = smallest;
        this.largest = largest;
        this.entropy = entropy;
        this.compressed = compressed;
        material = new byte[4 * 1_048_576];
        for (int at = 0; at < material.length; at++) material[at] = (byte) ThreadLocalRandom.current().nextInt(entropy);
    }

    /** K and the number, right-aligned with blanks. */
    String key(long number) {
        String digits = Long.toString(number);
        return "K" + " ".repeat(keySize - 1 - digits.length()) + digits;
    }

    byte[] value() {
        var random = ThreadLocalRandom.current();
        int length = random.nextInt(smallest, largest + 1);
        int start = random.nextInt(material.length - length + 1);
        byte[] plain = java.util.Arrays.copyOfRange(material, start, start + length);
        if (!compressed) return plain;
        var out = new ByteArrayOutputStream(length + 32);
        try (var zip = new GZIPOutputStream(out)) {
            zip.write(plain);
        } catch (IOException impossible) {
            throw new UncheckedIOException(impossible);
        }
        return out.toByteArray();
    }

    /**
     * Bytes of the value as it was before it was compressed. Throws if this is no value of this
     * run.
     */
    int plainLength(byte[] stored) {
        byte[] plain = stored;
        if (compressed) {
            try (var zip = new GZIPInputStream(new ByteArrayInputStream(stored))) {
                plain = zip.readAllBytes();
            } catch (IOException damaged) {
                throw new IllegalStateException("a value that is not compressed: " + damaged.getMessage());
            }
        }
        if (plain.length < smallest || plain.length > largest) throw new IllegalStateException("a value of " + plain.length + " bytes");
        if (plain.length > 0 && (plain[0] & 0xff) >= entropy) throw new IllegalStateException("a value with byte " + (plain[0] & 0xff));
        return plain.length;
    }
}
