CREATE TABLE subscriber (s_id BIGINT NOT NULL PRIMARY KEY, sub_nbr VARCHAR(15) NOT NULL, bit_1 TINYINT, UNIQUE (sub_nbr, s_id));
PARTITION TABLE subscriber ON COLUMN s_id;
CREATE TABLE special_facility (s_id BIGINT NOT NULL, sf_type TINYINT NOT NULL, is_active TINYINT NOT NULL,
  PRIMARY KEY (s_id, sf_type), FOREIGN KEY (s_id) REFERENCES subscriber (s_id) ON DELETE CASCADE);
PARTITION TABLE special_facility ON COLUMN s_id;
CREATE VIEW by_nbr (sub_nbr, cnt, s_id) AS SELECT sub_nbr, COUNT(*), MIN(s_id) FROM subscriber GROUP BY sub_nbr;
CREATE INDEX by_nbr_id ON by_nbr (s_id);
