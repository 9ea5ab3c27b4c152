package io.ferritedb.spring;

import io.ferritedb.client.ClientOptions;
import java.time.Duration;
import java.util.List;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Properties {@code ferrite.*}.
 *
 * @param servers host, host:port or [v6]:port
 * @param user who logs in
 * @param password of the user
 * @param sslBundle name of the SSL bundle for TLS; none: no TLS
 * @param maxOutstanding calls without an answer, all connections together
 * @param whenFull what a call does when that many are out: block or reject
 * @param rate calls a second, at most; 0: as many as come
 * @param latencyTarget finds by itself how many calls may be outstanding so that p99 stays there
 * @param timeout how long a call waits for its answer
 * @param connectTimeout how long connecting and logging in may take
 * @param connectionsPerServer connections to each node
 * @param affinity calls go to the node that leads their partition
 * @param discover other nodes of the cluster are found
 */
@ConfigurationProperties("ferrite")
public record FerriteProperties(
        @DefaultValue("localhost") List<String> servers,
        @DefaultValue("") String user,
        @DefaultValue("") String password,
        String sslBundle,
        @DefaultValue("3000") int maxOutstanding,
        @DefaultValue("block") ClientOptions.WhenFull whenFull,
        @DefaultValue("0") double rate,
        Duration latencyTarget,
        @DefaultValue("2m") Duration timeout,
        @DefaultValue("10s") Duration connectTimeout,
        @DefaultValue("1") int connectionsPerServer,
        @DefaultValue("true") boolean affinity,
        @DefaultValue("true") boolean discover) {}
