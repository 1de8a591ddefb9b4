-- Four weeks of departures from New York, in the order in which planes left. One in twenty is sent again, a week later.
-- Each airline is a tenant, the small ones are one together.
CREATE OR REPLACE TABLE departures USING delta AS
WITH log AS (
    SELECT row_number() OVER (ORDER BY departed, flight_id) AS offset, flight_id, scheduled, 1 + (day(scheduled) - 1) DIV 7 AS sent_in,
           CASE WHEN carrier IN ('UA', 'B6', 'EV', 'DL', 'AA') THEN carrier ELSE 'others' END AS tenant
    FROM flights WHERE departed IS NOT NULL AND scheduled < TIMESTAMP '2013-01-29')
SELECT * FROM log
UNION ALL
SELECT offset + 1000000, flight_id, scheduled, sent_in + 1, tenant FROM log WHERE sent_in < 4 AND offset % 20 = 0;

-- The tasks, and how much work each is; who can do it; and who has what, a table with a history, in which each round will be a commit.
CREATE OR REPLACE TABLE tenants USING delta AS SELECT tenant AS task, count(*) AS cost FROM departures GROUP BY tenant;

SELECT * FROM tenants ORDER BY task;

CREATE OR REPLACE TABLE workers USING delta AS SELECT * FROM VALUES ('w1', true), ('w2', true) AS w(member, alive);

CREATE OR REPLACE TABLE assignment (task STRING, member STRING, role STRING) USING delta
  TBLPROPERTIES (delta.enableChangeDataFeed = true, 'streamtime.key' = 'task');

-- Where the log arrives, and where the work goes: each flight once, and who did it.
CREATE OR REPLACE TABLE log USING delta AS SELECT * FROM departures WHERE false;

CREATE OR REPLACE TABLE done USING delta AS SELECT *, '' AS worker FROM log;
