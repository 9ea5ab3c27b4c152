package io.ferritedb.client;

/** A node cannot be reached, or refuses the login. */
public class ConnectException extends RuntimeException {
    private static final long serialVersionUID = 1L;
    private final boolean permanent;

    ConnectException(String message, boolean permanent, Throwable cause) {
        super(message, cause);
        this.permanent = permanent;
    }

    /** True if another attempt cannot help, as with a wrong password. */
    public boolean permanent() {
        return permanent;
    }
}
