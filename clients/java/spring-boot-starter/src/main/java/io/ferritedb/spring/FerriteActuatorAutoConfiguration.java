package io.ferritedb.spring;

import io.ferritedb.client.Client;
import io.ferritedb.client.FerriteMetrics;
import io.micrometer.core.instrument.MeterRegistry;
import java.util.List;
import org.springframework.boot.actuate.autoconfigure.health.ConditionalOnEnabledHealthIndicator;
import org.springframework.boot.actuate.health.HealthIndicator;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.annotation.Bean;

/**
 * Health ({@code management.health.ferrite.enabled}) and meters, where the application has the
 * actuator.
 */
@AutoConfiguration(after = FerriteAutoConfiguration.class)
@ConditionalOnClass({HealthIndicator.class, MeterRegistry.class})
public class FerriteActuatorAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean(name = "ferriteHealthIndicator")
    @ConditionalOnEnabledHealthIndicator("ferrite")
    public HealthIndicator ferriteHealthIndicator(Client client) {
        return new FerriteHealthIndicator(client);
    }

    @Bean
    @ConditionalOnMissingBean
    public FerriteMetrics ferriteMetrics(Client client) {
        return new FerriteMetrics(client, List.of());
    }
}
