-- Seed 1047, "three parts"; seed 101, PostgreSQL. WHERE over a FULL JOIN was tested inside the view that stood on its left, so that rows of
-- the right side without a partner passed it. Fixed in the planner; its case: tests/slt/views.slt.
CREATE TABLE t0 (a BIGINT NOT NULL, f FLOAT, s VARCHAR(120), v VARBINARY(100) NOT NULL, e DATE);
PARTITION TABLE t0 ON COLUMN a;
CREATE TABLE t1 (s VARCHAR(120));
CREATE VIEW m0 (g0, g1, m2) AS SELECT r1.v AS c1, COALESCE(r1.e, r1.e) AS c2, COUNT(*) AS c3 FROM t0 AS r1 WHERE (r1.v < r1.v) GROUP BY r1.v, COALESCE(r1.e, r1.e);
INSERT INTO t1 (s) VALUES ('');
SELECT (3.7e1) AS c1 FROM m0 AS r3 FULL JOIN t1 AS r4 ON TRUE WHERE (X'' IS DISTINCT FROM r3.g0);
SELECT (3.7e1) AS c1 FROM m0 AS r3 FULL JOIN t1 AS r4 ON TRUE WHERE (NOT (X'' IS DISTINCT FROM r3.g0));
SELECT (3.7e1) AS c1 FROM m0 AS r3 FULL JOIN t1 AS r4 ON TRUE WHERE ((X'' IS DISTINCT FROM r3.g0) IS NULL);
