package org.voltdb;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** A class that is a procedure: looked into once, when it is loaded. Shared by all threads, each of which has a {@link Runner}. */
final class ProcedureClass {
    final String name;
    final Decoder[] decoders;
    /** Takes the object and an array with the parameters; answers what run returns. */
    private final MethodHandle run;
    private final Constructor<?> constructor;
    private final List<Field> fields = new ArrayList<>();
    private final List<String> texts = new ArrayList<>();
    private final String partitionInfo;
    /** It runs outside of transactions, in stages. */
    final boolean compound;
    private volatile Runner[] runners = new Runner[0];

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
        compound = VoltCompoundProcedure.class.isAssignableFrom(type);
        Class<?> base = compound ? VoltCompoundProcedure.class : VoltProcedure.class;
        if (!base.isAssignableFrom(type)) {
            if (VoltNonTransactionalProcedure.class.isAssignableFrom(type)) {
                throw new Unfit("class " + className + " extends org.voltdb.VoltNonTransactionalProcedure, which is not supported; "
                        + "org.voltdb.VoltCompoundProcedure is");
            }
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
        boolean number = returned == long.class || returned == Long.class || returned == int.class
                || returned == Integer.class || returned == short.class || returned == Short.class || returned == byte.class
                || returned == Byte.class;
        if (!number && returned != VoltTable.class && returned != VoltTable[].class) {
            throw new Unfit("method run of class " + className + " returns " + returned.getSimpleName()
                    + "; it must return long, VoltTable or VoltTable[]");
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
        if (compound && !fields.isEmpty()) {
            throw new Unfit("field " + fields.get(0).getName() + " of class " + className
                    + " is a statement: a compound procedure calls procedures, and has no statements of its own");
        }
        ProcInfo info = type.getAnnotation(ProcInfo.class);
        partitionInfo = info == null ? "" : info.partitionInfo().trim();
        if (info != null && info.singlePartition() && partitionInfo.isEmpty()) {
            throw new Unfit("annotation ProcInfo of class " + className + " says singlePartition, but has no partitionInfo");
        }
        if (compound && !partitionInfo.isEmpty()) {
            throw new Unfit("annotation ProcInfo of class " + className
                    + " says partitionInfo, but a compound procedure runs on no partition");
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

    /** Calls run on an object of a compound procedure, which needs no {@link Runner}; what it returns says nothing. */
    void run(Object object, Object[] values) throws Throwable {
        Object ignored = (Object) run.invokeExact(object, values);
    }

    CompoundCall begin(Exchange exchange, long parameters, int callsMax) throws Throwable {
        Decoder.Input input = new Decoder.Input();
        input.bytes = exchange.receive(parameters);
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

    /** Tells an object's statements their numbers. The texts are taken once; static fields and later objects have the same. */
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

    /** What kind it is, the parameters' types, the statements' fields and texts, the partitioning. */
    String[] description() {
        List<String> lines = new ArrayList<>();
        lines.add(compound ? "compound" : "transaction");
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
