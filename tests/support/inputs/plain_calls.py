"""The calls whose plain SQL is run where the pack is not, by function."""

from __future__ import annotations

from support.inputs import nasty

KNOWN = "arrival => 'off', join_type => 'left', retention => INTERVAL 3 SECONDS"
EVENT = "TABLE(nasty) PARTITION BY (s, k) ORDER BY t"
ARRIVAL = "TABLE(nasty) PARTITION BY (s, k) ORDER BY off, time => 't'"
TWICE = ARRIVAL.replace("(s, k)", "(s, k, s)")  # a key that is given twice
ONE_CLOCK, CLOCKS = ", clock_by => ARRAY('s')", ", clock_by => ARRAY('s', 'c')"
LOCAL = "TABLE(SELECT *, CAST(t AS TIMESTAMP_NTZ) AS n FROM nasty) PARTITION BY (s, k) ORDER BY off, time => 'n'"
DAYS = "TABLE(SELECT *, CAST(t AS DATE) AS day FROM nasty) PARTITION BY (s, k) ORDER BY day"
FAR_DAYS = DAYS.replace("ORDER BY day", "ORDER BY off, time => 'day'")
OUTPUTS = ("rows", "dropped", "all", "metrics")
WHOLE = ("all", "metrics")
RIGHT = "TABLE(prices) PARTITION BY (s, k) ORDER BY at"
HOUR = "size => INTERVAL 1 HOUR"
SUMS = "aggregates => 'count(*) AS n_rows, sum(v) AS total, avg(v) AS mean, min(t) AS low, max(v) AS high'"

HOPPING = "size => INTERVAL 5 SECONDS, slide => INTERVAL 2 SECONDS, grace => INTERVAL 1 SECOND"
TOLD = "aggregates => 'first(v) AS one, last(v) AS other, collect_list(v) AS each, sum(d) AS doubles, avg(CAST(v AS DECIMAL(9,2))) AS mean, min(k) AS word'"

