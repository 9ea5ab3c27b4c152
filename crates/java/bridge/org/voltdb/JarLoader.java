package org.voltdb;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.net.URLConnection;
import java.net.URLStreamHandler;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.Enumeration;
import java.util.HashMap;
import java.util.Map;
import java.util.zip.CRC32;
import java.util.zip.DataFormatException;
import java.util.zip.Inflater;

/**
 * The classes and resources of one catalog version, which stay packed until they are asked for.
 * When no procedure uses them any more, they go with it.
 */
final class JarLoader extends ClassLoader {
    private static final int LOCAL_HEADER = 0x04034b50;
    private static final int HEADER_BYTES = 30;
    private static final int STORED = 0;

    /** As the server writes it: each file's sizes stand in the header in front of it. */
    private final ByteBuffer jar;
    /** Where the headers of the files are. */
    private final Map<String, Integer> files = new HashMap<>();

    static {
        registerAsParallelCapable();
    }

    JarLoader(byte[] bytes) {
        super("procedures", Bridge.class.getClassLoader());
        jar = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        for (int at = 0; at + HEADER_BYTES <= bytes.length && jar.getInt(at) == LOCAL_HEADER;) {
            int nameLength = Short.toUnsignedInt(jar.getShort(at + 26));
            files.put(new String(bytes, at + HEADER_BYTES, nameLength, StandardCharsets.UTF_8), at);
            at += HEADER_BYTES + nameLength + jar.getInt(at + 18);
        }
    }

    /** A file, unpacked; null: there is none of that name. */
    private byte[] unpack(String name) {
        Integer at = files.get(name);
        if (at == null) {
            return null;
        }
        int method = jar.getShort(at + 8);
        int packed = jar.getInt(at + 18);
        int data = at + HEADER_BYTES + Short.toUnsignedInt(jar.getShort(at + 26));
        byte[] bytes = new byte[jar.getInt(at + 22)];
        if (method == STORED) {
            jar.get(data, bytes);
        } else {
            Inflater inflater = new Inflater(true);
            try {
                inflater.setInput(jar.array(), data, packed);
                int length = 0;
                while (length < bytes.length) {
                    int more = inflater.inflate(bytes, length, bytes.length - length);
                    if (more == 0) {
                        throw new IllegalStateException("file " + name + " of the loaded classes is damaged");
                    }
                    length += more;
                }
            } catch (DataFormatException e) {
                throw new IllegalStateException("file " + name + " of the loaded classes is damaged", e);
            } finally {
                inflater.end();
            }
        }
        CRC32 sum = new CRC32();
        sum.update(bytes);
        if ((int) sum.getValue() != jar.getInt(at + 14)) {
            throw new IllegalStateException("file " + name + " of the loaded classes is damaged: its checksum is wrong");
        }
        return bytes;
    }

    @Override
    protected Class<?> findClass(String name) throws ClassNotFoundException {
        byte[] bytes = unpack(name.replace('.', '/') + ".class");
        if (bytes == null) {
            throw new ClassNotFoundException(name);
        }
        return defineClass(name, bytes, 0, bytes.length);
    }

    @Override
    public InputStream getResourceAsStream(String name) {
        byte[] bytes = unpack(name);
        return bytes == null ? super.getResourceAsStream(name) : new ByteArrayInputStream(bytes);
    }

    @Override
    protected URL findResource(String name) {
        if (!files.containsKey(name)) {
            return null;
        }
        try {
            return new URL("procedures", null, -1, "/" + name, new Memory(name));
        } catch (IOException e) {
            return null;
        }
    }

    @Override
    protected Enumeration<URL> findResources(String name) {
        URL url = findResource(name);
        return url == null ? Collections.emptyEnumeration() : Collections.enumeration(Collections.singleton(url));
    }

    private final class Memory extends URLStreamHandler {
        private final String name;

        Memory(String name) {
            this.name = name;
        }

        @Override
        protected URLConnection openConnection(URL url) {
            return new URLConnection(url) {
                @Override
                public void connect() {
                }

                @Override
                public InputStream getInputStream() {
                    return new ByteArrayInputStream(unpack(name));
                }

                @Override
                public int getContentLength() {
                    return jar.getInt(files.get(name) + 22);
                }
            };
        }
    }
}
