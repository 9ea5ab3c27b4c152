-- Seed 310002, parameters anywhere. A text that is not a number was refused as the parameter of a CAST that is not reached; as
-- a literal it is an error only where CAST is evaluated. So it is now; the case: tests/slt/parameters_contexts.slt.
CREATE TABLE t3 (o BOOLEAN DEFAULT TRUE NOT NULL);
SELECT (CASE WHEN CAST(NULL AS BOOLEAN) THEN CAST('a' AS BIGINT) ELSE 1 END) AS c1 FROM t3 AS r1;
-- as SELECT (CASE WHEN ? THEN CAST(? AS BIGINT) ELSE 1 END) AS c1 FROM t3 AS r1 with [Null, Text("a")]
-- expected: 0 rows
-- found: error 07006: unable to convert VARCHAR a to BIGINT
