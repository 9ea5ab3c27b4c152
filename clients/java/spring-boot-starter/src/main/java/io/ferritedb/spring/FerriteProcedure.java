package io.ferritedb.spring;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * An interface whose methods are procedures: found below the application's package and made a bean.
 * A method calls the procedure of its name with the first letter upper case, or the one that {@link
 * io.ferritedb.client.Procedure} names, and may return what is said there, or objects (one, or a
 * list, or a future of these) for which the application has a {@code Converter<Row, T>}.
 */
@Documented
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.TYPE)
public @interface FerriteProcedure {}
