package io.ferritedb.client;

/** What happens to connections. Called on the driver's threads: must not block. */
public interface ConnectionListener {
    /** A node took the login. */
    default void up(String address) {}

    /** A connection broke; calls on it ended as unknown. It is made again. */
    default void down(String address, String reason) {}

    /** A node could not be reached or refused the login. Unless permanent, it is tried again. */
    default void connectFailed(String address, ConnectException reason) {}

    /** An answer came after its call had ended by its timeout. */
    default void late(String procedure) {}

    /** All room is taken (true), or there is room again (false). */
    default void backPressure(boolean full) {}

    /** Which node leads which partition has changed. */
    default void topologyChanged() {}
}
