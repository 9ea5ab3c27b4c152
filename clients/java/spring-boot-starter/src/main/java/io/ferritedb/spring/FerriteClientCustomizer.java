package io.ferritedb.spring;

import io.ferritedb.client.ClientOptions;

/**
 * A bean of this type changes the client's options after the properties have been applied, before
 * the client connects.
 */
@FunctionalInterface
public interface FerriteClientCustomizer {
    void customize(ClientOptions options);
}
