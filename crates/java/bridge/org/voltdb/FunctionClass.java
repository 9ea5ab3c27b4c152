package org.voltdb;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Arrays;

/**
 * A user-defined function: a method of a class, or a class that aggregates. A scalar function has
 * an object of its class for each thread; an aggregate a new one for each group.
 */
final class FunctionClass {
    final String name;
    private final Constructor<?> constructor;
    private final Decoder[] decoders;
    /** Takes the object and an array with the arguments: the method, or assemble. */
    private final MethodHandle method;
    /** Of aggregates. */
    private final MethodHandle start;
    private final MethodHandle end;
    private volatile Object[] objects = new Object[0];

    /** @param methodName empty: an aggregate. */
    FunctionClass(JarLoader loader, String className, String methodName) throws Exception {
        boolean aggregate = methodName.isEmpty();
        name = aggregate ? className : className + "." + methodName;
        Class<?> type = Class.forName(className, true, loader);
        try {
            constructor = type.getConstructor();
        } catch (NoSuchMethodException e) {
            throw new ProcedureClass.Unfit("class " + className + " has no public constructor without parameters");
        }
        if (!Modifier.isPublic(type.getModifiers()) || (type.getEnclosingClass() != null && !Modifier.isStatic(type.getModifiers()))) {
            throw new ProcedureClass.Unfit("class " + className + " must be public, and static where it is nested");
        }
        Method found = find(type, aggregate ? "assemble" : methodName);
        Class<?>[] parameters = found.getParameterTypes();
        decoders = new Decoder[parameters.length];
        for (int i = 0; i < parameters.length; i++) {
            decoders[i] = Decoder.of(parameters[i]);
            if (decoders[i] == null || decoders[i].array || decoders[i].type == VoltType.VOLTTABLE) {
                throw new ProcedureClass.Unfit("parameter " + i + " of " + name + " is of type " + parameters[i].getTypeName()
                        + ", which has no corresponding SQL type");
            }
        }
        method = spread(found);
        start = aggregate ? spread(find(type, "start")) : null;
        end = aggregate ? spread(find(type, "end")) : null;
        try {
            constructor.newInstance();
        } catch (java.lang.reflect.InvocationTargetException e) {
            throw new ProcedureClass.Unfit("the constructor of class " + className + " failed: " + Failure.words(e.getCause(), name));
        }
    }

    @Override
    public String toString() {
        return "function " + name;
    }

    private static Method find(Class<?> type, String wanted) throws ProcedureClass.Unfit {
        for (Class<?> at = type; at != null; at = at.getSuperclass()) {
            for (Method method : at.getDeclaredMethods()) {
                boolean usable = method.getName().equals(wanted) && Modifier.isPublic(method.getModifiers())
                        && !Modifier.isStatic(method.getModifiers()) && !method.isBridge() && !method.isSynthetic();
                if (usable) {
                    method.setAccessible(true);
                    return method;
                }
            }
        }
        throw new ProcedureClass.Unfit("class " + type.getName() + " has no public method " + wanted);
    }

    private static MethodHandle spread(Method method) throws IllegalAccessException {
        MethodHandle handle = MethodHandles.lookup().unreflect(method).asFixedArity();
        handle = handle.asType(handle.type().changeParameterType(0, Object.class).changeReturnType(Object.class));
        return handle.asSpreader(Object[].class, method.getParameterCount())
                .asType(MethodType.methodType(Object.class, Object.class, Object[].class));
    }

    private Object object(int slot) throws Exception {
        Object[] known = objects;
        return slot < known.length && known[slot] != null ? known[slot] : newObject(slot);
    }

    private synchronized Object newObject(int slot) throws Exception {
        Object object = constructor.newInstance();
        Object[] grown = Arrays.copyOf(objects, Math.max(objects.length, slot + 1));
        grown[slot] = object;
        objects = grown;
        return object;
    }

    private Object[] arguments(Decoder.Input input) {
        Object[] values = new Object[decoders.length];
        for (int i = 0; i < values.length; i++) {
            values[i] = decoders[i].read(input);
        }
        return values;
    }

    private static Decoder.Input input(Exchange exchange, long sent) {
        Decoder.Input input = new Decoder.Input();
        input.bytes = exchange.receive(sent);
        return input;
    }

    int call(Exchange exchange, long sent) throws Throwable {
        Object[] arguments = arguments(input(exchange, sent));
        return answer(exchange, (Object) method.invokeExact(object(exchange.slot), arguments));
    }

    int aggregate(Exchange exchange, long sent, int rows) throws Throwable {
        Decoder.Input input = input(exchange, sent);
        Object object = constructor.newInstance();
        Object[] none = {};
        Object ignored = (Object) start.invokeExact(object, none);
        for (int row = 0; row < rows; row++) {
            Object[] arguments = arguments(input);
            ignored = (Object) method.invokeExact(object, arguments);
        }
        return answer(exchange, (Object) end.invokeExact(object, none));
    }

    private static int answer(Exchange exchange, Object value) {
        Bytes out = exchange.value;
        out.length = 0;
        out.putParameter(VoltType.isVoltNullValue(value) ? null : value);
        exchange.send(out);
        int length = out.length;
        if (out.array.length > 1 << 20) {
            out.array = new byte[512];
        }
        return length;
    }
}
