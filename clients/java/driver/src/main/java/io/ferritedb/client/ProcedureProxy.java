package io.ferritedb.client;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Proxy;
import java.lang.reflect.Type;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

/** Makes interfaces of procedures. What a method returns is settled once, when the interface is bound. */
final class ProcedureProxy {
    private record Bound(String procedure, Function<CallResult, Object> result, boolean asynchronous) {}

    private static final Object[] NONE = {};

    private ProcedureProxy() {}

    static <T> T make(Client client, Class<T> type) {
        Map<Method, Bound> methods = new HashMap<>();
        for (Method method : type.getMethods()) {
            if (method.isDefault() || java.lang.reflect.Modifier.isStatic(method.getModifiers())) continue;
            methods.put(method, bind(method));
        }
        InvocationHandler handler = (proxy, method, arguments) -> {
            Bound bound = methods.get(method);
            if (bound == null) {
                if (method.isDefault()) return InvocationHandler.invokeDefault(proxy, method, arguments);
                return switch (method.getName()) {
                    case "equals" -> proxy == arguments[0];
                    case "hashCode" -> System.identityHashCode(proxy);
                    default -> type.getSimpleName() + " of " + client;
                };
            }
            CompletableFuture<CallResult> call = client.call(bound.procedure(), arguments == null ? NONE : arguments);
            return bound.asynchronous() ? call.thenApply(bound.result()) : bound.result().apply(Client.await(call));
        };
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
    }

    private static Bound bind(Method method) {
        Procedure named = method.getAnnotation(Procedure.class);
        String name = method.getName();
        String procedure = named != null ? named.value() : Character.toUpperCase(name.charAt(0)) + name.substring(1);
        Type wanted = method.getGenericReturnType();
        boolean asynchronous = false;
        if (wanted instanceof ParameterizedType generic && generic.getRawType() == CompletableFuture.class) {
            asynchronous = true;
            wanted = generic.getActualTypeArguments()[0];
        }
        return new Bound(procedure, result(wanted, method), asynchronous);
    }

    private static Function<CallResult, Object> result(Type wanted, Method method) {
        if (wanted == void.class || wanted == Void.class) return result -> null;
        if (wanted == CallResult.class) return result -> result;
        if (wanted == Table.class) return CallResult::table;
        if (wanted == long.class || wanted == Long.class) return CallResult::scalarLong;
        if (wanted == int.class || wanted == Integer.class) return result -> Math.toIntExact(result.scalarLong());
        if (wanted == String.class) return result -> (String) result.table().scalar();
        if (wanted instanceof Class<?> type && type.isRecord()) {
            Class<? extends Record> record = type.asSubclass(Record.class);
            return result -> {
                var rows = result.as(record);
                return rows.isEmpty() ? null : rows.get(0);
            };
        }
        if (wanted instanceof ParameterizedType generic && generic.getRawType() == List.class
                && generic.getActualTypeArguments()[0] instanceof Class<?> element && element.isRecord()) {
            Class<? extends Record> record = element.asSubclass(Record.class);
            return result -> result.as(record);
        }
        throw new IllegalArgumentException(method + " returns " + wanted.getTypeName() + "; see Procedure for what a method may return");
    }
}
