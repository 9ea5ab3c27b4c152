package io.ferritedb.examples.spring;

import io.ferritedb.client.Client;
import io.ferritedb.client.ClientStatistics;
import java.util.Locale;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.scheduling.annotation.Scheduled;
import org.springframework.stereotype.Component;

/** Says every five seconds what the driver has done in them. */
@Component
class ThroughputReporter {
    private static final Logger LOG = LoggerFactory.getLogger(ThroughputReporter.class);

    private final Client client;
    private volatile ClientStatistics last;

    ThroughputReporter(Client client) {
        this.client = client;
        this.last = client.intervalStatistics();
    }

    @Scheduled(fixedRate = 5000, initialDelay = 5000)
    void report() {
        last = client.intervalStatistics();
        LOG.info("{}", last);
    }

    /** The last five seconds, for the page. */
    record Figures(double callsPerSecond, double p50Milliseconds, double p99Milliseconds) {}

    Figures figures() {
        ClientStatistics statistics = last;
        return new Figures(Math.round(statistics.transactionsPerSecond()), milliseconds(statistics, 50), milliseconds(statistics, 99));
    }

    private static double milliseconds(ClientStatistics statistics, double percent) {
        return Double.parseDouble(String.format(Locale.ROOT, "%.2f", statistics.total().percentile(percent) / 1e3));
    }
}
