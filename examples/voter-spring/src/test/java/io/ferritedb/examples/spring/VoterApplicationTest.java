package io.ferritedb.examples.spring;

import static org.assertj.core.api.Assertions.assertThat;

import io.ferritedb.client.TestServer;
import java.time.Duration;
import java.time.Instant;
import java.util.function.Predicate;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.web.client.TestRestTemplate;
import org.springframework.http.HttpStatus;
import org.springframework.test.context.DynamicPropertyRegistry;
import org.springframework.test.context.DynamicPropertySource;

/** The application over HTTP, with a real server behind it and the generator flat out. */
@SpringBootTest(webEnvironment = SpringBootTest.WebEnvironment.RANDOM_PORT)
class VoterApplicationTest {
    private static TestServer server;

    @Autowired
    private TestRestTemplate http;

    @DynamicPropertySource
    static void server(DynamicPropertyRegistry properties) throws Exception {
        server = new TestServer("--schema", "../voter/ddl.sql");
        properties.add("ferrite.servers", server::address);
    }

    @AfterAll
    static void stop() throws Exception {
        server.close();
    }

    private ResultsController.Page page(Predicate<ResultsController.Page> wanted) {
        Instant until = Instant.now().plus(Duration.ofSeconds(30));
        while (true) {
            var page = http.getForObject("/api/results", ResultsController.Page.class);
            if (wanted.test(page)) return page;
            assertThat(Instant.now()).as("%s", page).isBefore(until);
        }
    }

    @Test
    void whatThePageShowsIsWhatTheDatabaseHas() {
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
    void healthAndMeters() {
        assertThat(http.getForObject("/actuator/health", String.class)).contains("\"ferrite\":{\"status\":\"UP\"");
        assertThat(http.getForObject("/actuator/metrics/ferrite.client.calls", String.class)).contains("\"statistic\":\"COUNT\"");
    }

    @Test
    void whatIsNotThereIsSaid() {
        assertThat(http.getForEntity("/api/nothing", String.class).getStatusCode()).isEqualTo(HttpStatus.NOT_FOUND);
        assertThat(http.postForEntity("/api/results", null, String.class).getStatusCode()).isEqualTo(HttpStatus.METHOD_NOT_ALLOWED);
    }
}
