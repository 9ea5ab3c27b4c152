package ferrite.classic;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.FieldVisitor;
import org.objectweb.asm.Handle;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/**
 * The client's jar and the procedure API have classes of the same names, and an application whose
 * procedures and client are one module has both on its class path. Where the API comes first, the
 * client runs with the API's classes: all that it uses of them must be there.
 */
class ProcedureApiTest {
    /** What only methods need that no client calls. */
    private static final Set<String> UNUSED = Set.of(
            // ParameterSet.fromJSONString
            "org/voltdb/VoltTable fromJSONObject(Lorg/json_voltpatches/JSONObject;)Lorg/voltdb/VoltTable;",
            // PrivateVoltTableFactory: the server's ways to make tables.
            "org/voltdb/VoltTable initFromByteArray([BII)V",
            "org/voltdb/VoltTable m_buffer Ljava/nio/ByteBuffer;");

    /** A class as its file tells it: members by name and descriptor, with their access. */
    private static final class Declared {
        String name;
        final List<String> above = new ArrayList<>();
        final Map<String, Integer> members = new HashMap<>();

        Declared(byte[] bytes) {
            new ClassReader(bytes).accept(new ClassVisitor(Opcodes.ASM9) {
                @Override
                public void visit(int version, int access, String called, String signature, String superclass, String[] interfaces) {
                    name = called;
                    if (superclass != null) {
                        above.add(superclass);
                    }
                    above.addAll(List.of(interfaces));
                }

                @Override
                public MethodVisitor visitMethod(int access, String method, String descriptor, String signature, String[] exceptions) {
                    members.put(method + descriptor, access);
                    return null;
                }

                @Override
                public FieldVisitor visitField(int access, String field, String descriptor, String signature, Object value) {
                    members.put(field + " " + descriptor, access);
                    return null;
                }
            }, ClassReader.SKIP_CODE);
        }
    }

    private final Map<String, Declared> api = new HashMap<>();

    private static Path location(String type) throws Exception {
        return Path.of(Class.forName(type, false, ProcedureApiTest.class.getClassLoader()).getProtectionDomain().getCodeSource()
                .getLocation().toURI());
    }

    /** The access of a member of a class or of what stands above it; null: there is none. */
    private Integer find(String type, String member) {
        Declared declared = api.get(type);
        if (declared == null) {
            if (!type.startsWith("java/")) {
                return null;
            }
            try (InputStream bytes = ClassLoader.getSystemResourceAsStream(type + ".class")) {
                declared = new Declared(bytes.readAllBytes());
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
        Integer access = declared.members.get(member);
        for (String above : declared.above) {
            access = access == null && !member.startsWith("<init>") ? find(above, member) : access;
        }
        return access;
    }

    /** Why a member cannot be used by a class; null: it can. */
    private String unusable(String by, String type, String member, boolean isStatic) {
        Integer access = find(type, member);
        if (access == null) {
            return "is missing";
        }
        if (isStatic != ((access & Opcodes.ACC_STATIC) != 0)) {
            return isStatic ? "is not static" : "is static";
        }
        boolean visible = (access & (Opcodes.ACC_PUBLIC | Opcodes.ACC_PROTECTED)) != 0
                || ((access & Opcodes.ACC_PRIVATE) == 0 && packageOf(by).equals(packageOf(type)));
        return visible ? null : "is not visible";
    }

    private static String packageOf(String type) {
        return type.substring(0, type.lastIndexOf('/') + 1);
    }

    /** A class that comes with one of the API's, which is not used where the API's is. */
    private boolean isPartOf(String type) {
        int nested = type.indexOf('$');
        return api.containsKey(nested < 0 ? type : type.substring(0, nested)) || type.startsWith("org/voltcore/logging/");
    }

    @Test
    void whatTheClientUsesOfTheApiIsThere() throws Exception {
        try (Stream<Path> files = Files.walk(location("org.voltdb.SQLStmt"))) {
            for (Path file : (Iterable<Path>) files.filter(path -> path.toString().endsWith(".class"))::iterator) {
                Declared declared = new Declared(Files.readAllBytes(file));
                api.put(declared.name, declared);
            }
        }
        assertTrue(api.containsKey("org/voltdb/VoltTable"), "the API's classes were found");
        Map<String, String> problems = new TreeMap<>();
        int looked = 0;
        try (JarFile jar = new JarFile(location("org.voltdb.client.Client").toFile())) {
            for (JarEntry entry : Collections.list(jar.entries())) {
                if (!entry.getName().endsWith(".class") || entry.getName().startsWith("META-INF/")) {
                    continue;
                }
                ClassReader reader = new ClassReader(jar.getInputStream(entry).readAllBytes());
                if (!isPartOf(reader.getClassName())) {
                    reader.accept(references(reader.getClassName(), problems), ClassReader.SKIP_DEBUG);
                    looked++;
                }
            }
        }
        assertTrue(looked > 100, "classes of the client: " + looked);
        problems.keySet().removeAll(UNUSED);
        assertEquals(Map.of(), problems);
    }

    private ClassVisitor references(String by, Map<String, String> problems) {
        return new ClassVisitor(Opcodes.ASM9) {
            private void see(String type, String member, boolean isStatic) {
                String problem = ProcedureApiTest.this.api.containsKey(type) ? unusable(by, type, member, isStatic) : null;
                if (problem != null) {
                    problems.merge(type + " " + member, problem + ": " + by, (one, other) -> one + ", " + by);
                }
            }

            @Override
            public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] exceptions) {
                return new MethodVisitor(Opcodes.ASM9) {
                    @Override
                    public void visitMethodInsn(int opcode, String owner, String method, String descriptor, boolean isInterface) {
                        see(owner, method + descriptor, opcode == Opcodes.INVOKESTATIC);
                    }

                    @Override
                    public void visitFieldInsn(int opcode, String owner, String field, String descriptor) {
                        see(owner, field + " " + descriptor, opcode == Opcodes.GETSTATIC || opcode == Opcodes.PUTSTATIC);
                    }

                    @Override
                    public void visitInvokeDynamicInsn(String method, String descriptor, Handle bootstrap, Object... values) {
                        for (Object value : values) {
                            if (value instanceof Handle && ((Handle) value).getTag() >= Opcodes.H_INVOKEVIRTUAL) {
                                Handle handle = (Handle) value;
                                see(handle.getOwner(), handle.getName() + handle.getDesc(), handle.getTag() == Opcodes.H_INVOKESTATIC);
                            }
                        }
                    }
                };
            }
        };
    }
}
