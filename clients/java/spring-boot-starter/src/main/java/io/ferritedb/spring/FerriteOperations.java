package io.ferritedb.spring;

import io.ferritedb.client.CallResult;
import io.ferritedb.client.Client;
import io.ferritedb.client.Row;
import io.ferritedb.client.RowMapping;
import io.ferritedb.client.Table;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import org.springframework.core.ResolvableType;
import org.springframework.core.convert.converter.Converter;

/**
 * Calls and queries that give domain objects: by the application's converter of rows for the type
 * if there is one, else as records by the names of their columns.
 */
public final class FerriteOperations implements RowMapping {
    private final Client client;
    private final Map<Class<?>, Converter<Row, ?>> converters = new HashMap<>();

    public FerriteOperations(Client client, List<Converter<Row, ?>> converters) {
        this.client = client;
        for (Converter<Row, ?> converter : converters) {
            Class<?> target = ResolvableType.forInstance(converter).as(Converter.class).getGeneric(1).resolve();
            if (target == null) throw new IllegalArgumentException(converter.getClass().getName() + " does not say to what it converts rows: make it a class of its own, not a lambda");
            if (this.converters.put(target, converter) != null) throw new IllegalArgumentException("two converters make " + target.getName() + " of rows");
        }
    }

    /** The driver itself. */
    public Client client() {
        return client;
    }

    /** Calls a procedure; its first table's rows as objects. */
    public <T> CompletableFuture<List<T>> call(Class<T> type, String procedure, Object... parameters) {
        return client.call(procedure, parameters).thenApply(result -> map(result.table(), type));
    }

    /** Calls a procedure whose answer needs a look of one's own. */
    public <T> CompletableFuture<T> call(Function<CallResult, T> read, String procedure, Object... parameters) {
        return client.call(procedure, parameters).thenApply(read);
    }

    /** Runs SQL with {@code ?} for parameters; its rows as objects. */
    public <T> List<T> query(Class<T> type, String sql, Object... parameters) {
        return map(client.query(sql, parameters), type);
    }

    /** Rows as objects. */
    public <T> List<T> map(Table table, Class<T> type) {
        Function<Row, T> mapper = mapper(type);
        if (mapper != null) {
            List<T> all = new ArrayList<>(table.rowCount());
            for (Row row : table) all.add(mapper.apply(row));
            return all;
        }
        if (!type.isRecord()) throw new IllegalArgumentException("no Converter<Row, " + type.getSimpleName() + "> is a bean, and the type is not a record");
        return table.as(type.asSubclass(Record.class)).stream().map(type::cast).toList();
    }

    @Override
    public <T> Function<Row, T> mapper(Class<T> type) {
        Converter<Row, ?> converter = converters.get(type);
        return converter == null ? null : row -> type.cast(converter.convert(row));
    }
}
