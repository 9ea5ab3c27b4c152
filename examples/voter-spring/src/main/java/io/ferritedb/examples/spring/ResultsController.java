package io.ferritedb.examples.spring;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.springframework.http.CacheControl;
import org.springframework.http.HttpStatus;
import org.springframework.http.ProblemDetail;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PutMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RestController;

/** What the page asks for. */
@RestController
@RequestMapping("/api")
class ResultsController {
    record Page(List<Standing> standings, List<StateLeader> states, long total, VoteGenerator.State generator, ThroughputReporter.Figures driver) {}

    record Switch(boolean running) {}

    /** The votes as the database counts them, in the table and in the view. */
    record Totals(long table, long view) {}

    private final LiveResults results;
    private final VoteRepository votes;
    private final VoteGenerator generator;
    private final ThroughputReporter throughput;

    ResultsController(LiveResults results, VoteRepository votes, VoteGenerator generator, ThroughputReporter throughput) {
        this.results = results;
        this.votes = votes;
        this.generator = generator;
        this.throughput = throughput;
    }

    @GetMapping("/results")
    CompletableFuture<ResponseEntity<Page>> results() {
        return results.now().thenApply(now -> ResponseEntity.ok().cacheControl(CacheControl.noStore())
                .body(new Page(now.standings(), now.states(), now.total(), generator.state(), throughput.figures())));
    }

    @PutMapping("/generator")
    VoteGenerator.State generator(@RequestBody Switch wanted) {
        generator.running(wanted.running());
        return generator.state();
    }

    @GetMapping("/totals")
    CompletableFuture<Totals> totals() {
        return votes.standings().thenApply(standings -> standings.stream().mapToLong(Standing::votes).sum())
                .thenApplyAsync(view -> new Totals(votes.votesInTable(), view));
    }

    /** Without the database there is no page; the reason is the driver's. */
    @ExceptionHandler(io.ferritedb.client.CallException.class)
    ProblemDetail unavailable(io.ferritedb.client.CallException failure) {
        return ProblemDetail.forStatusAndDetail(HttpStatus.SERVICE_UNAVAILABLE, failure.getMessage());
    }
}