DEDUPLICATE = [
    *(f"DEDUPLICATE({EVENT}, output => '{o}')" for o in ("rows", "all")),
    f"DEDUPLICATE({EVENT}, keep => 'last')",
    f"DEDUPLICATE({EVENT}, keep => 'unique', output => 'all')",
    *(f"DEDUPLICATE({ARRIVAL}, output => '{o}')" for o in ("rows", "metrics")),
    f"DEDUPLICATE({ARRIVAL}, keep => 'last', clock_by => ARRAY('c'), output => 'all')",
    *(f"DEDUPLICATE({EVENT}, within => INTERVAL 3 SECONDS, output => '{o}')" for o in WHOLE),
    *(
        f"DEDUPLICATE({EVENT}, within => INTERVAL {n}, keep => '{k}', output => 'all')"
        for n, k in (
            ("0.000002 SECONDS", "first"),
            ("1 SECOND", "last"),
            ("5 SECONDS", "unique"),
        )
    ),
    f"DEDUPLICATE({EVENT}, within => INTERVAL 2 SECONDS, refresh => true, output => 'all')",
    "DEDUPLICATE(TABLE(nasty) PARTITION BY (d, s) ORDER BY t, within => INTERVAL 2 SECONDS)",
    *(f"DEDUPLICATE({ARRIVAL}, within => INTERVAL 3 SECONDS, output => '{o}')" for o in WHOLE),
    *(
        f"DEDUPLICATE({ARRIVAL}, within => INTERVAL {n}, keep => '{k}', refresh => {r}{c}, output => 'all')"
        for n, k, r, c in (
            ("0 SECONDS", "first", "false", ""),
            ("1 HOUR", "last", "false", ""),
            ("5 SECONDS", "unique", "false", ONE_CLOCK),
            ("5 SECONDS", "unique", "true", ""),
            ("2 SECONDS", "first", "true", ""),
            ("2 SECONDS", "last", "true", CLOCKS),
            ("5 SECONDS", "unique", "false", CLOCKS),
            ("1 HOUR", "first", "false", CLOCKS),
        )
    ),
    *(
        f"DEDUPLICATE({o}, within => INTERVAL 9 SECONDS, offset => 'v', refresh => {r}, output => 'all')"
        for o, r in ((ARRIVAL, "false"), (TWICE, "true"), (EVENT, "false"))
    ),
    *(
        f"DEDUPLICATE({o}, within => INTERVAL 2 SECONDS, refresh => true, at_most => INTERVAL {n}, {more}, output => 'all')"
        for o, n, more in (
            (EVENT, "2.000001 SECONDS", "keep => 'first'"),
            (ARRIVAL, "3 SECONDS", "keep => 'unique'"),
            (TWICE, "3 SECONDS", "offset => 'v'"),
            (ARRIVAL, "4 SECONDS", "keep => 'last'" + CLOCKS),
        )
    ),
    "DEDUPLICATE(TABLE(nasty) PARTITION BY (d, s) ORDER BY (off DESC, id), time => 't')",
    *(f"DEDUPLICATE({rows}, within => INTERVAL 2 DAYS, output => 'all')" for rows in (LOCAL, DAYS)),
]
DISTINCT = [
    *(f"DISTINCT_IN_WINDOW({rows}, {HOUR}, output => 'all')" for rows in (LOCAL, DAYS)),
    *(f"DISTINCT_IN_WINDOW({EVENT}, {HOUR}, slide => INTERVAL 20 MINUTES, output => '{o}')" for o in ("rows", "all")),
    f"DISTINCT_IN_WINDOW({ARRIVAL}, {HOUR}, grace => INTERVAL 10 MINUTES)",
    *(
        f"DISTINCT_IN_WINDOW({ARRIVAL}, size => INTERVAL 5 SECONDS, slide => INTERVAL 2 SECONDS, grace => INTERVAL 1 SECOND, output => '{o}')"
        for o in WHOLE
    ),
    f"DISTINCT_IN_WINDOW({EVENT}, gap => INTERVAL 5 SECONDS)",
    *(f"DISTINCT_IN_WINDOW({ARRIVAL}, gap => INTERVAL 2 SECONDS, grace => INTERVAL 2 SECONDS, output => '{o}')" for o in ("rows", "all")),
]
SESSIONIZE = [
    *(f"SESSIONIZE({EVENT}, gap => INTERVAL 5 SECONDS, output => '{o}')" for o in ("rows", "all")),
    f"SESSIONIZE({ARRIVAL}, gap => INTERVAL 5 SECONDS, output => 'all')",
    *(f"SESSIONIZE({TWICE}, gap => INTERVAL 5 SECONDS, grace => INTERVAL 2 SECONDS, output => '{o}')" for o in OUTPUTS),
    *(
        f"SESSIONIZE({ARRIVAL}, gap => INTERVAL {gap}, grace => INTERVAL {grace}{c}, output => 'all')"
        for gap, grace, c in (("0 SECONDS", "0 SECONDS", ""), ("1 SECOND", "0 SECONDS", ONE_CLOCK), ("3 SECONDS", "1 HOUR", CLOCKS))
    ),
    *(
        f"SESSIONIZE({ARRIVAL}, gap => INTERVAL 2 SECONDS{more}, output => 'explain')"
        for more in ("", f", grace => INTERVAL 2 SECONDS{CLOCKS}")
    ),
]
VERSIONS = [
    *(
        f"VERSIONS({ARRIVAL}, deleted => 'gone', grace => INTERVAL 1 SECOND, retention => INTERVAL 9 SECONDS, output => '{o}')"
        for o in WHOLE
    ),
    f"VERSIONS({ARRIVAL}, clock_by => ARRAY('s', 'c'), grace => INTERVAL 1 SECOND, output => 'all')",
    f"VERSIONS({TWICE}, output => 'puts')",
    f"VERSIONS({FAR_DAYS}, grace => INTERVAL 9 DAYS, clock_by => ARRAY('s'), output => 'puts')",
    *(f"VERSIONS({EVENT}, deleted => 'gone'{more})" for more in ("", ", output => 'dropped'")),
]
AS_OF = [
    f"AS_OF_JOIN({EVENT}, {RIGHT})",
    *(f"AS_OF_JOIN({EVENT}, {RIGHT}, output => '{o}')" for o in ("all", "metrics")),
    *(
        f"AS_OF_JOIN({EVENT}, {RIGHT}, join_type => 'left', direction => '{d}', tolerance => INTERVAL 1 HOUR, deleted => 'price = 3', "
        f"ties => 'first', allow_exact => {exact})"
        for d, exact in (("backward", "true"), ("forward", "false"), ("nearest", "true"))
    ),
    f"AS_OF_JOIN({EVENT}, {RIGHT}, arrival => 'off', allow_exact => false, deleted => 'price = 3', output => 'all')",
    f"AS_OF_JOIN({EVENT}, {RIGHT}, {KNOWN})",
    f"AS_OF_JOIN({EVENT}, {RIGHT}, {KNOWN}, grace => INTERVAL 1 SECOND, clock_by => ARRAY('s'), at_end => 'hold', output => 'all')",
]
STOCK = (  # what fills the table `stock`, commit by commit
    "CREATE TABLE stock (k STRING, n INT) USING delta LOCATION '{}' TBLPROPERTIES (delta.enableChangeDataFeed = true, 'streamtime.key' = 'k')",
    "INSERT INTO stock SELECT k, CAST(count(*) AS INT) FROM nasty GROUP BY k",
    "INSERT OVERWRITE stock SELECT k, CAST(count(nullif(k, 'a')) AS INT) FROM nasty WHERE k > '' GROUP BY k UNION ALL VALUES ('new', 1)",
)
DECLARED = (  # a versioned table
    "CREATE TABLE declared (s INT, k STRING, t TIMESTAMP, cost INT, gone BOOLEAN) USING delta LOCATION '{}' TBLPROPERTIES ("
    "'streamtime.key' = 's, k', 'streamtime.time' = 't', 'streamtime.deleted' = 'gone', delta.enableChangeDataFeed = true, "
    "delta.columnMapping.mode = 'name')",
    "INSERT INTO declared SELECT s, k, t, v, gone FROM nasty WHERE id % 2 = 0",
    "ALTER TABLE declared RENAME COLUMN cost TO price",
)
VISITED = (  # a table that gets a column, and views over it, of which one is made anew
    "CREATE TABLE visited (who STRING, at TIMESTAMP) USING delta LOCATION '{}'",
    "INSERT INTO visited SELECT k, t FROM nasty",
    "SET streamtime.views = plain",
    "CREATE VIEW as_it_was AS SELECT * FROM DEDUPLICATE(TABLE(visited) PARTITION BY who ORDER BY at)",
    "CREATE VIEW refreshed AS SELECT * FROM DEDUPLICATE(TABLE(visited) PARTITION BY who ORDER BY at)",
    "ALTER TABLE visited ADD COLUMN page STRING",
    "INSERT INTO visited SELECT DISTINCT 'another', t, k FROM nasty",
    "CREATE OR REPLACE VIEW refreshed AS SELECT * FROM DEDUPLICATE(TABLE(visited) PARTITION BY who ORDER BY at)",
)
VIEWS = {  # and what each gives
    "as_it_was": "SELECT who, at FROM DEDUPLICATE(TABLE(SELECT who, at FROM visited) PARTITION BY who ORDER BY at)",
    "refreshed": "SELECT * FROM DEDUPLICATE(TABLE(visited) PARTITION BY who ORDER BY at)",
}
WINDOWS = [
    f"WINDOW_UPDATES({EVENT}, {HOUR}, {SUMS})",
    f"WINDOW_UPDATES({ARRIVAL}, {HOPPING}, {SUMS}{CLOCKS})",
    f"WINDOW_UPDATES({TWICE.replace('BY off', 'BY (d, off)')}, {HOPPING}, {TOLD})",
    f"WINDOW_UPDATES({LOCAL}, {HOPPING}, {TOLD}, emit => 'final', at_end => 'emit')",
    f"WINDOW_UPDATES({DAYS}, size => INTERVAL 400 DAYS, slide => INTERVAL 150 DAYS, {SUMS}, emit => 'final'{ONE_CLOCK})",
    *(f"WINDOW_UPDATES({ARRIVAL}, {HOPPING}, {SUMS}, output => '{o}')" for o in ("metrics", "explain")),
    f"WINDOW_UPDATES({EVENT}, {HOUR}, {SUMS}, emit => 'final', grace => INTERVAL 10 MINUTES)",
    f"WINDOW_UPDATES({EVENT}, {HOUR}, {SUMS}, emit => 'final', at_end => 'emit')",
    f"WINDOW_UPDATES({ARRIVAL}, {HOUR}, {SUMS}, emit => 'final', at_end => 'emit', grace => INTERVAL 10 MINUTES)",
]
SLIDING = "difference => INTERVAL 3 SECONDS, grace => INTERVAL 1 SECOND"
WINDOWS += [
    f"WINDOW_UPDATES({EVENT}, difference => INTERVAL 1 HOUR, {SUMS})",
    f"WINDOW_UPDATES({ARRIVAL}, {SLIDING}, {SUMS}{CLOCKS})",
    f"WINDOW_UPDATES({TWICE.replace('BY off', 'BY (d, off)')}, {SLIDING}, {TOLD[:-1]}, sum(v / 7D) AS sevenths, avg(v / 7D) AS seventh'{ONE_CLOCK})",
    f"WINDOW_UPDATES({ARRIVAL}, difference => INTERVAL 0 SECONDS, {TOLD}{CLOCKS})",
    f"WINDOW_UPDATES({LOCAL}, {SLIDING}, {TOLD}, emit => 'final', at_end => 'emit'{CLOCKS})",
    f"WINDOW_UPDATES({DAYS}, difference => INTERVAL 400 DAYS, {SUMS}, emit => 'final'{ONE_CLOCK})",
    f"WINDOW_UPDATES({ARRIVAL}, {SLIDING}, {SUMS}{CLOCKS}, emit => 'final')",
    *(f"WINDOW_UPDATES({ARRIVAL}, {SLIDING}, {SUMS}, output => '{o}')" for o in ("dropped", "metrics", "explain")),
]
BOTH = "gap => INTERVAL 2 SECONDS, grace => INTERVAL 1 SECOND"
ORDERED = (
    "aggregates => 'count(v) AS n, sum(d) AS total, avg(CAST(v AS DECIMAL(10, 2))) AS mean, first(v) AS f, last(v) AS l, "
    "collect_list(v) AS each'"
)
SESSIONS = [  # of SESSION_UPDATES
    f"SESSION_UPDATES({EVENT}, {BOTH}, {ORDERED})",
    f"SESSION_UPDATES({ARRIVAL}, {BOTH}, {SUMS})",
    f"SESSION_UPDATES({ARRIVAL}, {BOTH}, {ORDERED}{CLOCKS})",
    f"SESSION_UPDATES({EVENT}, {BOTH}, {SUMS}, emit => 'final')",
    f"SESSION_UPDATES({ARRIVAL}, {BOTH}, {ORDERED}, emit => 'final', at_end => 'emit')",
    f"SESSION_UPDATES({LOCAL}, {BOTH}, {ORDERED}, emit => 'final', at_end => 'emit')",
    f"SESSION_UPDATES({TWICE}, {BOTH}, {SUMS})",
    *(f"SESSION_UPDATES({ARRIVAL}, {BOTH}, {SUMS}, output => '{o}')" for o in WHOLE),
]
SUPPRESS = [
    f"SUPPRESS_UNTIL_TIME_LIMIT({ARRIVAL}, wait => INTERVAL 3 SECONDS, deleted => 'gone', output => 'all')",
    f"SUPPRESS_UNTIL_TIME_LIMIT({TWICE}, wait => INTERVAL 0.000002 SECONDS, at_end => 'hold', output => 'all')",
    f"SUPPRESS_UNTIL_TIME_LIMIT({EVENT}, wait => INTERVAL 0 SECONDS)",
    *(
        f"SUPPRESS_UNTIL_CLOSE({ARRIVAL}, window_end => 'u', grace => INTERVAL 2 SECONDS, deleted => 'gone', at_end => '{e}', output => '{o}')"
        for e, o in (("hold", "rows"), ("emit", "rows"), ("hold", "dropped"), ("emit", "all"))
    ),
    *(
        f"SUPPRESS_UNTIL_CLOSE({ARRIVAL}, window_end => 'u', until => 'end', deleted => 'gone'{c}, output => '{o}')"
        for o, c in (("rows", ""), ("all", CLOCKS), ("explain", ""))
    ),
    f"SUPPRESS_UNTIL_CLOSE({ARRIVAL.replace('off', 'd')}, window_end => 'u', output => 'all')",
    f"SUPPRESS_UNTIL_CLOSE({ARRIVAL}, window_end => 'u', grace => INTERVAL 2 SECONDS{CLOCKS}, output => 'all')",
    f"SUPPRESS_UNTIL_TIME_LIMIT({ARRIVAL}, wait => INTERVAL 3 SECONDS{CLOCKS}, at_end => 'hold', output => 'all')",
    f"SUPPRESS_UNTIL_CLOSE({ARRIVAL}, window_end => 'u', grace => INTERVAL 2 SECONDS, deleted => 'gone', output => 'explain')",
    f"SUPPRESS_UNTIL_TIME_LIMIT({TWICE.replace('BY off', 'BY (off, id)')}, wait => INTERVAL 3 SECONDS{ONE_CLOCK}, output => 'explain')",
]
SUPPRESS += [  # how full it was, with several clocks and with one
    *(
        f"SUPPRESS_UNTIL_CLOSE({rows}, window_end => 'u', grace => INTERVAL 2 SECONDS, deleted => 'gone', at_end => '{e}'{c}, output => 'metrics')"
        for rows, e, c in ((ARRIVAL, "hold", ""), (ARRIVAL, "emit", CLOCKS), (EVENT, "emit", ""))
    ),
    *(
        f"SUPPRESS_UNTIL_TIME_LIMIT({rows}, wait => INTERVAL {w}{c}, output => 'metrics')"
        for rows, w, c in (
            (ARRIVAL, "3 SECONDS", ONE_CLOCK),
            (TWICE.replace("BY off", "BY (off, id)"), "0 SECONDS", ""),
            (EVENT, "1 HOUR", ""),
            (DAYS.replace("(s, k)", "k"), "2 DAYS", CLOCKS),
        )
    ),
]
LEFT = "TABLE(SELECT s, k, off, t, v, gone FROM nasty WHERE id % 3 > 0) PARTITION BY (s, k) ORDER BY off"
OTHER = "TABLE(SELECT s, k, off, t, d, id, gone FROM nasty WHERE id % 3 = 0) PARTITION BY (s, k) ORDER BY off"
VERSIONED = "versioned => ARRAY('left', 'right'), retention => INTERVAL 3 SECONDS, clock_by => ARRAY('s')"
BOUNDED = "max_records => 2, when_full => 'spill'"  # which is as no bound, where nothing lies in memory
ROOMY = "max_records => 100000, max_bytes => 100000000, when_full => 'fail'"
SUPPRESS += [
    f"SUPPRESS_UNTIL_TIME_LIMIT({ARRIVAL}, wait => INTERVAL 3 SECONDS, {BOUNDED}, output => 'all')",
    f"SUPPRESS_UNTIL_TIME_LIMIT({ARRIVAL}, {BOUNDED}, output => 'all')",
    f"SUPPRESS_UNTIL_CLOSE({ARRIVAL}, window_end => 'u', grace => INTERVAL 2 SECONDS{CLOCKS}, {BOUNDED}, output => 'metrics')",
    *(f"SUPPRESS_UNTIL_TIME_LIMIT({ARRIVAL}, wait => INTERVAL 3 SECONDS, {ROOMY}, output => '{o}')" for o in ("rows", "all")),
    f"SUPPRESS_UNTIL_CLOSE({ARRIVAL}, window_end => 'u', grace => INTERVAL 2 SECONDS{CLOCKS}, {ROOMY}, output => 'dropped')",
]
GROUPED = "group_by => ARRAY('s', 'd'), aggregates => 'count(*) AS n_rows, count(v) AS present, sum(v) AS total, avg(v) AS mean'"
CHANGELOGS = [
    *(f"JOIN_CHANGES({LEFT}, {OTHER}, time => 't', deleted => 'gone', join_type => '{j}')" for j in ("inner", "outer")),
    *(f"JOIN_CHANGES({LEFT}, {OTHER}, time => 't', deleted => 'gone', join_type => 'left', {VERSIONED}, output => '{o}')" for o in OUTPUTS),
    f"JOIN_CHANGES({LEFT}, {OTHER}, time => 't', deleted => 'gone', versioned => ARRAY('right'), output => 'explain')",
    *(
        f"JOIN_CHANGES({LEFT}, {OTHER}, on => 'l.s, k', time => 't', deleted => 'gone', join_type => 'left', {VERSIONED}, output => '{o}')"
        for o in ("rows", "all", "explain")
    ),
    f"FILTER_CHANGES({ARRIVAL}, condition => 'v > 0', deleted => 'gone')",
    *(
        f"FILTER_CHANGES({ARRIVAL}, condition => 'v > 0', versioned => true, retention => INTERVAL 3 SECONDS{CLOCKS}, output => '{o}')"
        for o in (*OUTPUTS, "explain")
    ),
    f"AGGREGATE_CHANGES({ARRIVAL}, {GROUPED}, deleted => 'gone')",
    *(
        f"AGGREGATE_CHANGES({ARRIVAL}, {GROUPED}, versioned => true, retention => INTERVAL 3 SECONDS, clock_by => ARRAY('s'), output => '{o}')"
        for o in (*OUTPUTS, "explain")
    ),
]
EXTREMES = "aggregates => 'min(v) AS low, max(k) AS word, max(d) AS most, min(d) AS least, min(t) AS first, count(*) AS n'"
CHANGELOGS += [
    f"AGGREGATE_CHANGES({ARRIVAL}, group_by => ARRAY('s'), {EXTREMES}, deleted => 'gone')",
    f"AGGREGATE_CHANGES({ARRIVAL}, group_by => ARRAY('c'), {EXTREMES}, versioned => true)",
]
CALLS = [*CHANGELOGS, *DEDUPLICATE, *DISTINCT, *SESSIONIZE, *VERSIONS, *AS_OF, *WINDOWS, *SUPPRESS, *SESSIONS]

