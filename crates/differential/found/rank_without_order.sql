-- Seed 301846, PostgreSQL; so 305403 and 305611. RANK and DENSE_RANK were refused in a window without ORDER BY, where all rows are peers.
-- They answer 1 now; the cases: tests/slt/windows.slt.
CREATE TABLE t0 (t TIMESTAMP DEFAULT TIMESTAMP '1969-12-31 23:59:59.5');
CREATE TABLE t1 (k BIGINT NOT NULL, a SMALLINT, b INTEGER DEFAULT -2, x BIGINT, s VARCHAR(120));
INSERT INTO t1 (k, a, b, x, s) SELECT (-1) AS c1, CAST(NULL AS BIGINT) AS c2, 8 AS c3, DENSE_RANK() OVER () AS c4, 'b' AS c5 FROM t0 AS r1;
-- in PostgreSQL: INSERT INTO t1 (k, a, b, x, s) SELECT (-1)::bigint AS c1, CAST(NULL AS BIGINT) AS c2, (8)::bigint AS c3, DENSE_RANK() OVER () AS c4, 'b'::text AS c5 FROM t0 AS r1
-- expected: error 42P20: SQL error while compiling query: Error in "INSERT INTO t1 (k, a, b, x, s) SELECT (-1) AS c1, CAST(NULL AS BIGINT) AS c2, 8 AS c3, DENSE_RANK() OVER () AS c4, 'b' AS c5 FROM t0 AS r1" - DENSE_RANK needs ORDER BY in its window
-- found: 0 rows changed
