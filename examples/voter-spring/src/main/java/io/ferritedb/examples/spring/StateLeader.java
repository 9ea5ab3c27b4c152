package io.ferritedb.examples.spring;

import io.ferritedb.client.Row;
import org.springframework.core.convert.converter.Converter;
import org.springframework.stereotype.Component;

/** Who leads in a state, and with how many votes. */
public record StateLeader(String state, int contestant, long votes) {
    @Component
    static final class FromRow implements Converter<Row, StateLeader> {
        @Override
        public StateLeader convert(Row row) {
            return new StateLeader(row.getString("state"), (int) row.getLong("contestant_number"), row.getLong("num_votes"));
        }
    }
}