# over rows at the ends of TIMESTAMP
FAR_DEDUPLICATE = [
    f"DEDUPLICATE({EVENT}, within => INTERVAL 3 SECONDS, output => 'all')",
    f"DEDUPLICATE({EVENT}, within => INTERVAL 100000 DAYS, keep => 'last', output => 'all')",
    f"DEDUPLICATE({EVENT}, within => INTERVAL 10 SECONDS, keep => 'unique')",
    f"DEDUPLICATE({ARRIVAL}, output => 'dropped')",
    f"DEDUPLICATE({ARRIVAL}, within => INTERVAL 10 SECONDS, output => 'all')",
    f"DEDUPLICATE({ARRIVAL}, within => INTERVAL 100000 DAYS, keep => 'last', refresh => true, output => 'all')",
    f"DEDUPLICATE({EVENT}, within => INTERVAL 9 SECONDS, refresh => true, at_most => INTERVAL 100000000 DAYS, output => 'all')",
    f"DEDUPLICATE({ARRIVAL}, within => INTERVAL 9 SECONDS, refresh => true, at_most => INTERVAL 10 SECONDS, output => 'all')",
    f"DEDUPLICATE({ARRIVAL}, within => INTERVAL 9 SECONDS, clock_by => ARRAY('c'), output => 'all')",
    "DEDUPLICATE(TABLE(SELECT id, id % 2 AS k, if(id = 37, NULL, timestamp_seconds(id)) AS ts FROM range(60)) PARTITION BY k ORDER BY ts, "
    "within => INTERVAL 3 SECONDS, refresh => true, at_most => INTERVAL 8 SECONDS, output => 'all')",  # a burst that never pauses
]
FAR_DEDUPLICATE += [  # stretches of more rows than a chunk has, each of whose rows lies at the edge of another's interval
    f"DEDUPLICATE(TABLE(SELECT id, id % 2 AS k, timestamp_seconds(id) AS ts FROM range(5000)) PARTITION BY k ORDER BY {order}, "
    f"within => INTERVAL {within} SECONDS, keep => '{keep}', output => 'all')"
    for order, within, keep in (("ts", 2, "first"), ("ts", 2200, "last"), ("id, time => 'ts'", 500, "first"))
]
FAR_SESSIONIZE = [
    f"SESSIONIZE({ARRIVAL}, gap => INTERVAL 9 SECONDS, grace => INTERVAL 1 SECOND, output => 'all')",
    f"SESSIONIZE({ARRIVAL}, gap => INTERVAL 100000 DAYS, grace => INTERVAL 100000 DAYS)",
    f"SESSIONIZE({EVENT}, gap => INTERVAL 100000 DAYS)",
]
FAR_DISTINCT = [
    f"DISTINCT_IN_WINDOW({ARRIVAL}, gap => INTERVAL 100000 DAYS, output => 'all')",
]
FAR_SESSIONS = [
    f"SESSION_UPDATES({ARRIVAL}, gap => INTERVAL 9 SECONDS, grace => INTERVAL 100000 DAYS, {ORDERED})",
    f"SESSION_UPDATES({ARRIVAL}, gap => INTERVAL 100000 DAYS, {SUMS}, emit => 'final', at_end => 'emit')",
]
FAR_VERSIONS = [
    f"VERSIONS({ARRIVAL}, grace => INTERVAL 5 SECONDS, output => 'all')",
    f"VERSIONS({ARRIVAL}, output => 'puts')",
]
FAR_WINDOWS = [
    f"WINDOW_UPDATES({FAR_DAYS}, {HOPPING}, {SUMS}, emit => 'final', at_end => 'emit')",
    f"WINDOW_UPDATES({LOCAL}, {HOPPING}, {TOLD})",
    f"WINDOW_UPDATES({EVENT}, {HOUR}, aggregates => 'count(*) AS n', emit => 'final', at_end => 'emit')",
]
FAR_WINDOWS += [
    f"WINDOW_UPDATES({ARRIVAL}, difference => INTERVAL 9 SECONDS, grace => INTERVAL 1 HOUR, {SUMS})",
    f"WINDOW_UPDATES({FAR_DAYS}, difference => INTERVAL 100000 DAYS, {TOLD}, emit => 'final', at_end => 'emit')",
]
FAR_SUPPRESS = [
    f"SUPPRESS_UNTIL_TIME_LIMIT({ARRIVAL.replace('(s, k)', 'k')}, wait => INTERVAL 3 SECONDS, output => 'all')",
    f"SUPPRESS_UNTIL_CLOSE({ARRIVAL}, window_end => 'u', grace => INTERVAL 9 SECONDS, output => 'all')",
]
FAR_SUPPRESS += [
    f"SUPPRESS_UNTIL_CLOSE({ARRIVAL}, window_end => 'u', grace => INTERVAL 100000 DAYS, at_end => 'emit', output => 'metrics')",
    f"SUPPRESS_UNTIL_TIME_LIMIT({ARRIVAL}, wait => INTERVAL 3 SECONDS, output => 'metrics')",
]
FAR_CHANGELOGS = [
    f"JOIN_CHANGES({LEFT}, {OTHER}, time => 't', deleted => 'gone', join_type => 'outer', {VERSIONED})",
    f"JOIN_CHANGES({LEFT}, {OTHER}, time => 't', deleted => 'gone', {VERSIONED}, output => 'all')",
    f"AGGREGATE_CHANGES({ARRIVAL}, {GROUPED}, versioned => true, retention => INTERVAL 100000 DAYS)",
]
FAR = [*FAR_CHANGELOGS, *FAR_DEDUPLICATE, *FAR_DISTINCT, *FAR_SESSIONIZE, *FAR_SESSIONS, *FAR_VERSIONS, *FAR_WINDOWS, *FAR_SUPPRESS]
STATEMENTS = {
    "a CTE, an alias, an aggregate": "WITH few AS (SELECT * FROM nasty WHERE v > 0), few_input AS (SELECT 1 AS one), deduplicate_rows AS (SELECT 2 AS two) "
    f"SELECT d.k, count(*) AS n, max(one), min(two) FROM DEDUPLICATE({EVENT.replace('nasty', 'few')}) AS d, few_input, deduplicate_rows GROUP BY d.k",
    "nested, joined": f"SELECT x.id, y.id AS other FROM DEDUPLICATE(TABLE(SELECT * FROM DEDUPLICATE({ARRIVAL}) WHERE v IS NOT NULL) "
    f"PARTITION BY (s, v) ORDER BY t) x LEFT JOIN SESSIONIZE({EVENT}, gap => INTERVAL 1 SECOND) y ON x.id = y.id AND y.t = y.session_start",
    "AS OF": "SELECT o.id, p.price, o.k FROM nasty o ASOF JOIN prices p MATCH_CONDITION (o.t >= p.at) ON o.k = p.k AND o.s = p.s WHERE o.v > 1",
    "a pipe": f"FROM DEDUPLICATE({EVENT}) |> WHERE v = 1 |> SELECT id",
    "odd names": "SELECT * FROM DEDUPLICATE({}, time => {})".format(
        nasty.Names(nasty.ODD).clauses(["s", "k"], ["off", "id DESC"], "odd"), nasty.Names(nasty.ODD).option("{t}")
    ),
}
OVER_DELTA = {
    "what a table held": "SELECT * FROM TABLE_HISTORY('stock')",
    "what one commit did": "SELECT * FROM TABLE_HISTORY('stock', from => 2, to => 2)",
    "AS OF commits": "SELECT e.id, e.t, p.n FROM nasty e LEFT JOIN stock FOR SYSTEM_TIME AS OF e.t p ON e.k = p.k AND p.n > e.v",
    "AS OF numbers of commits": "SELECT e.id, p.* FROM nasty e JOIN stock VERSION AS OF e.v p ON e.k = p.k",
    "TIMESTAMP AS OF": "SELECT e.id, p.price FROM nasty e LEFT JOIN declared TIMESTAMP AS OF e.t p ON e.s = p.s AND e.k = p.k AND p.price > 1",
    "AS OF, USING": "SELECT id, s, k, price FROM nasty e JOIN declared FOR SYSTEM_TIME AS OF e.t p USING (s, k)",
    "AS OF a versioned table": "SELECT e.id, p.price FROM nasty e JOIN declared FOR SYSTEM_TIME AS OF e.t p ON e.s = p.s AND e.k = p.k",
    "its deletions": f"SELECT id, price FROM AS_OF_JOIN({EVENT}, TABLE(SELECT * FROM declared WHERE s > 0) PARTITION BY (s, k) ORDER BY t)",
}
