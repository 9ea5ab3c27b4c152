package app;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.voltdb.VoltNonTransactionalProcedure;
import org.voltdb.client.ClientResponse;

/** Waits for answers where it needs them, in the ways that the parameter says. */
public class Waits extends VoltNonTransactionalProcedure {
    public long run(String how) throws Exception {
        switch (how) {
            case "get":
                return number(select(5).get());
            case "timed":
                return number(select(6).get(60, TimeUnit.SECONDS));
            case "one after the other": {
                long sum = 0;
                for (int i = 0; i < 20; i++) {
                    sum += number(select(i).join());
                }
                return sum;
            }
            case "all": {
                List<CompletableFuture<ClientResponse>> calls = new ArrayList<>();
                for (int i = 0; i < 25; i++) {
                    calls.add(select(i));
                }
                CompletableFuture.allOf(calls.toArray(new CompletableFuture<?>[0])).join();
                return calls.stream().mapToLong(call -> number(call.join())).sum();
            }
            case "in what depends":
                return select(1).thenApply(first -> number(first) + number(select(2).join()) + number(select(3).join())).get();
            case "derived":
                return select(4).thenCombine(select(5), (a, b) -> 10 * number(a) + number(b)).toCompletableFuture().join();
            case "throws":
                callProcedure("Open", 902, 1).get();
                throw new IllegalArgumentException("after a call");
            case "a failure":
                try {
                    return callProcedure("Deposit", 1, 0).thenApply(answer -> {
                        if (answer.getStatus() != ClientResponse.SUCCESS) {
                            throw new IllegalStateException("status " + answer.getStatus() + " " + answer.getStatusString());
                        }
                        return 1L;
                    }).get();
                } catch (ExecutionException e) {
                    return e.getCause().getMessage().startsWith("status -1") ? -1 : -2;
                }
            case "for ever":
                new CompletableFuture<Void>().get();
                return 1;
            case "for an answer that is late":
                try {
                    return number(callProcedure("Slow", 5000).get());
                } catch (ExecutionException e) {
                    System.err.println("waited in vain: " + e.getCause().getMessage());
                    throw e;
                }
            default:
                throw new IllegalArgumentException(how);
        }
    }

    private CompletableFuture<ClientResponse> select(int number) {
        return callProcedure("@AdHoc", "SELECT " + number + " FROM one");
    }

    private static long number(ClientResponse answer) {
        return answer.getResults()[0].asScalarLong();
    }
}
