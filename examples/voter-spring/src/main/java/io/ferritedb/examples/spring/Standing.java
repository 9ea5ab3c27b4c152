package io.ferritedb.examples.spring;

import io.ferritedb.client.Row;
import org.springframework.core.convert.converter.Converter;
import org.springframework.stereotype.Component;

/** A contestant and what it has. */
public record Standing(int contestant, String name, long votes) {
    @Component
    static final class FromRow implements Converter<Row, Standing> {
        @Override
        public Standing convert(Row row) {
            return new Standing((int) row.getLong("contestant_number"), row.getString("contestant_name"), row.getLong("total_votes"));
        }
    }
}
