package io.ferritedb.client;

/** A node cannot be reached, or refuses the login. */
public class ConnectException extends RuntimeException {
    private static final long serialVersionUID = 2L;
    private final String code;
    private final boolean permanent;

    ConnectException(String message, String code, boolean permanent, Throwable cause) {
        super(message, cause);
        this.code = code;
        this.permanent = permanent;
    }

    /**
     * The SQLSTATE, never null: {@code 08001} if the server could not be reached, {@code 28000} if
     * user or password are wrong. docs/errors.md lists them.
     */
    public String code() {
        return code;
    }

    /** True if another attempt cannot help, as with a wrong password. */
    public boolean permanent() {
        return permanent;
    }
}
