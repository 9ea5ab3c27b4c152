package io.ferritedb.examples.spring;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.springframework.stereotype.Component;

/**
 * The results as they are now. All who ask while a query is under way, or within a moment after,
 * get the same answer: however many pages are open, the database is asked a few times a second.
 */
@Component
class LiveResults {
    private static final long FRESH_NANOSECONDS = 100_000_000L;

    /** Standings with the winner first, and their sum. */
    record Snapshot(List<Standing> standings, List<StateLeader> states, long total) {}

    private final VoteRepository votes;
    private CompletableFuture<Snapshot> latest;
    private volatile long endedAt;

    LiveResults(VoteRepository votes) {
        this.votes = votes;
    }

    synchronized CompletableFuture<Snapshot> now() {
        if (latest != null && (!latest.isDone() || !latest.isCompletedExceptionally() && System.nanoTime() - endedAt < FRESH_NANOSECONDS)) return latest;
        latest = votes.standings().thenCombine(votes.stateLeaders(), (standings, states) -> {
            long total = standings.stream().mapToLong(Standing::votes).sum();
            endedAt = System.nanoTime();
            return new Snapshot(standings, states, total);
        });
        return latest;
    }
}
