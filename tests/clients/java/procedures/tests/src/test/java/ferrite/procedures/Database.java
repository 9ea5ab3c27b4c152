package ferrite.procedures;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ferrite.support.Server;
import java.io.IOException;
import org.voltdb.client.Client;
import org.voltdb.client.ClientConfig;
import org.voltdb.client.ClientFactory;
import org.voltdb.client.ClientResponse;
import org.voltdb.client.ProcCallException;

/** A server and a published client of it. */
final class Database implements AutoCloseable {
    final Server server;
    final Client client;

    Database(Server server) throws Exception {
        this.server = server;
        ClientConfig config = new ClientConfig();
        // The test's machine may be busy.
        config.setProcedureCallTimeout(120_000);
        client = ClientFactory.createClient(config);
        try {
            client.createConnection(server.host(), server.port());
        } catch (IOException e) {
            close();
            throw e;
        }
    }

    /** With the application's classes, and what these statements make of them. */
    Database with(String schema, String procedures) throws Exception {
        call("@AdHoc", schema);
        call("@AdHoc", "INSERT INTO one VALUES (1)");
        call("@UpdateClasses", Jars.application("a resource"), null);
        call("@AdHoc", procedures);
        return this;
    }

    @Override
    public void close() throws Exception {
        client.close();
        server.close();
    }

    ClientResponse call(String procedure, Object... parameters) throws IOException, ProcCallException {
        ClientResponse response = client.callProcedure(procedure, parameters);
        assertEquals(ClientResponse.SUCCESS, response.getStatus(), response.getStatusString());
        return response;
    }

    long number(String procedure, Object... parameters) throws IOException, ProcCallException {
        return call(procedure, parameters).getResults()[0].asScalarLong();
    }

    void refused(int status, String words, String procedure, Object... parameters) throws IOException {
        ClientResponse response;
        try {
            response = client.callProcedure(procedure, parameters);
        } catch (ProcCallException refused) {
            response = refused.getClientResponse();
        }
        assertEquals(status, response.getStatus(), response.getStatusString());
        assertTrue(response.getStatusString().contains(words), response.getStatusString());
    }
}
