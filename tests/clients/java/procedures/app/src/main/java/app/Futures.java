package app;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.voltdb.VoltNonTransactionalProcedure;
import org.voltdb.VoltProcedure.VoltAbortException;
import org.voltdb.VoltTable;
import org.voltdb.client.ClientResponse;

/** What futures may do and what they may not, as the parameter says. */
public class Futures extends VoltNonTransactionalProcedure {
    public CompletableFuture<?> run(String how) {
        switch (how) {
            case "number":
                return CompletableFuture.completedFuture(5);
            case "no result":
                return CompletableFuture.completedFuture(null);
            case "chain":
                return callProcedure("Open", 900, 1).thenCompose(opened -> callProcedure("Deposit", 900, 10))
                        .thenApply(deposited -> number(deposited));
            case "tables":
                return select(1).thenCombine(select(2), (a, b) -> new VoltTable[] {a.getResults()[0], b.getResults()[0]});
            case "answer":
                return select(8);
            case "failed answer":
                return callProcedure("Nothing");
            case "aborted answer":
                return callProcedure("Deposit", 1, 0);
            case "many": {
                List<CompletableFuture<ClientResponse>> calls = new ArrayList<>();
                for (int i = 0; i < 50; i++) {
                    calls.add(select(i));
                }
                return CompletableFuture.allOf(calls.toArray(new CompletableFuture<?>[0]))
                        .thenApply(all -> calls.stream().mapToLong(call -> number(call.join())).sum());
            }
            case "any":
                return CompletableFuture.anyOf(select(3), select(3)).thenApply(first -> number((ClientResponse) first));
            case "asynchronous":
                return select(4).thenApplyAsync(first -> number(first) + number(select(5).join()));
            case "from another thread":
                return CompletableFuture.supplyAsync(() -> number(select(6).join())).thenCompose(number -> select((int) (number + 1)));
            case "nobody waits":
                callProcedure("Open", 901, 3).thenCompose(opened -> callProcedure("Deposit", 901, 4));
                return CompletableFuture.completedFuture(1L);
            case "cancelled": {
                CompletableFuture<ClientResponse> call = callProcedure("Open", 903, 3);
                call.cancel(true);
                return call.handle((answer, e) -> call.isCancelled() ? 1L : 0L);
            }
            case "status":
                setAppStatusCode((byte) 11);
                setAppStatusString("eleven");
                return select(1);
            case "throws":
                throw new IllegalStateException("run failed");
            case "aborts":
                throw new VoltAbortException("as it wished");
            case "fails":
                return CompletableFuture.failedFuture(new java.io.IOException("it was told to"));
            case "what depends throws":
                return select(1).thenApply(Futures::divide);
            case "overflows":
                return select(1).thenCompose(this::endless);
            case "null":
                return null;
            case "a wrong value":
                return CompletableFuture.completedFuture("text");
            case "a wrong parameter":
                return callProcedure("Open", new Object(), 1);
            case "no name":
                return callProcedure(null);
            case "compound":
                return callProcedure("Stages", "waits for nothing");
            case "itself":
                return callProcedure("Futures", "number");
            default:
                throw new IllegalArgumentException(how);
        }
    }

    private CompletableFuture<ClientResponse> endless(ClientResponse answer) {
        return endless(answer).thenApply(never -> never);
    }

    private static long divide(ClientResponse answer) {
        return 1 / (answer.getStatus() - 1);
    }

    private CompletableFuture<ClientResponse> select(int number) {
        return callProcedure("@AdHoc", "SELECT " + number + " FROM one");
    }

    private static long number(ClientResponse answer) {
        return answer.getResults()[0].asScalarLong();
    }
}
