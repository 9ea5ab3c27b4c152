package org.voltdb;

import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** How the procedure of a class is partitioned; PARTITION ON in CREATE PROCEDURE goes before it. */
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.TYPE)
@Inherited
public @interface ProcInfo {
    /** {@code TABLE.COLUMN: n}, n being the parameter with the column's value, from 0. */
    String partitionInfo() default "";

    boolean singlePartition() default false;
}
