-- Seed 304795, PostgreSQL. A view's expression refuses the row: ours keeps the view's rows and so refuses the change, theirs would fail when the
-- view is read. Meant so; the comparison allows it since. The case: tests/slt/views.slt.
CREATE TABLE t1 (k INTEGER NOT NULL, a INTEGER, f FLOAT NOT NULL, s VARCHAR(400));
CREATE VIEW m0 (g0, g1, m2, m3) AS SELECT (CASE WHEN FALSE THEN r1.k WHEN CAST(NULL AS BOOLEAN) THEN 7 ELSE r1.a END) AS c1, CAST(r1.s AS BIGINT) AS c2, COUNT(*) AS c3, MAX(r1.f) AS c4 FROM t1 AS r1 WHERE (r1.s LIKE r1.s) GROUP BY (CASE WHEN FALSE THEN r1.k WHEN CAST(NULL AS BOOLEAN) THEN 7 ELSE r1.a END), CAST(r1.s AS BIGINT);
INSERT INTO t1 (k, a, f, s) VALUES (13, 9, (3.7e1), 'ab雪');
-- in PostgreSQL: INSERT INTO t1 (k, a, f, s) VALUES ((13)::bigint, (9)::bigint, (3.7e1)::float8, 'ab雪'::text)
-- expected: error 22018: data exception: invalid character value for cast
-- found: 1 rows changed
