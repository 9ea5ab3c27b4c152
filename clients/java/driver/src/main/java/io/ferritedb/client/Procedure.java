package io.ferritedb.client;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Name of the procedure that a method of an interface for {@link Client#procedures} calls. Without
 * it the method's name with its first letter upper case. A method returns what it wants of the
 * result: {@code void}, {@code long}, {@code int}, {@code String}, a record (null if there is no
 * row), a {@code List} of records, {@link Table}, {@link CallResult}, or a {@code
 * CompletableFuture} of one of these.
 */
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.METHOD)
public @interface Procedure {
    String value();
}
