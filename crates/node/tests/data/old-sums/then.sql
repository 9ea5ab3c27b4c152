INSERT INTO amounts VALUES (6, 'b', 1E300, 1E300);
INSERT INTO amounts VALUES (7, 'b', 4, 0.125);
DELETE FROM amounts WHERE id = 6;
INSERT INTO passing VALUES (2, 5);
