-- Voter: a televised talent contest, in which callers vote for a contestant, each phone number at
-- most a few times.
--
-- The schema and the procedures of the application that the published figures for this kind of
-- database were measured with, written in SQL and SQL/PSM. `ferrite bench voter` and `ferrite demo`
-- run this file, one statement at a time.

DROP PROCEDURE Initialize IF EXISTS;
DROP PROCEDURE Results IF EXISTS;
DROP PROCEDURE ContestantWinningStates IF EXISTS;
DROP PROCEDURE GetStateHeatmap IF EXISTS;
DROP PROCEDURE Vote IF EXISTS;
DROP PROCEDURE VoteStatements IF EXISTS;
DROP VIEW v_votes_by_phone_number IF EXISTS;
DROP VIEW v_votes_by_contestant_number IF EXISTS;
DROP VIEW v_votes_by_contestant_number_state IF EXISTS;
DROP TABLE contestants IF EXISTS;
DROP TABLE votes IF EXISTS;
DROP TABLE area_code_state IF EXISTS;

-- Small, read by every vote, hardly ever changed: a copy on every partition.
CREATE TABLE contestants (
  contestant_number INTEGER NOT NULL,
  contestant_name VARCHAR(50) NOT NULL,
  CONSTRAINT pk_contestants PRIMARY KEY (contestant_number)
);

CREATE TABLE area_code_state (
  area_code SMALLINT NOT NULL,
  state VARCHAR(2) NOT NULL,
  CONSTRAINT pk_area_code_state PRIMARY KEY (area_code)
);

-- The votes: divided over the partitions by phone number, so that one partition knows all votes of
-- a caller.
CREATE TABLE votes (
  phone_number BIGINT NOT NULL,
  state VARCHAR(2) NOT NULL,
  contestant_number INTEGER NOT NULL
);
PARTITION TABLE votes ON COLUMN phone_number;

-- Kept up to date by every vote, within its transaction.
CREATE VIEW v_votes_by_phone_number (phone_number, num_votes) AS
  SELECT phone_number, COUNT(*) FROM votes GROUP BY phone_number;

CREATE VIEW v_votes_by_contestant_number_state (contestant_number, state, num_votes) AS
  SELECT contestant_number, state, COUNT(*) FROM votes GROUP BY contestant_number, state;

-- One vote. Returns 0 when it counts, 1 for a contestant that does not exist, 2 when the phone has
-- used up its votes.
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

-- The same reads and the same insert as a plain procedure of four statements, without logic: the
-- caller names the state and decides on nothing, so every call inserts. Parameters: contestant,
-- phone, area code, phone, state, contestant.
CREATE PROCEDURE VoteStatements
  PARTITION ON TABLE votes COLUMN phone_number PARAMETER 1
AS BEGIN
  SELECT contestant_number FROM contestants WHERE contestant_number = ?;
  SELECT num_votes FROM v_votes_by_phone_number WHERE phone_number = ?;
  SELECT state FROM area_code_state WHERE area_code = ?;
  INSERT INTO votes (phone_number, state, contestant_number) VALUES (?, ?, ?);
END;

-- Votes per contestant over all states, the winner first.
CREATE PROCEDURE Results AS
  SELECT c.contestant_name AS contestant_name, c.contestant_number AS contestant_number, SUM(v.num_votes) AS total_votes
  FROM v_votes_by_contestant_number_state AS v, contestants AS c
  WHERE v.contestant_number = c.contestant_number
  GROUP BY c.contestant_name, c.contestant_number
  ORDER BY total_votes DESC, contestant_number ASC, contestant_name ASC;

-- The states in which a contestant leads, with the votes there, most votes first. Parameters:
-- contestant, how many states.
CREATE PROCEDURE ContestantWinningStates AS
  SELECT t.state AS state, t.num_votes AS num_votes
  FROM (SELECT state, contestant_number, SUM(num_votes) AS num_votes
        FROM v_votes_by_contestant_number_state GROUP BY state, contestant_number) AS t
  INNER JOIN
       (SELECT s.state AS state, MAX(s.num_votes) AS most
        FROM (SELECT state, contestant_number, SUM(num_votes) AS num_votes
              FROM v_votes_by_contestant_number_state GROUP BY state, contestant_number) AS s
        GROUP BY s.state) AS m
    ON t.state = m.state AND t.num_votes = m.most
  WHERE t.contestant_number = ?
  ORDER BY num_votes DESC, state ASC
  LIMIT ?;

