-- An airport's weather is a row an hour, 2013, in the Delta table weather. When the clocks went back, on 3 November, one hour came twice.
-- A version of a row has one time, so keep the later reading of equal times.
INSERT OVERWRITE weather
SELECT * FROM DEDUPLICATE(TABLE(weather) PARTITION BY origin ORDER BY at, within => INTERVAL 0 SECONDS, keep => 'last');

-- Say what the rows are: versions of an airport's weather, each valid from its time until the next one.
ALTER TABLE weather SET TBLPROPERTIES ('streamtime.key' = 'origin', 'streamtime.time' = 'at');

-- 1. What was the weather when the plane left? Each flight with the row that was valid at its airport, at its own time.
CREATE OR REPLACE TEMP VIEW with_weather AS
SELECT f.flight_id, f.origin, f.departed, w.at, w.temperature, w.wind_speed, w.visibility
FROM flights f LEFT JOIN weather FOR SYSTEM_TIME AS OF f.departed w ON f.origin = w.origin;

-- It is a view like any other, and answers anew whenever it is read. Keep what it says today.
CREATE OR REPLACE TABLE answers USING delta AS TABLE with_weather;

SELECT flight_id, departed, at, temperature, round(wind_speed, 1) AS wind, visibility FROM answers
WHERE departed BETWEEN TIMESTAMP_NTZ '2013-02-08 12:50:00' AND TIMESTAMP_NTZ '2013-02-08 13:05:00' ORDER BY departed, flight_id;

-- Which flights found none? Those that never left, and so have no time. An inner join says so of each row that it drops.
SELECT count(*) AS flights, count(at) AS found, count_if(departed IS NULL) AS cancelled, count_if(at IS NULL AND departed IS NOT NULL) AS others
FROM answers;

SELECT reason, count(*) AS flights
FROM AS_OF_JOIN(TABLE(flights) PARTITION BY origin ORDER BY departed, TABLE(weather) PARTITION BY origin ORDER BY at, output => 'dropped')
GROUP BY reason;

-- Is the row that was valid a good answer? The readings end on 30 December, and some hours are missing: how old is what was found?
SELECT CASE WHEN departed <= at + INTERVAL 1 HOUR THEN '1. up to 1 hour'
            WHEN departed <= at + INTERVAL 6 HOURS THEN '2. up to 6 hours' ELSE '3. older' END AS age,
       count(*) AS flights, min(departed) AS first, max(departed) AS last
FROM answers WHERE at IS NOT NULL GROUP BY age ORDER BY age;

-- 2. The same as a function, which takes more options: nothing that is older than an hour.
CREATE OR REPLACE TEMP VIEW tolerant AS
SELECT flight_id, origin, departed, at, temperature, wind_speed, visibility
FROM AS_OF_JOIN(TABLE(flights), TABLE(weather), using => ARRAY('origin'), match => 'departed >= at', join_type => 'left',
                tolerance => INTERVAL 1 HOUR);

SELECT count(*) AS flights, count(at) AS found, count_if(departed IS NOT NULL AND at IS NULL) AS only_older FROM tolerant;

-- And in the words of Spark 4.3, on this Spark. That all of them agree is checked at the end, against plain SQL.
CREATE OR REPLACE TEMP VIEW in_words_of_spark AS
SELECT flight_id, origin, departed, at, temperature, wind_speed, visibility
FROM flights LEFT ASOF JOIN weather MATCH_CONDITION (departed >= at) USING (origin);

-- 3. A table that says nothing of time: the strongest wind so far at each airport. Its rows are changed in place; all that is needed is
-- Delta's change data feed. Each report writes down when it was made, and, so that we can check, what it said.
CREATE OR REPLACE TABLE strongest USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true) AS
SELECT origin, max(wind_speed) AS wind, max_by(at, wind_speed) AS since FROM weather WHERE month(at) = 1 GROUP BY origin;

