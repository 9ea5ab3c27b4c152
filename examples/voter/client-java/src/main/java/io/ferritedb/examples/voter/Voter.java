package io.ferritedb.examples.voter;

import io.ferritedb.client.CallException;
import io.ferritedb.client.CallResult;
import io.ferritedb.client.Client;
import io.ferritedb.client.Row;
import io.ferritedb.examples.Arguments;
import io.ferritedb.examples.Load;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.LongAdder;

/**
 * Voter's client in Java: fills the small tables, votes for as long as it is told, and compares
 * what it was told with what is there.
 */
public final class Voter implements Load.Application {
    /** Twelve names; a run uses the first ones. */
    private static final String NAMES = "Ada Lindqvist,Bruno Valdez,Carmen Okafor,Dmitri Hale,Esther Moreau,Felix Tanaka,"
            + "Greta Solberg,Hamid Rahimi,Ines Duarte,Jonas Keller,Keiko Arai,Liam Brennan";
    private static final int NOBODY = 999;
    private static final int PHONES_PER_AREA = 10_000_000;

    /** The procedures that answer with more than a number. */
    interface Procedures {
        int initialize(int contestants, String names);

        List<Standing> results();
    }

    record Standing(String contestantName, int contestantNumber, long totalVotes) {}

    private final Client client;
    private final long[] areaCodes;
    private final int contestants;
    private final int votesMax;
    private final LongAdder accepted = new LongAdder();
    private final LongAdder noSuchContestant = new LongAdder();
    private final LongAdder overLimit = new LongAdder();
    private final LongAdder failed = new LongAdder();
    private final LongAdder unknown = new LongAdder();
    private final LongAdder serverMilliseconds = new LongAdder();

    private Voter(Client client, long[] areaCodes, int contestants, int votesMax) {
        this.client = client;
        this.areaCodes = areaCodes;
        this.contestants = contestants;
        this.votesMax = votesMax;
    }

    public static void main(String[] given) {
        Arguments.main(() -> {
            Arguments arguments = new Arguments(given,
                    new String[] {"contestants", "6", "contestants, 1 to 12"},
                    new String[] {"maxvotes", "2", "votes that each phone number has"},
                    new String[] {"duration", "20", "seconds that are measured"},
                    new String[] {"warmup", "2", "seconds of load before that"},
                    new String[] {"threads", "40", "threads with --mode=sync"});
            try (Client client = arguments.connect()) {
                return run(client, arguments);
            }
        });
    }

    private static boolean run(Client client, Arguments arguments) throws InterruptedException, java.io.IOException {
        Procedures procedures = client.procedures(Procedures.class);
        int contestants = procedures.initialize(arguments.integer("contestants", 1, 12), NAMES);
        var codes = client.query("SELECT area_code FROM area_code_state ORDER BY area_code");
        long[] areaCodes = new long[codes.rowCount()];
        int at = 0;
        for (Row row : codes) areaCodes[at++] = row.getLong(0);
        Voter voter = new Voter(client, areaCodes, contestants, arguments.integer("maxvotes", 1, Integer.MAX_VALUE));
        long before = client.query("SELECT COUNT(*) FROM votes").scalarLong();
        System.out.printf("%d contestants, %d votes a phone number, %s%n", contestants, voter.votesMax,
                arguments.synchronous() ? "waiting for each answer" : "waiting for none");
        Load.run(client, arguments, voter);

        voter.print();
        for (Standing standing : procedures.results()) System.out.printf("%-20s%14d%n", standing.contestantName(), standing.totalVotes());
        long added = client.query("SELECT COUNT(*) FROM votes").scalarLong() - before;
        long inView = client.query("SELECT COALESCE(SUM(num_votes), 0) FROM v_votes_by_phone_number").scalarLong() - before;
        if (added < voter.accepted.sum() || added > voter.accepted.sum() + voter.unknown.sum() || inView != added) {
            System.out.printf("wrong: %d votes are there, %d in the view; %d were accepted, %d are unknown%n", added, inView, voter.accepted.sum(), voter.unknown.sum());
            return false;
        }
        System.out.printf("right: each of %d votes that are there was accepted, in table and view%n", added);
        return voter.failed.sum() == 0;
    }

    /**
     * Phone, contestant, limit. Half of the votes go to the area's favourite, one in a hundred to
     * nobody.
     */
    private Object[] next() {
        var random = ThreadLocalRandom.current();
        int area = random.nextInt(areaCodes.length);
        long phone = areaCodes[area] * PHONES_PER_AREA + random.nextInt(PHONES_PER_AREA);
        int chance = random.nextInt(100);
        int favourite = area % 10 < 7 ? 1 + area * 31 % contestants : 1;
        int contestant = chance == 0 ? NOBODY : chance % 2 == 1 ? favourite : 1 + random.nextInt(contestants);
        return new Object[] {phone, contestant, votesMax};
    }

    @Override
    public CompletableFuture<?> callWithoutWaiting() {
        return client.call("Vote", next()).handle((result, failure) -> {
            count(result, failure);
            return null;
        });
    }

    @Override
    public void callAndWait() {
        try {
            count(client.callSync("Vote", next()), null);
        } catch (CallException failure) {
            count(null, failure);
        }
    }

    private void count(CallResult result, Throwable failure) {
        if (failure != null) {
            boolean mayHaveCounted = failure instanceof CallException reason && reason.outcome() == CallException.Outcome.UNKNOWN;
            (mayHaveCounted ? unknown : failed).increment();
            return;
        }
        serverMilliseconds.add(result.serverMilliseconds());
        switch ((int) result.scalarLong()) {
            case 0 -> accepted.increment();
            case 1 -> noSuchContestant.increment();
            case 2 -> overLimit.increment();
            default -> failed.increment();
        }
    }

    @Override
    public long serverMilliseconds() {
        return serverMilliseconds.sum();
    }

    private void print() {
        long all = accepted.sum() + noSuchContestant.sum() + overLimit.sum() + failed.sum() + unknown.sum();
        System.out.printf("%14d votes were cast%n%14d accepted%n%14d rejected: no such contestant%n%14d rejected: over the limit%n", all, accepted.sum(),
                noSuchContestant.sum(), overLimit.sum());
        System.out.printf("%14d failed%n%14d unknown: they may have counted%n", failed.sum(), unknown.sum());
    }
}
