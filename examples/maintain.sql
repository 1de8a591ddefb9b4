-- What left New York's airports in 2013, until 9 December. A table that is to be followed writes down what changes: its change feed.
CREATE OR REPLACE TABLE departures USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true) AS
SELECT flight_id, carrier, tailnum, origin, date(scheduled) AS day, CAST(date_trunc('HOUR', scheduled) AS TIMESTAMP_NTZ) AS hour,
       departed, delay_minutes
FROM flights WHERE departed IS NOT NULL AND scheduled < TIMESTAMP_NTZ '2013-12-10';

-- The weather is there already, a row for each airport and hour. From now on it has a feed, too.
ALTER TABLE weather SET TBLPROPERTIES (delta.enableChangeDataFeed = true);

-- The register of planes is empty as yet.
CREATE OR REPLACE TABLE fleet (plane STRING, model STRING, seats INT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true);

SELECT count(*) AS departures, min(day) AS first, max(day) AS last FROM departures;
