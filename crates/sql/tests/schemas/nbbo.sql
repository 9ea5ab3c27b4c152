CREATE STREAM ticks PARTITION ON COLUMN symbol (symbol VARCHAR(16) NOT NULL, time TIMESTAMP NOT NULL, seq BIGINT NOT NULL, bid INTEGER);
CREATE TABLE last_ticks (symbol VARCHAR(16) NOT NULL, time TIMESTAMP NOT NULL, bid INTEGER, CONSTRAINT pk PRIMARY KEY (symbol));
PARTITION TABLE last_ticks ON COLUMN symbol;
CREATE INDEX rank ON last_ticks (symbol, time, bid);
CREATE VIEW per_minute AS SELECT symbol, TRUNCATE(MINUTE, time) AS minute, COUNT(*) AS ticks, MAX(bid) FROM ticks GROUP BY symbol, TRUNCATE(MINUTE, time);
CREATE PROCEDURE ProcessTick PARTITION ON TABLE ticks COLUMN symbol AS INSERT INTO ticks VALUES (?, ?, ?, ?);
