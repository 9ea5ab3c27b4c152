package org.voltdb;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletionStage;
import org.voltdb.client.ClientResponse;

/**
 * A class that is a procedure: looked into once, when it is loaded. Shared by all threads, each of
 * which has a {@link Runner}.
 */
final class ProcedureClass {
    final String name;
    final Decoder[] decoders;
    /** Takes the object and an array with the parameters; answers what run returns. */
    private final MethodHandle run;
    private final Constructor<?> constructor;
    private final List<Field> fields = new ArrayList<>();
    private final List<String> texts = new ArrayList<>();
    private final String partitionInfo;
    private final Kind kind;
    final boolean returnsFuture;
    private volatile Runner[] runners = new Runner[0];

    /** What it extends, and what the server calls that. */
    private enum Kind {
        TRANSACTION(VoltProcedure.class, "transaction"),
        COMPOUND(VoltCompoundProcedure.class, "compound"),
        FUTURES(VoltNonTransactionalProcedure.class, "futures");

        final Class<?> base;
        final String word;

        Kind(Class<?> base, String word) {
            this.base = base;
            this.word = word;
        }
    }

    /** Why a class is no procedure. */
    static final class Unfit extends Exception {
        private static final long serialVersionUID = 1L;

        Unfit(String message) {
            super(message, null, false, false);
        }
    }

    static ProcedureClass of(JarLoader loader, String className) throws Exception {
        Class<?> type = Class.forName(className, true, loader);
        return new ProcedureClass(type, className);
    }

    private ProcedureClass(Class<?> type, String className) throws Exception {
        name = className;
        kind = VoltCompoundProcedure.class.isAssignableFrom(type) ? Kind.COMPOUND
                : VoltNonTransactionalProcedure.class.isAssignableFrom(type) ? Kind.FUTURES : Kind.TRANSACTION;
        Class<?> base = kind.base;
        if (!base.isAssignableFrom(type)) {
            throw new Unfit("class " + className + " does not extend org.voltdb.VoltProcedure");
        }
        if (Modifier.isAbstract(type.getModifiers())) {
            throw new Unfit("class " + className + " is abstract");
        }
        if (type.getEnclosingClass() != null && !Modifier.isStatic(type.getModifiers())) {
            throw new Unfit("class " + className + " is an inner class; a nested one must be static");
        }
        try {
            constructor = type.getDeclaredConstructor();
        } catch (NoSuchMethodException e) {
            throw new Unfit("class " + className + " has no constructor without parameters");
        }
        if (!Modifier.isPublic(type.getModifiers()) || !Modifier.isPublic(constructor.getModifiers())) {
            throw new Unfit("class " + className + " and its constructor without parameters must be public");
        }
        Method method = runMethod(type, base);
        Class<?> returned = method.getReturnType();
        returnsFuture = kind == Kind.FUTURES && CompletionStage.class.isAssignableFrom(returned);
        if (!returnsFuture && !isResult(returned)) {
            throw new Unfit("method run of class " + className + " returns " + returned.getSimpleName()
                    + "; it must return long, VoltTable or VoltTable[]"
                    + (kind == Kind.FUTURES ? ", or a CompletableFuture of one of these or of ClientResponse" : ""));
        }
        Type promised = returnsFuture && method.getGenericReturnType() instanceof ParameterizedType
                ? ((ParameterizedType) method.getGenericReturnType()).getActualTypeArguments()[0] : null;
        if (promised instanceof Class && promised != Void.class && promised != Object.class && promised != ClientResponse.class
                && !isResult((Class<?>) promised)) {
            throw new Unfit("method run of class " + className + " returns a future of " + ((Class<?>) promised).getSimpleName()
                    + "; it must be one of ClientResponse, Long, VoltTable or VoltTable[]");
        }
        Class<?>[] parameters = method.getParameterTypes();
        decoders = new Decoder[parameters.length];
        for (int i = 0; i < parameters.length; i++) {
            decoders[i] = Decoder.of(parameters[i]);
            if (decoders[i] == null) {
                throw new Unfit("parameter " + i + " of method run of class " + className + " is of type "
                        + parameters[i].getTypeName() + ", which a procedure cannot have");
            }
        }
        MethodHandle handle = MethodHandles.lookup().unreflect(method);
        handle = handle.asFixedArity().asType(handle.type().changeParameterType(0, Object.class).changeReturnType(Object.class));
        run = handle.asSpreader(Object[].class, parameters.length)
                .asType(MethodType.methodType(Object.class, Object.class, Object[].class));
        collect(type, base);
        boolean outside = kind != Kind.TRANSACTION;
        if (outside && !fields.isEmpty()) {
            throw new Unfit("field " + fields.get(0).getName() + " of class " + className
                    + " is a statement: a procedure outside of transactions calls procedures, and has no statements of its own");
        }
        ProcInfo info = type.getAnnotation(ProcInfo.class);
        partitionInfo = info == null ? "" : info.partitionInfo().trim();
        if (info != null && info.singlePartition() && partitionInfo.isEmpty()) {
            throw new Unfit("annotation ProcInfo of class " + className + " says singlePartition, but has no partitionInfo");
        }
        if (outside && !partitionInfo.isEmpty()) {
            throw new Unfit("annotation ProcInfo of class " + className
                    + " says partitionInfo, but a procedure outside of transactions runs on no partition");
        }
        number(newObject(), true);
    }

