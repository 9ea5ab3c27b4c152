package io.ferritedb.spring;

import static org.assertj.core.api.Assertions.assertThat;

import io.ferritedb.client.Client;
import io.ferritedb.client.ConnectionListener;
import io.ferritedb.client.Procedure;
import io.ferritedb.client.Row;
import io.ferritedb.client.TestServer;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.springframework.boot.actuate.autoconfigure.metrics.MetricsAutoConfiguration;
import org.springframework.boot.actuate.autoconfigure.metrics.export.simple.SimpleMetricsExportAutoConfiguration;
import org.springframework.boot.actuate.health.HealthIndicator;
import org.springframework.boot.actuate.health.Status;
import org.springframework.boot.autoconfigure.AutoConfigurationPackage;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.ssl.SslAutoConfiguration;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.convert.converter.Converter;

/** What an application gets by having the starter on its class path, against a real server. */
class StarterTest {
    private static TestServer server;

    @BeforeAll
    static void start() throws Exception {
        server = new TestServer("--partitions", "3");
        try (Client client = Client.to(server.address()).connect()) {
            client.query("CREATE TABLE cities (id INTEGER NOT NULL PRIMARY KEY, name VARCHAR(64) NOT NULL, inhabitants BIGINT)");
            client.query("CREATE PROCEDURE CityById AS SELECT id, name, inhabitants FROM cities WHERE id = ?");
            client.query("INSERT INTO cities VALUES (1, 'Oslo', 717710)");
        }
    }

    @AfterAll
    static void stop() throws Exception {
        server.close();
    }

    /** Not a record, and with another view of the row than its columns. */
    static final class City {
        final String title;

        City(String title) {
            this.title = title;
        }
    }

    record CityRow(int id, String name, Long inhabitants) {}

    @FerriteProcedure
    interface Cities {
        City cityById(int id);

        @Procedure("CityById")
        CompletableFuture<List<City>> all(int id);

        @Procedure("CityById")
        CityRow row(int id);
    }

    @FerriteProcedure
    interface Nested {
        @Procedure("CITIES.insert")
        long add(int id, String name, Long inhabitants);
    }

    static final class CityConverter implements Converter<Row, City> {
        @Override
        public City convert(Row row) {
            return new City(row.getString("name") + " (" + row.getLong("id") + ")");
        }
    }

    /** Its interfaces lie in both packages, one of which is within the other. */
    @Configuration(proxyBeanMethods = false)
    @AutoConfigurationPackage(basePackages = {"io.ferritedb", "io.ferritedb.spring"})
    static class Application {
        int ups;

        @Bean
        CityConverter cityConverter() {
            return new CityConverter();
        }

        @Bean
        ConnectionListener counting() {
            return new ConnectionListener() {
                @Override
                public void up(String address) {
                    ups += 1;
                }
            };
        }
    }

    private static ApplicationContextRunner application() {
        return new ApplicationContextRunner()
                .withUserConfiguration(Application.class)
                .withConfiguration(AutoConfigurations.of(SslAutoConfiguration.class, MetricsAutoConfiguration.class, SimpleMetricsExportAutoConfiguration.class,
                        FerriteAutoConfiguration.class, FerriteActuatorAutoConfiguration.class))
                .withPropertyValues("ferrite.servers=" + server.address(), "ferrite.connect-timeout=90s", "ferrite.max-outstanding=77", "ferrite.when-full=reject");
    }

    @Test
    void aClientWithTheApplicationsOptionsAndListeners() {
        application().run(context -> {
            assertThat(context.getBean(Client.class).statistics().outstandingLimit()).isEqualTo(77);
            // One for each node.
            assertThat(context.getBean(Application.class).ups).isPositive();
        });
        application().withBean(FerriteClientCustomizer.class, () -> options -> options.maxOutstanding(5))
                .run(context -> assertThat(context.getBean(Client.class).statistics().outstandingLimit()).isEqualTo(5));
    }

    @Test
    void interfacesAndConverters() {
        application().run(context -> {
            Cities cities = context.getBean(Cities.class);
            assertThat(cities.cityById(1).title).isEqualTo("Oslo (1)");
            assertThat(cities.cityById(-1)).isNull();
            assertThat(cities.all(1).join()).hasSize(1);
            assertThat(cities.row(1)).isEqualTo(new CityRow(1, "Oslo", 717710L));
            assertThat(context.getBean(Nested.class).add(2, "Bergen", null)).isEqualTo(1);
            FerriteOperations operations = context.getBean(FerriteOperations.class);
            assertThat(operations.query(City.class, "SELECT id, name FROM cities WHERE id = ?", 2).get(0).title).isEqualTo("Bergen (2)");
            assertThat(operations.call(CityRow.class, "CityById", 2).join()).containsExactly(new CityRow(2, "Bergen", null));
            assertThat(org.assertj.core.api.Assertions.catchThrowable(() -> operations.query(Thread.class, "SELECT id FROM cities"))).hasMessageContaining("Converter<Row, Thread>");
        });
    }

    @Test
    void healthAndMeters() throws Exception {
        try (TestServer mortal = new TestServer()) {
            application().withPropertyValues("ferrite.servers=" + mortal.address()).run(context -> {
                HealthIndicator health = context.getBean(HealthIndicator.class);
                eventually(() -> health.health().getStatus() == Status.UP);
                var registry = context.getBean(io.micrometer.core.instrument.MeterRegistry.class);
                assertThat(registry.get("ferrite.client.calls").tag("outcome", "success").functionCounter().count()).isGreaterThanOrEqualTo(1);
                mortal.kill();
                Client client = context.getBean(Client.class);
                eventually(() -> !client.connected());
                assertThat(health.health().getStatus()).isEqualTo(Status.DOWN);
            });
        }
    }

    private static void eventually(BooleanSupplier wanted) {
        long until = System.nanoTime() + Duration.ofSeconds(120).toNanos();
        while (!wanted.getAsBoolean()) assertThat(System.nanoTime() - until).isNegative();
    }

    @Test
    void noServerIsSaidAtTheStart() {
        application()
                .withPropertyValues("ferrite.servers=127.0.0.1:1")
                .run(context -> assertThat(context).getFailure().hasStackTraceContaining("no server could be reached: 127.0.0.1:1"));
    }
}
