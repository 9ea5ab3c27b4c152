-- Voter's procedures as Java classes, in the place of those of ddl.sql: same names, same
-- parameters, same answers. The classes come first: java/build voter.jar, then `load classes
-- voter.jar` in ferrite sql.

DROP PROCEDURE Initialize IF EXISTS;
DROP PROCEDURE Results IF EXISTS;
DROP PROCEDURE ContestantWinningStates IF EXISTS;
DROP PROCEDURE GetStateHeatmap IF EXISTS;
DROP PROCEDURE Vote IF EXISTS;

CREATE PROCEDURE FROM CLASS voter.Initialize;
CREATE PROCEDURE FROM CLASS voter.Results;
CREATE PROCEDURE FROM CLASS voter.ContestantWinningStates;
CREATE PROCEDURE FROM CLASS voter.GetStateHeatmap;
CREATE PROCEDURE PARTITION ON TABLE votes COLUMN phone_number FROM CLASS voter.Vote;
