package app;

import java.util.concurrent.CompletableFuture;
import org.voltdb.VoltNonTransactionalProcedure;
import org.voltdb.client.ClientResponse;

/** Looks up what an account has and doubles it; the answer is that of its last call. */
public class Raise extends VoltNonTransactionalProcedure {
    public CompletableFuture<ClientResponse> run(long id) {
        return callProcedure("ACCOUNTS.select", id).thenCompose(found -> {
            if (found.getResults()[0].getRowCount() == 0) {
                setAppStatusCode((byte) 4);
                setAppStatusString("there is no account " + id);
                return CompletableFuture.completedFuture(found);
            }
            return callProcedure("Deposit", id, found.getResults()[0].fetchRow(0).getLong("BALANCE"));
        });
    }
}
