package io.ferritedb.examples.spring;

import io.ferritedb.client.Procedure;
import io.ferritedb.spring.FerriteProcedure;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** The procedures of the database, as methods. */
@FerriteProcedure
public interface VoterProcedures {
    int initialize(int contestants, String names);

    /** 0: counted; 1: no such contestant; 2: the phone has no votes left. */
    CompletableFuture<Long> vote(long phone, int contestant, long votesMax);

    CompletableFuture<List<Standing>> results();

    /** The leaders come first in that procedure's answer. */
    @Procedure("GetStateHeatmap")
    CompletableFuture<List<StateLeader>> stateLeaders();
}
