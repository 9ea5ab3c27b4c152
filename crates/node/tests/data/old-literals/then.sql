INSERT INTO points (id, d) VALUES (6, 7);
DELETE FROM points WHERE id = 3;
UPDATE points SET d = 1 WHERE id = 4;