    /** The values that stand in a call's bytes. */
    Object[] parameters(Decoder.Input input) {
        Object[] values = new Object[decoders.length];
        for (int i = 0; i < values.length; i++) {
            values[i] = decoders[i].read(input);
        }
        return values;
    }

    private static boolean isResult(Class<?> type) {
        return type == long.class || type == int.class || type == short.class || type == byte.class || isNumber(type)
                || type == VoltTable.class || type == VoltTable[].class;
    }

    static boolean isNumber(Class<?> type) {
        return type == Long.class || type == Integer.class || type == Short.class || type == Byte.class;
    }

    /**
     * Calls run on an object of a procedure that is no transaction, which needs no {@link Runner}.
     */
    Object call(Object object, Object[] values) throws Throwable {
        return (Object) run.invokeExact(object, values);
    }

    StagedCall begin(Exchange exchange, long parameters, int callsMax, long waker) throws Throwable {
        Decoder.Input input = new Decoder.Input();
        input.bytes = exchange.receive(parameters);
        if (kind == Kind.FUTURES) {
            return new FutureCall(this, (VoltNonTransactionalProcedure) newObject(), parameters(input), callsMax, waker);
        }
        CompoundCall call = new CompoundCall(this, (VoltCompoundProcedure) newObject(), callsMax);
        call.begin(parameters(input));
        return call;
    }

    @Override
    public String toString() {
        return "procedure " + name;
    }

    private static Method runMethod(Class<?> type, Class<?> base) throws Unfit {
        List<Method> found = new ArrayList<>();
        for (Class<?> at = type; at != base && found.isEmpty(); at = at.getSuperclass()) {
            for (Method method : at.getDeclaredMethods()) {
                boolean ours = method.getName().equals("run") && Modifier.isPublic(method.getModifiers())
                        && !Modifier.isStatic(method.getModifiers()) && !method.isBridge();
                if (ours) {
                    found.add(method);
                }
            }
        }
        if (found.size() != 1) {
            throw new Unfit("class " + type.getName() + " has " + (found.isEmpty() ? "no" : "more than one")
                    + " public method run");
        }
        found.get(0).setAccessible(true);
        return found.get(0);
    }

    /** The fields with statements: those of the base classes first. */
    private void collect(Class<?> type, Class<?> base) {
        if (type == base) {
            return;
        }
        collect(type.getSuperclass(), base);
        for (Field field : type.getDeclaredFields()) {
            if (SQLStmt.class.isAssignableFrom(field.getType())) {
                field.setAccessible(true);
                fields.add(field);
            }
        }
    }

    private Object newObject() throws Exception {
        try {
            return constructor.newInstance();
        } catch (InvocationTargetException e) {
            throw new Unfit("the constructor of class " + name + " failed: " + Failure.words(e.getCause(), name));
        }
    }

    /**
     * Tells an object's statements their numbers. The texts are taken once; static fields and later
     * objects have the same.
     */
    private void number(Object object, boolean first) throws Exception {
        for (int i = 0; i < fields.size(); i++) {
            SQLStmt statement = (SQLStmt) fields.get(i).get(object);
            if (statement == null) {
                if (first) {
                    throw new Unfit("field " + fields.get(i).getName() + " of class " + name + " is null after construction");
                }
                continue;
            }
            if (first) {
                texts.add(statement.getText());
            }
            statement.number = i;
        }
    }

    /**
     * What kind it is, the parameters' types, the statements' fields and texts, the partitioning.
     */
    String[] description() {
        List<String> lines = new ArrayList<>();
        lines.add(kind.word);
        lines.add(Integer.toString(decoders.length));
        for (Decoder decoder : decoders) {
            lines.add((decoder.array ? "[" : "") + decoder.type.getValue());
        }
        lines.add(partitionInfo);
        for (int i = 0; i < texts.size(); i++) {
            lines.add(fields.get(i).getName());
            lines.add(texts.get(i));
        }
        return lines.toArray(new String[0]);
    }

    Runner runner(Exchange exchange) throws Exception {
        Runner[] known = runners;
        if (exchange.slot < known.length && known[exchange.slot] != null) {
            return known[exchange.slot];
        }
        return newRunner(exchange);
    }

    private synchronized Runner newRunner(Exchange exchange) throws Exception {
        VoltProcedure object = (VoltProcedure) newObject();
        number(object, false);
        Runner runner = new Runner(this, object, run, exchange);
        Runner[] grown = Arrays.copyOf(runners, Math.max(runners.length, exchange.slot + 1));
        grown[exchange.slot] = runner;
        runners = grown;
        return runner;
    }
}
