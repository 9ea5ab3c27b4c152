package io.ferritedb.examples.spring;

import io.ferritedb.client.CallException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;
import org.springframework.context.event.ContextClosedEvent;
import org.springframework.context.event.EventListener;
import org.springframework.scheduling.annotation.Scheduled;
import org.springframework.stereotype.Component;

/** Casts votes, flat out: a call waits for nothing but room in the driver. */
@Component
public class VoteGenerator {
    private static final long TURN_NANOSECONDS = 100_000_000L;
    private static final int NOBODY = 999;
    private static final int PHONES_PER_AREA = 10_000_000;

    private final VoteRepository votes;
    private final long votesMax;
    private volatile boolean running;
    private final AtomicLong outstanding = new AtomicLong();
    private final AtomicLong accepted = new AtomicLong();
    private final AtomicLong rejected = new AtomicLong();
    private final AtomicLong failed = new AtomicLong();
    private final AtomicLong unknown = new AtomicLong();

    VoteGenerator(VoteRepository votes, VoterProperties properties) {
        this.votes = votes;
        this.votesMax = properties.votesPerPhone();
        this.running = properties.generate();
    }

    /**
     * One turn: votes for a tenth of a second. The next follows at once; in between the scheduler
     * can stop.
     */
    @Scheduled(fixedDelay = 1)
    void cast() {
        var random = ThreadLocalRandom.current();
        long[] areaCodes = votes.areaCodes();
        int contestants = votes.contestants();
        long until = System.nanoTime() + TURN_NANOSECONDS;
        while (running && System.nanoTime() < until) {
            int area = random.nextInt(areaCodes.length);
            long phone = areaCodes[area] * PHONES_PER_AREA + random.nextInt(PHONES_PER_AREA);
            int chance = random.nextInt(100);
            int favourite = area % 10 < 7 ? 1 + area * 31 % contestants : 1;
            cast(phone, chance == 0 ? NOBODY : chance % 2 == 1 ? favourite : 1 + random.nextInt(contestants));
        }
    }

    private void cast(long phone, int contestant) {
        outstanding.incrementAndGet();
        votes.vote(phone, contestant, votesMax).whenComplete((answer, failure) -> {
            if (failure != null) (mayHaveCounted(failure) ? unknown : failed).incrementAndGet();
            else (answer == 0 ? accepted : rejected).incrementAndGet();
            outstanding.decrementAndGet();
        });
    }

    private static boolean mayHaveCounted(Throwable failure) {
        Throwable reason = failure instanceof java.util.concurrent.CompletionException && failure.getCause() != null ? failure.getCause() : failure;
        return reason instanceof CallException call && call.outcome() == CallException.Outcome.UNKNOWN;
    }

    /** No votes when the application ends. */
    @EventListener(ContextClosedEvent.class)
    void stop() {
        running = false;
    }

    void running(boolean on) {
        running = on;
    }

    /**
     * What has become of the votes so far. With nothing outstanding and not running, the accepted
     * ones are the rows of the table.
     */
    record State(boolean running, long accepted, long rejected, long failed, long unknown, long outstanding) {}

    State state() {
        long still = outstanding.get();
        return new State(running, accepted.get(), rejected.get(), failed.get(), unknown.get(), still);
    }
}
