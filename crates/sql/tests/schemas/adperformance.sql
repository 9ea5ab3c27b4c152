CREATE TABLE event_data (utc_time TIMESTAMP NOT NULL, creative_id INTEGER NOT NULL, cost DECIMAL, campaign_id INTEGER NOT NULL, is_click SMALLINT DEFAULT '0 ',);
PARTITION TABLE event_data ON COLUMN creative_id;
CREATE INDEX event_time ON event_data (utc_time);
ALTER TABLE event_data USING TTL 5 MINUTES ON COLUMN utc_time BATCH_SIZE 2000 MAX_FREQUENCY 3;
CREATE VIEW campaign_rates AS SELECT campaign_id, TRUNCATE(MINUTE, utc_time) AS minute, COUNT(*) AS records, SUM(is_click) AS clicks, SUM(cost) FROM event_data GROUP BY campaign_id, TRUNCATE(MINUTE, utc_time);
