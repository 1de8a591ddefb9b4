-- The log of 2013's departures from New York, in the order in which planes left. Their event time is the timetable's: a plane that
-- leaves late comes late. flights holds it, a Delta table.
CREATE OR REPLACE TEMP VIEW departures AS
SELECT row_number() OVER (ORDER BY departed, flight_id) AS offset, origin, scheduled, delay_minutes, carrier FROM flights WHERE departed IS NOT NULL;

-- How many flights did each airport have in each hour of the timetable? As the log comes in, the answer changes with every row:
-- one change each, like the changelog that a windowed table emits. An hour stays open for a day, so that nobody is too late.
CREATE OR REPLACE TEMP VIEW updates AS
SELECT * FROM WINDOW_UPDATES(TABLE(departures) PARTITION BY origin ORDER BY offset, time => 'scheduled', size => INTERVAL 1 HOUR,
                             grace => INTERVAL 1 DAY, aggregates => 'count(*) AS flights, avg(delay_minutes) AS delay');

SELECT offset, origin, window_start, flights, round(delay, 1) AS delay, window_close, change_type, change_time FROM updates ORDER BY offset LIMIT 6;

-- A report wants one answer for each hour, and never a correction: hold each window's newest change until the window is closed.
CREATE OR REPLACE TABLE hourly USING delta AS
SELECT * FROM SUPPRESS_UNTIL_CLOSE(TABLE(updates) PARTITION BY (origin, window_start) ORDER BY (offset, change_seq), time => 'change_time');

SELECT origin, count(*) AS hours, sum(flights) AS flights, max(flights) AS busiest_hour FROM hourly GROUP BY origin ORDER BY origin;

-- The same in one call: emit => 'final'. Do both say the same? Not one row differs.
CREATE OR REPLACE TEMP VIEW in_one_call AS
SELECT * FROM WINDOW_UPDATES(TABLE(departures) PARTITION BY origin ORDER BY offset, time => 'scheduled', size => INTERVAL 1 HOUR,
                             grace => INTERVAL 1 DAY, aggregates => 'count(*) AS flights, avg(delay_minutes) AS delay', emit => 'final');

SELECT count(*) AS rows_that_differ
FROM (SELECT origin, window_start, flights, emit_time FROM hourly EXCEPT ALL SELECT origin, window_start, flights, emit_time FROM in_one_call);

-- What if an hour stayed open for one hour only? Nothing is lost silently: these flights came too late, and by how much.
SELECT origin, count(*) AS too_late, round(max(lateness) / 3600, 1) AS most_hours_behind
FROM WINDOW_UPDATES(TABLE(departures) PARTITION BY origin ORDER BY offset, time => 'scheduled', size => INTERVAL 1 HOUR,
                    grace => INTERVAL 1 HOUR, aggregates => 'count(*) AS flights', output => 'dropped')
GROUP BY origin ORDER BY origin;

-- Why is a flight not in the count of its hour? Ask: output => 'explain' says what each row did, here at noon of 8 February, in a blizzard.
SELECT offset, scheduled, outcome, explanation
FROM WINDOW_UPDATES(TABLE(departures) PARTITION BY origin ORDER BY offset, time => 'scheduled', size => INTERVAL 1 HOUR,
                    grace => INTERVAL 1 HOUR, aggregates => 'count(*) AS flights', output => 'explain')
WHERE origin = 'JFK' AND window_start = TIMESTAMP_NTZ '2013-02-08 12:00:00' AND (outcome <> 'joined' OR delay_minutes > 30) ORDER BY offset LIMIT 6;

-- KIP-328's alert: raise one alarm for each hour of the day with fewer than 3 flights, after the hour is over and not before.
SELECT origin, window_start, flights, emit_time
FROM in_one_call WHERE flights < 3 AND hour(window_start) BETWEEN 9 AND 17 ORDER BY window_start, origin LIMIT 5;

-- A plane's tour: its departures with less than ten hours between them. SESSIONIZE numbers them, and every row stays.
CREATE OR REPLACE TABLE tours USING delta AS
SELECT tailnum, departed, flight_id, origin, session_start, session_end, session_id
FROM SESSIONIZE(TABLE(flights) PARTITION BY tailnum ORDER BY departed, gap => INTERVAL 10 HOURS);

SELECT tailnum, session_start, session_end, count(*) AS departures
FROM tours GROUP BY ALL ORDER BY departures DESC, session_start, tailnum LIMIT 5;
