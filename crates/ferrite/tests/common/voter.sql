CREATE TABLE contestants (
  contestant_number INTEGER NOT NULL, contestant_name VARCHAR(50) NOT NULL,
  CONSTRAINT pk_contestants PRIMARY KEY (contestant_number)
);
CREATE TABLE area_code_state (
  area_code SMALLINT NOT NULL, state VARCHAR(2) NOT NULL,
  CONSTRAINT pk_area_code_state PRIMARY KEY (area_code)
);
CREATE TABLE votes (phone_number BIGINT NOT NULL, state VARCHAR(2) NOT NULL, contestant_number INTEGER NOT NULL);
PARTITION TABLE votes ON COLUMN phone_number;
CREATE VIEW v_votes_by_phone_number (phone_number, num_votes) AS
  SELECT phone_number, COUNT(*) FROM votes GROUP BY phone_number;
CREATE VIEW v_votes_by_contestant_number_state (contestant_number, state, num_votes) AS
  SELECT contestant_number, state, COUNT(*) FROM votes GROUP BY contestant_number, state;
CREATE PROCEDURE Vote (phone BIGINT, contestant INTEGER, max_votes BIGINT)
  PARTITION ON TABLE votes COLUMN phone_number
AS BEGIN
  DECLARE voter_state VARCHAR(2) DEFAULT 'XX';
  IF NOT EXISTS (SELECT 1 FROM contestants WHERE contestant_number = contestant) THEN RETURN 1; END IF;
  IF (SELECT num_votes FROM v_votes_by_phone_number WHERE phone_number = phone) >= max_votes THEN RETURN 2; END IF;
  SELECT state INTO voter_state FROM area_code_state WHERE area_code = phone / 10000000;
  INSERT INTO votes (phone_number, state, contestant_number) VALUES (phone, voter_state, contestant);
  RETURN 0;
END;
CREATE TABLE account (id BIGINT NOT NULL, balance BIGINT NOT NULL, PRIMARY KEY (id));
PARTITION TABLE account ON COLUMN id;
CREATE VIEW total (n, balance) AS SELECT COUNT(*), SUM(balance) FROM account;
CREATE PROCEDURE Transfer (source BIGINT, target BIGINT, amount BIGINT)
AS BEGIN
  DECLARE before BIGINT;
  SELECT balance INTO before FROM account WHERE id = source;
  IF before IS NULL THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no such account'; END IF;
  UPDATE account SET balance = balance + amount WHERE id = target;
  UPDATE account SET balance = balance - amount WHERE id = source;
  IF before < amount THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not enough'; END IF;
  RETURN before - amount;
END;
