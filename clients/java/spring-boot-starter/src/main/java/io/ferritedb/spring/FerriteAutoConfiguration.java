package io.ferritedb.spring;

import io.ferritedb.client.Client;
import io.ferritedb.client.ClientOptions;
import io.ferritedb.client.ConnectionListener;
import io.ferritedb.client.Row;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.ssl.SslAutoConfiguration;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.ssl.SslBundles;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;
import org.springframework.core.convert.converter.Converter;

/**
 * One client for the application, what turns rows into its objects, and its procedure interfaces.
 */
@AutoConfiguration(after = SslAutoConfiguration.class)
@EnableConfigurationProperties(FerriteProperties.class)
@Import(ProcedureScan.class)
public class FerriteAutoConfiguration {
    /** Closed when the application ends; that waits for answers that are missing. */
    @Bean(destroyMethod = "close")
    @ConditionalOnMissingBean
    public Client ferriteClient(
            FerriteProperties properties,
            ObjectProvider<ConnectionListener> listeners,
            ObjectProvider<FerriteClientCustomizer> customizers,
            ObjectProvider<SslBundles> bundles) {
        ClientOptions options = Client.to(String.join(",", properties.servers()))
                .credentials(properties.user(), properties.password())
                .maxOutstanding(properties.maxOutstanding())
                .whenFull(properties.whenFull())
                .timeout(properties.timeout())
                .connectTimeout(properties.connectTimeout())
                .connectionsPerServer(properties.connectionsPerServer())
                .affinity(properties.affinity())
                .discover(properties.discover());
        if (properties.rate() > 0) options.rate(properties.rate());
        if (properties.latencyTarget() != null) options.latencyTarget(properties.latencyTarget());
        if (properties.sslBundle() != null) options.tls(bundles.getObject().getBundle(properties.sslBundle()).createSslContext());
        listeners.orderedStream().forEach(options::listener);
        customizers.orderedStream().forEach(customizer -> customizer.customize(options));
        return options.connect();
    }

    @Bean
    @ConditionalOnMissingBean
    public FerriteOperations ferriteOperations(Client client, ObjectProvider<Converter<Row, ?>> converters) {
        return new FerriteOperations(client, converters.orderedStream().toList());
    }
}