CREATE OR REPLACE TABLE reports USING delta AS SELECT 'January' AS report, current_timestamp() AS made, origin, wind AS said FROM strongest;

MERGE INTO strongest s
USING (SELECT origin, max(wind_speed) AS wind, max_by(at, wind_speed) AS since FROM weather WHERE month(at) = 2 GROUP BY origin) n
ON s.origin = n.origin WHEN MATCHED AND n.wind > s.wind THEN UPDATE SET wind = n.wind, since = n.since;

INSERT INTO reports SELECT 'February', current_timestamp(), origin, wind FROM strongest;

-- 1,048 miles an hour, at Newark? Somebody notices, and puts January's record back.
UPDATE strongest SET wind = 42.57886, since = TIMESTAMP_NTZ '2013-01-31 06:00:00' WHERE wind > 200;

INSERT INTO reports SELECT 'corrected', current_timestamp(), origin, wind FROM strongest;

-- The table has forgotten. Its history has not:
SELECT origin, round(wind, 1) AS wind, since, from_version, to_version FROM TABLE_HISTORY('strongest', keys => ARRAY('origin')) ORDER BY origin, from_version;

-- Why did the report of February say that? Ask the table as it was when each report was made: by commit, since it declares no time.
SELECT r.report, r.origin, round(r.said, 1) AS said, round(s.wind, 1) AS wind, s.since
FROM reports r JOIN strongest FOR SYSTEM_TIME AS OF r.made s ON r.origin = s.origin WHERE r.origin = 'EWR' ORDER BY r.made;

-- 4. A training set: will a flight be late, by the weather? But a reading is published 20 to 70 minutes after its hour (that is made up
-- here, from a hash), and sometimes after the next one. Who predicts at the time of the timetable knows only what was published by then.
CREATE OR REPLACE TEMP VIEW bulletins AS
SELECT *, at + make_dt_interval(0, 0, 20 + pmod(xxhash64(origin, at), 51)) AS published FROM weather;

-- The naive join takes the row that was valid at that time, as it was known afterwards.
CREATE OR REPLACE TABLE naive USING delta AS
SELECT f.flight_id, f.scheduled, f.delay_minutes, b.at, b.published, b.wind_speed, b.visibility
FROM flights f LEFT ASOF JOIN bulletins b MATCH_CONDITION (f.scheduled >= b.at) ON f.origin = b.origin;

-- Known as of: arrival => .. names what both sides have in one order, here a time on one clock. What arrived later does not count.
CREATE OR REPLACE TABLE known USING delta AS
SELECT flight_id, scheduled, delay_minutes, at, published, wind_speed, visibility
FROM AS_OF_JOIN(TABLE(SELECT *, scheduled AS arrived FROM flights) PARTITION BY origin ORDER BY scheduled,
                TABLE(SELECT *, published AS arrived FROM bulletins) PARTITION BY origin ORDER BY at, arrival => 'arrived', join_type => 'left');

-- In how many rows do they differ? Just those in which the naive one read what nobody had seen.
SELECT count(*) AS flights, count_if(NOT k.at <=> n.at) AS rows_that_differ, count_if(n.published >= n.scheduled) AS not_yet_published,
       count_if(NOT k.wind_speed <=> n.wind_speed) AS other_wind, count_if(k.published >= k.scheduled) AS leaks_when_known
FROM naive n JOIN known k USING (flight_id);

-- The shorter after the full hour a flight is due, the more it leaks.
SELECT 10 * floor(minute(n.scheduled) / 10) AS minutes_past_the_hour, count(*) AS flights, count_if(NOT k.at <=> n.at) AS differ,
       rpad(repeat('#', CAST(round(40 * avg(int(NOT k.at <=> n.at))) AS INT)), 40, '.') AS share
FROM naive n JOIN known k USING (flight_id) GROUP BY ALL ORDER BY minutes_past_the_hour;
