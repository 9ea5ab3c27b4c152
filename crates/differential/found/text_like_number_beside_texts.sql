-- Seed 350020, parameters anywhere. MIN(?) of a text EXCEPT a parameter '-7' was refused: '-7' was taken for the number that MIN(?)
-- was assumed to be, the other for a text. The type of the value decides now; the case: tests/slt/parameters_contexts.slt.
CREATE TABLE t1 (k BIGINT);
SELECT MIN('') AS c2 FROM t1 AS r4 EXCEPT SELECT '-7' AS c2 FROM t1 AS r5;
-- as SELECT MIN(?) AS c2 FROM t1 AS r4 EXCEPT SELECT ? AS c2 FROM t1 AS r5 with [Text(""), Text("-7")]
-- found: error 07006: unable to convert VARCHAR to BIGINT
