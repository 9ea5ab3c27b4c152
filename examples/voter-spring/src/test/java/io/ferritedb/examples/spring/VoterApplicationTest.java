package io.ferritedb.examples.spring;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.ferritedb.client.TestServer;
import java.time.Duration;
import java.time.Instant;
import java.util.function.Predicate;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.web.client.TestRestTemplate;
import org.springframework.http.HttpStatus;
import org.springframework.test.context.DynamicPropertyRegistry;
import org.springframework.test.context.DynamicPropertySource;

/** The application over HTTP, with a real server behind it and the generator flat out. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
@SpringBootTest(webEnvironment = SpringBootTest.WebEnvironment.RANDOM_PORT)
class VoterApplicationTest {
    private static final Duration PATIENCE = Duration.ofSeconds(120);
    private static TestServer server;

    @Autowired
    private TestRestTemplate http;

    @Autowired
    private ObjectMapper json;

    @DynamicPropertySource
    static void server(DynamicPropertyRegistry properties) throws Exception {
        server = new TestServer("--schema", "../voter/ddl.sql");
        properties.add("ferrite.servers", server::address);
        // Longer than a busy machine makes a call wait.
        properties.add("ferrite.timeout", () -> "90s");
        properties.add("ferrite.connect-timeout", () -> "90s");
    }

    @AfterAll
    void stop() throws Exception {
        // The application ends after this, and would wait for votes that nobody answers.
        http.put("/api/generator", new ResultsController.Switch(false));
        page(page -> !page.generator().running() && page.generator().outstanding() == 0);
        server.close();
    }

    private ResultsController.Page page(Predicate<ResultsController.Page> wanted) throws Exception {
        return eventually("/api/results", ResultsController.Page.class, wanted);
    }

    /** Asks until the answer is as wanted. */
    private <T> T eventually(String path, Class<T> type, Predicate<T> wanted) throws Exception {
        Instant until = Instant.now().plus(PATIENCE);
        while (true) {
            var answer = http.getForEntity(path, String.class);
            T body = answer.getStatusCode().is2xxSuccessful() ? type == String.class ? type.cast(answer.getBody()) : json.readValue(answer.getBody(), type) : null;
            if (body != null && wanted.test(body)) return body;
            assertThat(Instant.now()).as("%s %s", answer.getStatusCode(), answer.getBody()).isBefore(until);
        }
    }

    @Test
    void whatThePageShowsIsWhatTheDatabaseHas() throws Exception {
        var live = page(page -> page.total() > 5000 && page.states().size() >= 51);
        assertThat(live.generator().running()).isTrue();
        assertThat(live.standings()).hasSize(6).extracting(Standing::votes).isSortedAccordingTo(java.util.Comparator.reverseOrder());
        assertThat(live.standings()).extracting(Standing::name).contains("Ada Lindqvist");

        http.put("/api/generator", new ResultsController.Switch(false));
        page(page -> !page.generator().running() && page.generator().outstanding() == 0);
        var generator = page(page -> page.total() == page.generator().accepted()).generator();
        assertThat(generator.failed() + generator.unknown()).isZero();
        assertThat(generator.rejected()).isPositive();
        var totals = http.getForObject("/api/totals", ResultsController.Totals.class);
        assertThat(totals.table()).isEqualTo(totals.view()).isEqualTo(generator.accepted());

        http.put("/api/generator", new ResultsController.Switch(true));
        page(page -> page.total() > totals.table());
    }

    @Test
    void thePageNeedsNothingFromElsewhere() {
        for (String path : new String[] {"/", "/app.js", "/style.css"}) {
            var answer = http.getForEntity(path, String.class);
            assertThat(answer.getStatusCode()).isEqualTo(HttpStatus.OK);
            assertThat(answer.getBody().replace("http://www.w3.org/2000/svg", "")).doesNotContain("http://", "https://", "//cdn");
        }
    }

    @Test
    void healthAndMeters() throws Exception {
        // The ping stands in line behind the votes; on a busy machine one may come too late.
        eventually("/actuator/health", String.class, health -> health.contains("\"ferrite\":{\"status\":\"UP\""));
        assertThat(http.getForObject("/actuator/metrics/ferrite.client.calls", String.class)).contains("\"statistic\":\"COUNT\"");
    }

    @Test
    void whatIsNotThereIsSaid() {
        assertThat(http.getForEntity("/api/nothing", String.class).getStatusCode()).isEqualTo(HttpStatus.NOT_FOUND);
        assertThat(http.postForEntity("/api/results", null, String.class).getStatusCode()).isEqualTo(HttpStatus.METHOD_NOT_ALLOWED);
    }
}
