package io.ferritedb.client;

import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.function.ToDoubleFunction;

/**
 * A client's statistics as Micrometer meters: {@code ferrite.client.calls} by outcome, latencies
 * since the start, calls outstanding, connections. Needs micrometer-core.
 */
public final class FerriteMetrics implements MeterBinder {
    private static final long FRESH = 1_000_000_000L;

    private final Client client;
    private final Tags tags;
    private ClientStatistics last;
    private long taken;

    /** Meters of a client, each with these tags; neither may be null. */
    public FerriteMetrics(Client client, Iterable<Tag> tags) {
        this.client = client;
        this.tags = Tags.of(tags);
    }

    @Override
    public void bindTo(MeterRegistry registry) {
        counter(registry, "success", counts -> counts.succeeded());
        counter(registry, "failed", counts -> counts.failed());
        counter(registry, "unknown", counts -> counts.unknown());
        counter(registry, "late", counts -> counts.late());
        for (double percent : new double[] {50, 99, 99.9}) {
            Gauge.builder("ferrite.client.latency", this, metrics -> metrics.statistics().total().percentile(percent) / 1e6)
                    .tags(tags.and("quantile", String.valueOf(percent / 100))).baseUnit("seconds").register(registry);
        }
        Gauge.builder("ferrite.client.outstanding", client, Client::outstanding).tags(tags).register(registry);
        Gauge.builder("ferrite.client.connections", this,
                metrics -> metrics.statistics().connections().stream().filter(ClientStatistics.ConnectionStatistics::connected).count()).tags(tags).register(registry);
    }

    private void counter(MeterRegistry registry, String outcome, ToDoubleFunction<ClientStatistics.Counts> count) {
        FunctionCounter.builder("ferrite.client.calls", this, metrics -> count.applyAsDouble(metrics.statistics().total()))
                .tags(tags.and("outcome", outcome)).register(registry);
    }

    /** One copy serves all meters of a scrape. */
    private synchronized ClientStatistics statistics() {
        long now = System.nanoTime();
        if (last == null || now - taken > FRESH) {
            last = client.statistics();
            taken = now;
        }
        return last;
    }
}
