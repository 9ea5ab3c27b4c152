package io.ferritedb.examples.spring;

import io.ferritedb.client.Client;
import io.ferritedb.client.Row;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.springframework.stereotype.Repository;

/** What the application asks of the database. */
@Repository
public class VoteRepository {
    /** Twelve names; an election uses the first ones. */
    private static final String NAMES = "Ada Lindqvist,Bruno Valdez,Carmen Okafor,Dmitri Hale,Esther Moreau,Felix Tanaka,"
            + "Greta Solberg,Hamid Rahimi,Ines Duarte,Jonas Keller,Keiko Arai,Liam Brennan";

    private final VoterProcedures procedures;
    private final Client client;
    private final int contestants;
    private final long[] areaCodes;

    VoteRepository(VoterProcedures procedures, Client client, VoterProperties properties) {
        this.procedures = procedures;
        this.client = client;
        contestants = procedures.initialize(properties.contestants(), NAMES);
        var codes = client.query("SELECT area_code FROM area_code_state ORDER BY area_code");
        areaCodes = new long[codes.rowCount()];
        int at = 0;
        for (Row row : codes) areaCodes[at++] = row.getLong(0);
    }

    int contestants() {
        return contestants;
    }

    long[] areaCodes() {
        return areaCodes;
    }

    CompletableFuture<Long> vote(long phone, int contestant, long votesMax) {
        return procedures.vote(phone, contestant, votesMax);
    }

    CompletableFuture<List<Standing>> standings() {
        return procedures.results();
    }

    CompletableFuture<List<StateLeader>> stateLeaders() {
        return procedures.stateLeaders();
    }

    /** Votes in the table itself, not in the view that the others read. */
    long votesInTable() {
        return client.query("SELECT COUNT(*) FROM votes").scalarLong();
    }
}
