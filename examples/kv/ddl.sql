-- The key-value application: one table that is divided by its key, and one that every partition
-- has.

DROP PROCEDURE selectR IF EXISTS;
DROP TABLE store IF EXISTS;
DROP TABLE storeR IF EXISTS;

CREATE TABLE store (
  key VARCHAR(250) NOT NULL,
  value VARBINARY(1048576) NOT NULL,
  PRIMARY KEY (key)
);
PARTITION TABLE store ON COLUMN key;

CREATE TABLE storeR (
  key VARCHAR(250) NOT NULL,
  value VARBINARY(1048576) NOT NULL,
  PRIMARY KEY (key)
);

-- Tables that are not divided have no select procedure of their own.
CREATE PROCEDURE selectR AS SELECT key, value FROM storeR WHERE key = ?;