-- The leading contestant of each state, ties included, then the totals of all contestants: a map
-- and its legend.
CREATE PROCEDURE GetStateHeatmap AS BEGIN
  SELECT t.state AS state, t.contestant_number AS contestant_number, t.num_votes AS num_votes
  FROM (SELECT state, contestant_number, SUM(num_votes) AS num_votes
        FROM v_votes_by_contestant_number_state GROUP BY state, contestant_number) AS t
  INNER JOIN
       (SELECT s.state AS state, MAX(s.num_votes) AS most
        FROM (SELECT state, contestant_number, SUM(num_votes) AS num_votes
              FROM v_votes_by_contestant_number_state GROUP BY state, contestant_number) AS s
        GROUP BY s.state) AS m
    ON t.state = m.state AND t.num_votes = m.most
  ORDER BY state ASC, contestant_number ASC;
  SELECT contestant_number, SUM(num_votes) AS num_votes
  FROM v_votes_by_contestant_number_state
  GROUP BY contestant_number
  ORDER BY num_votes DESC, contestant_number ASC;
END;

-- Fills the two small tables: contestants 1 to max_contestants with the first of the
-- comma-separated names, and the area codes. Returns how many contestants there are; does nothing
-- when there are some already.
CREATE PROCEDURE Initialize (max_contestants INTEGER, names VARCHAR(1024))
AS BEGIN
  DECLARE existing BIGINT DEFAULT 0;
  DECLARE number INTEGER DEFAULT 1;
  DECLARE comma INTEGER DEFAULT 0;
  DECLARE rest VARCHAR(1024) DEFAULT '';
  DECLARE name VARCHAR(1024) DEFAULT '';
  SET existing = (SELECT COUNT(*) FROM contestants);
  IF existing <> 0 THEN RETURN existing; END IF;
  SET rest = names;
  WHILE number <= max_contestants DO
    SET comma = POSITION(',' IN rest);
    IF comma = 0 THEN
      SET name = rest;
      SET rest = '';
    ELSE
      SET name = SUBSTRING(rest FROM 1 FOR comma - 1);
      SET rest = SUBSTRING(rest FROM comma + 1);
    END IF;
    INSERT INTO contestants (contestant_number, contestant_name) VALUES (number, name);
    SET number = number + 1;
  END WHILE;
  INSERT INTO area_code_state (area_code, state) VALUES
    (907, 'AK'),
    (205, 'AL'), (251, 'AL'), (256, 'AL'), (334, 'AL'),
    (479, 'AR'), (501, 'AR'), (870, 'AR'),
    (480, 'AZ'), (520, 'AZ'), (602, 'AZ'), (623, 'AZ'), (928, 'AZ'),
    (209, 'CA'), (213, 'CA'), (279, 'CA'), (310, 'CA'), (323, 'CA'), (341, 'CA'), (408, 'CA'), (415, 'CA'), (424, 'CA'),
    (442, 'CA'), (510, 'CA'), (530, 'CA'), (559, 'CA'), (562, 'CA'), (619, 'CA'), (626, 'CA'), (628, 'CA'), (650, 'CA'),
    (657, 'CA'), (661, 'CA'), (669, 'CA'), (707, 'CA'), (714, 'CA'), (747, 'CA'), (760, 'CA'), (805, 'CA'), (818, 'CA'),
    (820, 'CA'), (831, 'CA'), (840, 'CA'), (858, 'CA'), (909, 'CA'), (916, 'CA'), (925, 'CA'), (949, 'CA'), (951, 'CA'),
    (303, 'CO'), (719, 'CO'), (720, 'CO'), (970, 'CO'),
    (203, 'CT'), (475, 'CT'), (860, 'CT'), (959, 'CT'),
    (202, 'DC'),
    (302, 'DE'),
    (239, 'FL'), (305, 'FL'), (321, 'FL'), (352, 'FL'), (386, 'FL'), (407, 'FL'), (448, 'FL'), (561, 'FL'), (689, 'FL'),
    (727, 'FL'), (754, 'FL'), (772, 'FL'), (786, 'FL'), (813, 'FL'), (850, 'FL'), (863, 'FL'), (904, 'FL'), (941, 'FL'),
    (954, 'FL'),
    (229, 'GA'), (404, 'GA'), (470, 'GA'), (478, 'GA'), (678, 'GA'), (706, 'GA'), (762, 'GA'), (770, 'GA'), (912, 'GA'),
    (808, 'HI'),
    (319, 'IA'), (515, 'IA'), (563, 'IA'), (641, 'IA'), (712, 'IA'),
    (208, 'ID'),
    (217, 'IL'), (224, 'IL'), (309, 'IL'), (312, 'IL'), (331, 'IL'), (464, 'IL'), (618, 'IL'), (630, 'IL'), (708, 'IL'),
    (773, 'IL'), (779, 'IL'), (815, 'IL'), (847, 'IL'), (872, 'IL'),
    (219, 'IN'), (260, 'IN'), (317, 'IN'), (574, 'IN'), (765, 'IN'), (812, 'IN'),
    (316, 'KS'), (620, 'KS'), (785, 'KS'), (913, 'KS'),
    (270, 'KY'), (502, 'KY'), (606, 'KY'), (859, 'KY'),
    (225, 'LA'), (318, 'LA'), (337, 'LA'), (504, 'LA'), (985, 'LA'),
    (339, 'MA'), (351, 'MA'), (413, 'MA'), (508, 'MA'), (617, 'MA'), (774, 'MA'), (781, 'MA'), (857, 'MA'), (978, 'MA'),
    (240, 'MD'), (301, 'MD'), (410, 'MD'), (443, 'MD'),
    (207, 'ME'),
    (231, 'MI'), (248, 'MI'), (269, 'MI'), (278, 'MI'), (313, 'MI'), (517, 'MI'), (586, 'MI'), (616, 'MI'), (679, 'MI'),
    (734, 'MI'), (810, 'MI'), (906, 'MI'), (947, 'MI'), (989, 'MI'),
    (218, 'MN'), (320, 'MN'), (507, 'MN'), (612, 'MN'), (651, 'MN'), (763, 'MN'), (952, 'MN'),
    (314, 'MO'), (417, 'MO'), (557, 'MO'), (573, 'MO'), (636, 'MO'), (660, 'MO'), (816, 'MO'), (975, 'MO'),
    (228, 'MS'), (601, 'MS'), (662, 'MS'), (769, 'MS'),
    (406, 'MT'),
    (252, 'NC'), (336, 'NC'), (704, 'NC'), (828, 'NC'), (910, 'NC'), (919, 'NC'), (980, 'NC'), (984, 'NC'),
    (701, 'ND'),
    (308, 'NE'), (402, 'NE'),
    (603, 'NH'),
    (201, 'NJ'), (551, 'NJ'), (609, 'NJ'), (732, 'NJ'), (848, 'NJ'), (856, 'NJ'), (862, 'NJ'), (908, 'NJ'), (973, 'NJ'),
    (505, 'NM'), (575, 'NM'), (957, 'NM'),
    (702, 'NV'), (775, 'NV'),
    (212, 'NY'), (315, 'NY'), (347, 'NY'), (516, 'NY'), (518, 'NY'), (585, 'NY'), (607, 'NY'), (631, 'NY'), (646, 'NY'),
    (716, 'NY'), (718, 'NY'), (845, 'NY'), (914, 'NY'), (917, 'NY'),
    (216, 'OH'), (234, 'OH'), (283, 'OH'), (330, 'OH'), (380, 'OH'), (419, 'OH'), (440, 'OH'), (513, 'OH'), (567, 'OH'),
    (614, 'OH'), (740, 'OH'), (937, 'OH'),
    (405, 'OK'), (580, 'OK'), (918, 'OK'),
    (458, 'OR'), (503, 'OR'), (541, 'OR'),
    (215, 'PA'), (267, 'PA'), (412, 'PA'), (484, 'PA'), (570, 'PA'), (610, 'PA'), (717, 'PA'), (724, 'PA'), (814, 'PA'),
    (835, 'PA'), (878, 'PA'),
    (401, 'RI'),
    (803, 'SC'), (843, 'SC'), (864, 'SC'),
    (605, 'SD'),
    (423, 'TN'), (615, 'TN'), (731, 'TN'), (865, 'TN'), (901, 'TN'), (931, 'TN'),
    (210, 'TX'), (214, 'TX'), (254, 'TX'), (281, 'TX'), (325, 'TX'), (361, 'TX'), (409, 'TX'), (430, 'TX'), (432, 'TX'),
    (469, 'TX'), (512, 'TX'), (682, 'TX'), (713, 'TX'), (737, 'TX'), (806, 'TX'), (817, 'TX'), (830, 'TX'), (832, 'TX'),
    (903, 'TX'), (915, 'TX'), (936, 'TX'), (940, 'TX'), (956, 'TX'), (972, 'TX'), (979, 'TX'),
    (385, 'UT'), (435, 'UT'), (801, 'UT'),
    (276, 'VA'), (434, 'VA'), (540, 'VA'), (571, 'VA'), (703, 'VA'), (757, 'VA'), (804, 'VA'), (826, 'VA'),
    (802, 'VT'),
    (206, 'WA'), (253, 'WA'), (360, 'WA'), (425, 'WA'), (509, 'WA'), (564, 'WA'),
    (262, 'WI'), (414, 'WI'), (608, 'WI'), (715, 'WI'), (920, 'WI'),
    (304, 'WV'),
    (307, 'WY');
  RETURN max_contestants;
END;
