package org.voltdb;

/**
 * An SQL statement of a procedure: a field of its class. It is compiled when the class is loaded.
 */
public class SQLStmt {
    private final String text;
    /** The statement's number within its procedure; -1 until the server has compiled it. */
    int number = -1;

    public SQLStmt(String sql) {
        this(sql, null);
    }

    /** The join order is taken note of by none: the planner finds a better one. */
    public SQLStmt(String sql, String joinOrder) {
        if (sql == null) {
            throw new NullPointerException("an SQLStmt needs an SQL text");
        }
        text = sql;
    }

    public String getText() {
        return text;
    }

    @Override
    public String toString() {
        return text;
    }
}
