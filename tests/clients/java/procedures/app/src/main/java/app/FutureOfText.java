package app;

import java.util.concurrent.CompletableFuture;
import org.voltdb.VoltNonTransactionalProcedure;

/** No procedure here: a text is no result. */
public class FutureOfText extends VoltNonTransactionalProcedure {
    public CompletableFuture<String> run() {
        return CompletableFuture.completedFuture("text");
    }
}
