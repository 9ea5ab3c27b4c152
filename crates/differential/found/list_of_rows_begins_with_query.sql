-- Seed 302193, PostgreSQL; so 303720, 304000, 304542 and 306129. A list of rows whose first begins with a query was not read as rows.
-- Fixed where the parser is given its tokens; the cases: tests/slt/subqueries.slt.
CREATE TABLE t0 (f FLOAT);
CREATE TABLE t1 (o BOOLEAN);
UPDATE t1 SET o = TRUE WHERE (EXISTS (SELECT 6 AS c1 FROM t1 AS r1 WHERE (((1e0), TRUE) IN (((SELECT (1e0) AS c1 FROM t0 AS r2), TRUE), ((1e0), TRUE)))));
-- in PostgreSQL: UPDATE t1 SET o = TRUE WHERE (EXISTS (SELECT (6)::bigint AS c1 FROM t1 AS r1 WHERE (((1e0)::float8, TRUE) IN (((SELECT (1e0)::float8 AS c1 FROM t0 AS r2), TRUE), ((1e0)::float8, TRUE)))))
-- expected: error 42601: SQL error while compiling query: Error in "UPDATE t1 SET o = TRUE WHERE (EXISTS (SELECT 6 AS c1 FROM t1 AS r1 WHERE (((1e0), TRUE) IN (((SELECT (1e0) AS c1 FROM t0 AS r2), TRUE), ((1e0), TRUE)))))" - rows of different width are compared
-- found: 0 rows changed
