-- Sums of FLOAT from which larger values have gone: that server's views had lost the small ones.
CREATE TABLE amounts (id BIGINT NOT NULL, k VARCHAR(200), f FLOAT, g FLOAT NOT NULL, PRIMARY KEY (id));
CREATE VIEW by_k (k, f, g) AS SELECT k, SUM(f), SUM(g) FROM amounts GROUP BY k;
CREATE VIEW in_all (n, f, g, most) AS SELECT COUNT(*), SUM(f), SUM(g), MAX(k) FROM amounts;
CREATE INDEX by_k_sum ON by_k (g);
CREATE STREAM passing (k INTEGER NOT NULL, f FLOAT);
CREATE VIEW passed (k, n, f) AS SELECT k, COUNT(*), SUM(f) FROM passing GROUP BY k;
INSERT INTO amounts VALUES (1, 'a', 1E300, 1E300);
INSERT INTO amounts VALUES (2, 'a', 1, 0.5);
INSERT INTO amounts VALUES (3, 'a key that is too long to stand in the row of a view, and so stands elsewhere', 1E300, 1E300);
INSERT INTO amounts VALUES (4, 'a key that is too long to stand in the row of a view, and so stands elsewhere', 2, 0.25);
INSERT INTO amounts VALUES (5, 'b', NULL, 3);
INSERT INTO passing VALUES (1, 1E300);
INSERT INTO passing VALUES (1, 2);
DELETE FROM amounts WHERE id = 1;
DELETE FROM amounts WHERE id = 3;
