package io.ferritedb.client;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Proxy;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

/**
 * Makes interfaces of procedures. What a method returns is settled once, when the interface is
 * bound.
 */
final class ProcedureProxy {
    private record Bound(String procedure, Function<CallResult, Object> result, boolean asynchronous) {}

    private static final Object[] NONE = {};

    private ProcedureProxy() {}

    static <T> T make(Client client, Class<T> type, RowMapping mapping) {
        Map<Method, Bound> methods = new HashMap<>();
        for (Method method : type.getMethods()) {
            if (method.isDefault() || java.lang.reflect.Modifier.isStatic(method.getModifiers())) continue;
            methods.put(method, bind(method, mapping));
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

    private static Bound bind(Method method, RowMapping mapping) {
        Procedure named = method.getAnnotation(Procedure.class);
        String name = method.getName();
        String procedure = named != null ? named.value() : Character.toUpperCase(name.charAt(0)) + name.substring(1);
        Type wanted = method.getGenericReturnType();
        boolean asynchronous = false;
        if (wanted instanceof ParameterizedType generic && generic.getRawType() == CompletableFuture.class) {
            asynchronous = true;
            wanted = generic.getActualTypeArguments()[0];
        }
        return new Bound(procedure, result(wanted, method, mapping), asynchronous);
    }

    private static Function<CallResult, Object> result(Type wanted, Method method, RowMapping mapping) {
        if (wanted == void.class || wanted == Void.class) return result -> null;
        if (wanted == CallResult.class) return result -> result;
        if (wanted == Table.class) return CallResult::table;
        if (wanted == long.class || wanted == Long.class) return CallResult::scalarLong;
        if (wanted == int.class || wanted == Integer.class) return result -> Math.toIntExact(result.scalarLong());
        if (wanted == String.class) return result -> (String) result.table().scalar();
        boolean list = wanted instanceof ParameterizedType generic && generic.getRawType() == List.class;
        Type element = list ? ((ParameterizedType) wanted).getActualTypeArguments()[0] : wanted;
        Function<Table, List<?>> rows = element instanceof Class<?> type ? rows(type, mapping) : null;
        if (rows == null) throw new IllegalArgumentException(method + " returns " + wanted.getTypeName() + "; see Procedure for what a method may return");
        if (list) return result -> rows.apply(result.table());
        return result -> {
            var found = rows.apply(result.table());
            return found.isEmpty() ? null : found.get(0);
        };
    }

    /** A table's rows as objects; null if nobody knows how to make such objects. */
    private static Function<Table, List<?>> rows(Class<?> type, RowMapping mapping) {
        Function<Row, ?> mapper = mapping.mapper(type);
        if (mapper != null) {
            return table -> {
                List<Object> all = new ArrayList<>(table.rowCount());
                for (Row row : table) all.add(mapper.apply(row));
                return all;
            };
        }
        return type.isRecord() ? table -> table.as(type.asSubclass(Record.class)) : null;
    }
}
