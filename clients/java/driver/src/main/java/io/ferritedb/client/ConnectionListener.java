package io.ferritedb.client;

/** What happens to connections. Called on the driver's threads: must not block. */
public interface ConnectionListener {
    default void up(String address) {}

    default void down(String address, String reason) {}

    /** A node could not be reached or refused the login. Unless permanent, it is tried again. */
    default void connectFailed(String address, ConnectException reason) {}

    /** An answer came after its call had ended by its timeout. */
    default void late(String procedure) {}

    /** All room is taken (true), or there is room again (false). */
    default void backPressure(boolean full) {}

    default void topologyChanged() {}
}
