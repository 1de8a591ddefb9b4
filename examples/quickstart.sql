-- Every flight that left New York in 2013, and the weather, are now Delta tables: flights, weather, planes.
SELECT count(*) AS flights, count_if(departed IS NULL) AS cancelled, min(scheduled) AS first, max(scheduled) AS last FROM flights;

-- Question 1. A departure more than an hour late raises an alert. Nobody wants 26,000 pages a year:
-- at most one per airport and hour, please. DEDUPLICATE keeps the first and drops what follows within the hour.
CREATE OR REPLACE TEMP VIEW alerts AS
SELECT origin, departed, scheduled, flight_id, carrier, dest, delay_minutes FROM flights WHERE delay_minutes > 60;

CREATE OR REPLACE TABLE pages USING delta AS
SELECT * FROM DEDUPLICATE(TABLE(alerts) PARTITION BY origin ORDER BY departed, within => INTERVAL 1 HOUR);

SELECT origin, alerts, pages
FROM (SELECT origin, count(*) AS alerts FROM alerts GROUP BY origin) JOIN (SELECT origin, count(*) AS pages FROM pages GROUP BY origin) USING (origin)
ORDER BY origin;

-- What exactly was held back on the evening of 1 January at JFK, and behind which page? output => 'dropped' tells, row by row.
SELECT departed, flight_id, reason, kept_time
FROM DEDUPLICATE(TABLE(alerts) PARTITION BY origin ORDER BY departed, within => INTERVAL 1 HOUR, output => 'dropped')
WHERE origin = 'JFK' AND date(departed) = DATE '2013-01-01' ORDER BY departed LIMIT 8;

-- Question 2. In a storm alerts keep coming. How many incidents were there, if each alert prolongs the one before?
-- refresh => true lets a dropped alert extend the kept one's hour.
CREATE OR REPLACE TABLE incidents USING delta AS
SELECT * FROM DEDUPLICATE(TABLE(alerts) PARTITION BY origin ORDER BY departed, within => INTERVAL 1 HOUR, refresh => true);

SELECT month(departed) AS month, count(*) AS incidents FROM incidents GROUP BY month(departed) ORDER BY incidents DESC LIMIT 3;

-- Question 3. When did each plane make its first flight of the day? One row per plane and day, with the day's bounds.
CREATE OR REPLACE TABLE first_flights USING delta AS
SELECT * FROM DISTINCT_IN_WINDOW(TABLE(flights) PARTITION BY tailnum ORDER BY departed, size => INTERVAL 1 DAY);

SELECT hour(departed) AS leaves_at, count(*) AS first_flights FROM first_flights GROUP BY hour(departed) ORDER BY first_flights DESC LIMIT 5;

-- 336,776 rows went in and fewer came out. Where are the others? Nothing is lost silently: the same call counts them.
SELECT metric, value, unit
FROM DISTINCT_IN_WINDOW(TABLE(flights) PARTITION BY tailnum ORDER BY departed, size => INTERVAL 1 DAY, output => 'metrics') WHERE value > 0;

-- Question 4. The timetable says when a plane should leave, the log says when it did. Read the log in the order in which
-- planes left, with the timetable as event time: how late does the log run behind itself, per airport?
SELECT origin, count(*) AS flights, round(max(lateness) / 3600, 1) AS most_hours_late, count_if(lateness > 6 * 3600) AS beyond_6_hours
FROM DEDUPLICATE(TABLE(SELECT * FROM flights WHERE departed IS NOT NULL) PARTITION BY flight_id ORDER BY departed,
                 time => 'scheduled', clock_by => ARRAY('origin'), within => INTERVAL 1 DAY, output => 'all')
GROUP BY origin ORDER BY origin;

-- Question 5. Weather comes hourly. For a daily report: the last reading of each airport and day.
CREATE OR REPLACE TABLE daily_weather USING delta AS
SELECT origin, at, temperature, wind_speed, visibility
FROM DEDUPLICATE(TABLE(SELECT *, date(at) AS day FROM weather) PARTITION BY (origin, day) ORDER BY at, keep => 'last');

SELECT origin, count(*) AS days, round(avg(temperature), 1) AS fahrenheit_at_night FROM daily_weather GROUP BY origin ORDER BY origin;

-- Which functions and options are there? Ask in SQL; DESCRIBE FUNCTION EXTENDED DEDUPLICATE says more.
SELECT argument, type, default FROM FUNCTION_CATALOG() WHERE function = 'DEDUPLICATE' ORDER BY position LIMIT 5;
