package io.ferritedb.examples.spring;

import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Properties {@code voter.*}.
 *
 * @param contestants how many, up to 12
 * @param votesPerPhone votes that each phone number has
 * @param generate whether votes are cast from the start
 */
@ConfigurationProperties("voter")
public record VoterProperties(@DefaultValue("6") int contestants, @DefaultValue("2") int votesPerPhone, @DefaultValue("true") boolean generate) {}
