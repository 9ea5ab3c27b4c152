package io.ferritedb.spring;

import io.ferritedb.client.Client;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.springframework.boot.actuate.health.AbstractHealthIndicator;
import org.springframework.boot.actuate.health.Health;

/** Up when a server answers a ping within two seconds. */
final class FerriteHealthIndicator extends AbstractHealthIndicator {
    private static final Duration PATIENCE = Duration.ofSeconds(2);

    private final Client client;

    FerriteHealthIndicator(Client client) {
        super("the ping failed");
        this.client = client;
    }

    @Override
    protected void doHealthCheck(Health.Builder health) throws Exception {
        for (var connection : client.statistics().connections()) health.withDetail(connection.address(), connection.connected() ? "connected" : "not connected");
        health.withDetail("outstanding", client.outstanding());
        if (!client.connected()) {
            health.down();
            return;
        }
        long began = System.nanoTime();
        client.call(PATIENCE, "@Ping").get(PATIENCE.toMillis() * 2, TimeUnit.MILLISECONDS);
        health.up().withDetail("pingMicroseconds", (System.nanoTime() - began) / 1000);
    }
}
