"""Rules broken on purpose, one at a time: for each, a test must fail.

    python3 run.py mutations                          all of them, which takes hours
    python3 run.py mutations maintain D7              those that have one of these in their rule or file
    python3 run.py mutations --older --seconds 3600   first those that were never run, then those whose file is another now, and so on:
                                                      of each the quick ones first; ends in time

A rule is broken in a copy of the package that stands first on the path; the checkout stays as it is. The test that
caught it before runs first, then those that are not long, then, if none of them fails, the long ones. What caught each rule is added to
`tests/mutations.json`, so that runs of some add up; a short run takes it from then on, however slow it is, unless it is marked long.
`tests/whole/test_mutations.py` holds that each text below still stands where it is said to, once, and that no record says that nothing did.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import math
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).parent.parent
RECORDS = ROOT / "tests" / "mutations.json"
KERNELS = "tests/udfs/test_kernels.py"
ASSIGNED = "tests/udfs/assignment"
JOINED, TOTALS = "tests/sql/changes/test_join_changes.py", "tests/sql/changes/test_aggregate_changes.py"
FILTERED, BY_NAME = "tests/sql/changes/test_filter_changes.py", "tests/sql/changes/test_join_changes_by_foreign_key.py"
CHANGELOGS = f"{JOINED} {TOTALS}"
STREAMED = "tests/udfs/changes"
ADDED = "tests/catalog/maintained/test_additive.py"
EXPRESSIONS = "tests/catalog/plain/test_expressions.py"
MAINTAINED = "tests/catalog/maintained/test_maintaining.py"
JOINS = "tests/catalog/maintained/test_joins.py"
FOUND = "tests/catalog/maintained/test_maintaining.py::test_what_random_queries_found"
DRAWN = "tests/catalog/pictures/test_pictures.py"
VERSIONED, APPLIED = "tests/catalog/store/test_versioned.py", "tests/catalog/store/test_applying.py"
PUTS = "tests/catalog/store/test_puts.py"
SERVED = "tests/catalog/server/test_options.py"
CHANGING = "tests/sql/changes/test_changes_streams.py"
NAMING = "tests/sql/changes/test_foreign_key_streams.py"
AS_OF_STREAMS = "tests/sql/stream/test_as_of_streams.py"
HISTORIES = "tests/sql/functions/test_table_history.py"
SHORT, ALL = "not long", "long or not long"
LIMIT = 900  # seconds that a test may take; one that hangs on a broken rule has caught it


class Mutation(NamedTuple):
    """What is broken: the rule, in words; where; the text that says it, and what takes its place; who must catch it."""

    rule: str
    file: str
    text: str
    broken: str
    tests: str


MUTATIONS = [
    # duplicates
    Mutation(
        "D1: a duplicate at the edge of the interval is dropped", "udfs/deduplicate.py",
        "(index < expiry[at]) & (times >= groups.minus(kept, self.within))",
        "(index < expiry[at]) & (times > groups.minus(kept, self.within))", KERNELS,
    ),
    Mutation(
        "D2, D7: a redelivered row does not move the kept time", "udfs/deduplicate.py",
        "k = max(k, t) if self.refresh and not again else k", "k = max(k, t) if self.refresh else k", KERNELS,
    ),
    Mutation(
        "D4: a null in the identity passes and is not stored", "udfs/deduplicate.py",
        "rows = np.flatnonzero(groups.valid((columns[0], *runs), length))", "rows = np.flatnonzero(groups.valid((columns[0],), length))", KERNELS,
    ),
    Mutation(
        "D5: a kept row expires once stream time is past it by more than `within`", "udfs/deduplicate.py",
        "groups.search(group, rows.stream_times, groups.plus(times, self.within))", "groups.search(group, rows.stream_times, groups.plus(times, self.within - 1))", KERNELS,
    ),
    Mutation(
        "D6: a late row is not stored", "udfs/deduplicate.py",
        "stored = times >= groups.minus(stream_times, self.within)", "stored = np.ones(len(times), bool)", KERNELS,
    ),
    Mutation(
        "D7: a row with the offset of the kept row passes", "udfs/deduplicate.py",
        "duplicate &= ~redelivered(rows.records, at)\n        last = int(at[-1])", "last = int(at[-1])", KERNELS,
    ),
    Mutation(
        "D7: a null offset is like no other", "udfs/deduplicate.py",
        "(at >= 0) & (records != NONE) & (records == records[at])", "(at >= 0) & (records == records[at])", KERNELS,
    ),
    Mutation("D10: a row exactly `at_most` past the row that passed is dropped", "udfs/deduplicate.py", "groups.plus(passed, at_most))", "groups.plus(passed, at_most - 1))", KERNELS),
    Mutation("D10: `at_most` counts from the row that passed, also in the batch before", "udfs/deduplicate.py", "np.concatenate(([memory.passed], times))", "np.concatenate(([memory.kept], times))", KERNELS),
    Mutation("D10: one by one, too, `at_most` counts from the row that passed", "udfs/deduplicate.py", "t - since[where] <= longest", "t - k <= longest", KERNELS),
    Mutation("D10: on a stream, `at_most` counts from the row that passed in a micro-batch before", "udfs/deduplicate.py", "stays.append(passed[at[last]])", "stays.append(stays[0])", "tests/sql/stream/test_buckets.py"),
    Mutation("D8: 'unique' drops the row that caused a drop", "udfs/deduplicate.py", "batch.dropped |= caused\n", "batch.dropped |= False\n", KERNELS),
    Mutation("C4: where a kernel sorts, both zeros of ORDER BY are told apart", "sql/rows/frame.py", "By(n, zeros=True)", "By(n)", "tests/sql/rows/test_ties.py -k shuffling"),
    # clocks
    Mutation("C12: a null time does not move stream time", "udfs/stream_time.py", "moves = groups.valid([times], length)", "moves = np.ones(length, bool)", KERNELS),
    Mutation("C3: stream time goes on from batch to batch", "udfs/stream_time.py", "values[0] = max(int(values[0]), carried)", "values[0] = int(values[0])", KERNELS),
    Mutation(
        "C3: stream time of a range knows the ranges before it, not its own end", "sql/rows/clock.py",
        "own.r < turn", "own.r <= turn", "tests/sql/functions/test_deduplicate.py",
    ),
    Mutation("C3: of 40 ranges each has its own bounds", "sql/rows/ranges.py", 'else f"{so_far}{digit}"', "else digit", "tests/sql/functions/test_deduplicate.py -k ranges"),
    Mutation("C4: what is equal in its first value is cut where it is sorted next", "sql/rows/ranges.py", "OR ({first} = {at} AND", "OR ({first} <> {at} AND", "tests/sql/rows/test_ranges.py -k go_up"),
    Mutation("J5: of one clock, a range of waiting rows knows who arrived above it", "sql/as_of/waiting.py", "F.least(_first_above([APART]), named(FIRST))", "_first_above([APART])", "tests/sql/as_of/test_scenarios.py -k one_clock"),
    Mutation("S3: without a limit of time nothing is due, on many tasks", "sql/suppress/spread.py", "own = limited if until.limited else", "own = limited if True else", "tests/sql/suppress/test_spread.py -k without_a_limit"),
    Mutation("S2: released where stream time reached the close before the next row, on many tasks", "sql/suppress/spread.py", "reached >= due)", "reached > due)", "tests/sql/suppress/test_spread.py"),
    Mutation("S2: what is due as it comes leaves at the stream time of then, on many tasks", "sql/suppress/spread.py", "when(named(ARRIVED) >= due", "when(F.lit(False)", "tests/sql/suppress/test_spread.py"),
    Mutation("S12: a deletion that comes after the end corrects a result", "udfs/suppress/until.py", "if self.corrected else deleted", "if False else deleted", "tests/udfs/suppress"),
    Mutation("S12: a deletion that is held when the end comes is dropped", "udfs/suppress/until.py", "deleted & ((arrived < due) | (due == HIGHEST))", "deleted & (due == HIGHEST)", "tests/udfs/suppress"),
    Mutation("S12: on many tasks, too, a deletion after the end passes", "sql/suppress/spread.py", "if until.corrected else F.lit(False)", "if False else F.lit(False)", "tests/sql/suppress/test_spread.py"),
    Mutation("S12: a checkpoint knows until when rows were held", "sql/suppress/stream.py", '({"until": "end"} if until.corrected else {})', "{}", "tests/sql/stream/test_suppress_stream.py -k option"),
    Mutation("S3: a key's place goes on from batch to batch, on many tasks", "udfs/suppress/places.py", "carried = int(numbers[-1])", "carried = HIGHEST", "tests/sql/suppress/test_spread.py -k batch"),
    Mutation("stream time before a row goes on from batch to batch", "udfs/stream_time.py", "np.append(carried, times)", "np.append(groups.LOWEST, times)", "tests/udfs/test_kernels.py"),
    Mutation("W1: a row is late for its own window's close, not the next one's", "sql/windows/first_reach.py", "named(REACHED) == named(STEP)", "named(REACHED) == named(STEP) + 1", "tests/sql/windows/test_first_reach.py"),
    Mutation("W6: a final row that is grouped closes `grace` after its end", "sql/windows/grouped.py", "change = (close(quoted(END), closing, kind),", "change = (close(quoted(END), of_time_windows(0), kind),", "tests/sql/windows/test_grouped.py -k slow"),
    Mutation("W5: in grouped sessions, a row that joined withdrew change 0", "sql/windows/grouped.py", "F.when(joined, F.lit(1))", "F.when(joined, F.lit(0))", "tests/sql/windows/test_grouped.py -k sessions_in_event"),
    Mutation("C12: in plain SQL a row that takes no part makes no final sum fail", "sql/windows/grouped.py", "F.when(named(STEP).isNotNull(), column) if name in adds else column", "column", "tests/sql/windows/test_grouped.py -k no_part"),
    Mutation("rows go sorted into the shuffle before a kernel: Spark leaves that sort", "sql/rows/frame.py", 'return df.sortWithinPartitions(by).where(expression("spark_partition_id() >= 0"))', "return df.sortWithinPartitions(by)", "tests/sql/rows/test_sorting.py"),
    Mutation("C12: in plain SQL rows that take no part move no clock of final windows", "sql/windows/grouped.py", "[F.when(named(STEP).isNotNull(), at) for at in told]", "told", "tests/sql/windows/test_grouped.py -k no_part"),
    Mutation("C12: in plain SQL rows that take no part are no versions", "sql/functions/versions.py", "made = made.where(accepted) if behind else made", "made = made", "tests/catalog/plain/test_compiling.py -k VERSIONS"),
    Mutation("C12: in plain SQL rows that take no part make no final window", "sql/windows/grouped.py", "df = df.where(F.when(named(NEWEST).isNotNull(), named(STEP)).isNotNull())", "pass", "tests/sql/windows/test_grouped.py -k no_part"),
    Mutation("a DATE beyond the last TIMESTAMP stands at its end", "sql/windows/membership.py", "if isinstance(frame.time.type, T.DateType):", "if False:", "tests/sql/windows/test_grouped.py -k beyond"),
    Mutation("S2: only in event-time order suppress is one with what makes the changes", "sql/windows/updates.py", "(frame.in_time_order and _once(call, frame, asked))", "_once(call, frame, asked)", "tests/sql/suppress/test_in_one.py -k something_else"),
    Mutation("S2: suppress is one with a call only if it gets all of its changes", "catalog/door/results.py", 'if kind != "SubqueryAlias" and not', 'if kind not in ("SubqueryAlias", "Filter") and not', "tests/sql/suppress/test_in_one.py -k something_else"),
    Mutation("C10: suppress is one with a call only if no key is named as what tells of a change", "sql/windows/updates.py", "clash = any(", "clash = False and any(", "tests/sql/suppress/test_in_one.py -k something_else"),
    Mutation("C10: suppress is one with a call only if totals are the same to the last digit", "sql/windows/grouped.py", "not (as_changes and rounded)", "rounded is not None", "tests/sql/suppress/test_in_one.py -k something_else"),
    Mutation("S2: suppress is one with a call only if no column comes twice", "sql/suppress/in_one.py", "own &= columns == list(frame.originals)", "own &= bool(columns)", "tests/sql/suppress/test_in_one.py -k something_else"),
    Mutation("S1: suppress is one with a call only if its key is that of the call", "sql/suppress/in_one.py", "finals.keys | {START} <= keys", "{START} <= keys", "tests/sql/suppress/test_in_one.py -k something_else"),
    Mutation("C4: suppress is one with a call only if it takes changes as they came", "sql/suppress/in_one.py", "order == [*finals.order, (NUMBER, True, True)]", "bool(order)", "tests/sql/suppress/test_in_one.py -k something_else"),
    Mutation("S10: on a stream, suppress by the clock on the wall has a buffer of its own", "sql/suppress/in_one.py", 'call["clock"] != "event" or ', "", "tests/sql/suppress/test_in_one.py -k buffer_stays"),
    Mutation("C7: on a stream, suppress is refused what comes at the end, in one with a call or not", "sql/suppress/in_one.py", 'at_its_end == "emit" or ', "", "tests/sql/suppress/test_in_one.py -k buffer_stays"),
    Mutation("on a stream, who names the metrics of a buffer has one", "sql/suppress/in_one.py", 'ON_A_STREAM = ("watermark", "name")', 'ON_A_STREAM = ("watermark",)', "tests/sql/suppress/test_in_one.py -k buffer_stays"),
    Mutation("C3: on a stream, changes have one watermark, in one with a call or not", "sql/suppress/in_one.py", 'ON_A_STREAM = ("watermark", "name")', 'ON_A_STREAM = ("name",)', "tests/sql/suppress/test_in_one.py -k buffer_stays"),
    Mutation("S8: on a stream, final rows lie behind the watermark by their own times", "sql/windows/updates.py", "[*map(unmarked, fields), emit_time", "[*fields, emit_time", "tests/sql/stream/test_suppress_stream.py -k own_times"),
    Mutation("C10: the last change of a window has its number among all changes", "udfs/updates/updates.py", "return self.final and not self.last_changes", "return self.final", "tests/sql/suppress/test_in_one.py -k lets_out"),
    Mutation("C10: so it has where it is grouped", "sql/windows/grouped.py", "seq = named(TIES) if call.last_changes else", "seq =", "tests/sql/suppress/test_in_one.py -k lets_out"),
    Mutation("C10: so it has on a stream", "sql/windows/updates.py", "last_changes=call.last_changes,", "last_changes=call.last_changes and not stream,", "tests/sql/suppress/test_in_one.py -k lets_out"),
    Mutation("suppress in one with a call computes its input once", "sql/windows/updates.py", "return straight_from_files(frame) or", "return bool(asked) or", "tests/whole/test_evaluations.py -k in_one"),
    Mutation("S2: query() tells by the text which call a TABLE argument is", "catalog/statements/query.py", 'around == ["SELECT", "*", "FROM"] and not others', 'around[:3] == ["SELECT", "*", "FROM"]', "tests/sql/suppress/test_in_one.py -k own_analyzer"),
    Mutation("W2: in grouped sessions, a distance of the gap joins", "sql/windows/grouped.py", 'named(LOW) < expression(minus(quoted(AT), call["gap"]))', 'named(LOW) <= expression(minus(quoted(AT), call["gap"]))', "tests/sql/windows/test_grouped.py -k sessions_in_event"),
    Mutation("C3: of a step, each row with its least ORDER BY value may be the first", "sql/windows/first_reach.py", "(by <= named(LEAST))", "(by < named(LEAST))", "tests/sql/windows/test_first_reach.py"),
    Mutation("an input that computes something is not read again", "sql/rows/scans.py", "COMPARES.issuperset(CALLED.findall(node[2]))", "True", "tests/sql/rows/test_scans.py -k behind_views"),
    Mutation("W6: a final row begins with its key and window", "sql/windows/updates.py", "if n not in later), *later, *names[end:]]", "if n in names), *names[end:]]", "tests/sql/functions/test_updates_sql.py -k begin_with"),
    Mutation("D1: in plain SQL, too, a duplicate at the edge of the interval is dropped", "sql/plain/arrivals.py", "{quoted(SINCE)} <= {plus(quoted(KEPT_AT), within)}", "{quoted(SINCE)} < {plus(quoted(KEPT_AT), within)}", "tests/catalog/plain -k ends_of"),
    Mutation("D1: in plain SQL, in event-time order, too, a row at the edge of the interval opens no stretch", "sql/plain/in_order.py", "{quoted(at)} > {plus(quoted(BEFORE), within)})", "{quoted(at)} >= {plus(quoted(BEFORE), within)})", "tests/catalog/plain -k ends_of"),
    Mutation("D1: in plain SQL a row at the edge of the interval does not go on with the chain", "sql/plain/folds.py", "if({since} > now.reach", "if({since} >= now.reach", "tests/catalog/plain -k ends_of"),
    Mutation("W3: in plain SQL, too, a session that ends where it closes lives", "sql/plain/islands.py", "coalesce({quoted(LARGEST)} >= {closes}, false)", "coalesce({quoted(LARGEST)} > {closes}, false)", "tests/catalog/plain -k one_clock"),
    Mutation("W3: in plain SQL, too, a session that ends where it closes takes a row", "sql/plain/islands.py", "closed = f\"(x.high < {closes}", "closed = f\"(x.high <= {closes}", "tests/catalog/plain -k one_clock"),
    Mutation("W3: in plain SQL a session ends where the rows between those that are folded have taken it to", "sql/plain/islands.py", "greatest(x.high, {largest}) AS high", "x.high AS high", "tests/catalog/plain -k one_clock"),
    Mutation("W3: in plain SQL, too, a row before the start of the last session may be late", "sql/plain/islands.py", "named(LIVES) & (named(AT) < named(FIRST))", "named(LIVES) & F.lit(False)", "tests/catalog/plain -k one_clock"),
    Mutation("W3: in plain SQL sessions that start before a time falls are folded", "sql/plain/islands.py", "(named(FELL) | named(FALLING))", "named(FELL)", "tests/catalog/plain -k one_clock"),
    Mutation("W3: in plain SQL sessions that start after a time fell are folded", "sql/plain/islands.py", "(named(FELL) | named(FALLING))", "named(FALLING)", "tests/catalog/plain -k one_clock"),
    Mutation("W3: in plain SQL the last session ends where the rows behind all that are folded have taken it to", "sql/plain/islands.py", "made | named(FELL) & ~named(FALLING)", "made", "tests/catalog/plain -k one_clock"),
    Mutation("W5: in plain SQL, too, what merges is deleted in order of its end", "sql/plain/islands.py", "for x, y in ((1, 0), (0, 1))", "for x, y in ((0, 1), (1, 0))", "tests/catalog/plain -k ends_of"),
    Mutation("W5: in plain SQL, too, a session that is its row's time alone deletes none", "sql/windows/session_updates.py", " OR ({low} = {at} AND {high} = {at})", "", "tests/catalog/plain -k ends_of"),
    Mutation("D10: in plain SQL, too, a row exactly `at_most` past the row that passed is dropped", "sql/plain/arrivals.py", "plus('so_far.passed', asked.at_most)", "plus('so_far.passed', asked.at_most - 1)", "tests/catalog/plain -k ends_of"),
    Mutation("D6: in plain SQL, too, a late row is not remembered", "sql/plain/arrivals.py", "early = f\"{quoted(AT)} >= {minus(quoted(SINCE), within)}\"\n    rows", "early = \"true\"\n    rows", "tests/catalog/plain -k one_clock"),
    Mutation("S2: in plain SQL, stream time before a row leaves the row out", "sql/rows/clock.py", "[named(RANGE)], reverse=False, last=-1)", "[named(RANGE)], reverse=False, last=0)", "tests/catalog/plain -k ends_of"),
    Mutation("S2: in plain SQL in event order, a range ends with the rows of its last time", "sql/rows/clock.py", "ranges.count - 1), above=True)", "ranges.count - 1))", "tests/sql/suppress -k plain_ranges"),
    Mutation("S2: in plain SQL in event order, stream time stands where the range before ended", "sql/rows/clock.py", "starts, F.get(starts, named(RANGE)))", "starts, F.lit(None).cast('BIGINT'))", "tests/sql/suppress -k plain_ranges"),
    Mutation("where LIMIT takes a part of the rows, many tasks keep them", "sql/rows/unread.py", '"in all" if LAST.match(first) else "in part"', '"in all"', "tests/whole/test_evaluations.py -k limit_takes"),
    Mutation("what LIMIT takes is taken once", "sql/rows/unread.py", 'if not LIMIT.search(text):', "if text:", "tests/whole/test_evaluations.py -k limit_takes"),
    Mutation("W1: in plain SQL, too, a window that is closed takes no row", "sql/windows/window_updates.py", ".where(~closed(rows, stream_time, changing.updates.closing))", "", "tests/catalog/plain -k late_rows"),
    Mutation("S3: in plain SQL, too, what is due at the end of time is never due", "sql/plain/places.py", " AND so_far.due < {HIGHEST}L", "", "tests/catalog/plain -k ends_of"),
    Mutation("C10: in plain SQL, too, changes of one row are numbered", "sql/windows/window_updates.py", "same = [named(NUMBER)] if final", "same = [] if final", "tests/catalog/plain -k ends_of"),
    Mutation("views of plain SQL: those that end with the session are left alone", "catalog/statements/views.py", 'words[:2] == ["CREATE", "VIEW"] or', '"VIEW" in words or', "tests/catalog/statements/test_views.py -k which_views"),
    Mutation("views of plain SQL: one that a script makes stores no call", "catalog/statements/views.py", "if any(i < call < end", "if any(i > call > end", "tests/catalog/statements/test_views.py -k that_a_script"),
    Mutation("plain SQL: try_subtract is no subtraction", "catalog/plain/expressions.py", "in TRYING and e.tries:", "in TRYING and e.type:", "tests/catalog/plain -k ends_of"),
    Mutation("plain SQL: what prints itself without parentheses gets some", "catalog/plain/expressions.py", "if e.kind in OPEN else", "if e.kind in () else", EXPRESSIONS),
    Mutation("plain SQL: a parenthesis stays where what is in it binds as what is beside it", "catalog/plain/parentheses.py", "its > ASKED", "its >= ASKED", "tests/catalog/plain/test_layout.py -k stay"),
    Mutation("plain SQL: what a call broadcasts is broadcast", "catalog/plain/printer.py", 'hint = f" /*+ BROADCAST({small}) */" if small else ""', 'hint = "" if small else ""', "tests/catalog/plain/test_whole_texts.py -k each_task"),
    Mutation("plain SQL: a hint reads nothing", "catalog/plain/ctes.py", 'NAMELESS.findall(HINT.sub("", body))', "NAMELESS.findall(body)", "tests/catalog/plain/test_whole_texts.py -k hint"),
    Mutation("a call over Spark Connect may be deep", "sql/call/binding.py", "        let_plans_be_deep()\n", "        pass\n", "tests/sql/call/test_remote.py"),
    Mutation("plain SQL: behind all ranges of stream time it stands where it stood last", "sql/rows/clock.py", "turn = turn if moving is frame.df else", "turn = turn if moving is not None else", "tests/catalog/plain/test_whole_texts.py -k arrive_long"),
    Mutation("rows that never move stream time are not asked where it stands", "sql/rows/clock.py", "moving = frame.df if movers is None else frame.df.where(movers)", "moving = frame.df", "tests/whole/test_evaluations.py -k known"),
    Mutation("plain SQL: a CTE has the name of no column", "catalog/plain/ctes.py", " or name in self._taken:", ":", "tests/catalog/plain/test_names.py -k nobody"),
    Mutation("plain SQL: a variable has the name of no column", "catalog/plain/expressions.py", " or name.lower() in self._taken:", ":", EXPRESSIONS),
    Mutation("plain SQL: options and schemas that are no children are said, or it is refused", "catalog/plain/expressions.py", "if e.more and", "if not e and", EXPRESSIONS),
    Mutation("around a join a star shows its columns, and no table", "catalog/statements/qualifiers.py", "shown = [c for c in columns if not c.whole]", "shown = [*columns]", "tests/catalog/statements/test_query.py -k star_shows"),
    Mutation("behind the definitions of a WITH a query may stand in parentheses", "catalog/statements/calls.py", "(columns := self.closing.get(i)) and self._is_names(i + 1, columns)", "columns := self.closing.get(i)", "tests/catalog/statements/test_query.py -k in_parentheses"),
    Mutation("plain SQL: a name with a schema is none of a CTE", "catalog/statements/calls.py", "self.within([inside]) if t.start not in self.qualified", "self.within([inside])", "tests/catalog/plain/test_whole_texts.py -k none_of_a_cte"),
    Mutation("plain SQL: what takes any rows is not read twice", "catalog/plain/compiling.py", "if times > 1 and", "if times > 9 and", "tests/catalog/plain/test_whole_texts.py -k takes_any_rows"),
    Mutation("plain SQL: a function that tries is not what it stands for", "catalog/plain/expressions.py", 'if meant.tries or not function.startswith("try_"):', "if function:", EXPRESSIONS),
    Mutation("C3: a close is reached by the first row of a later step, too", "sql/windows/first_reach.py", "F.min(named(FIRST)).over(falling)", "named(FIRST)", "tests/sql/windows/test_first_reach.py"),
    Mutation("SQL text: a script is one statement", "sql/syntax/tokens.py", "edges += [] if depth else", "edges +=", "tests/sql/syntax/test_tokens.py"),
    Mutation("AS OF: JOIN LATERAL is part of the left side", "sql/syntax/as_of_clauses.py", ' and source.word(i - 1) != "JOIN"', "", "tests/sql/syntax/test_as_of_syntax.py -k becomes_a_call"),
    Mutation("query: braces in a column's name are not ours", "catalog/statements/query.py", "else escaped(name)", "else name", "tests/catalog/statements/test_query.py -k 'analyzer_doors and not connect'"),
    # arithmetic, order, keys
    Mutation("C12: as a Python UDTF, too, NaN is one key", "sql/udtf/handler.py", "not has_floating(kind)", "kind", "tests/sql/udtf/test_udtf.py -k other_types"),
    Mutation("C12: as a Python UDTF, too, zeros in a key are equal", "sql/udtf/told.py", "contains({json}, '-0.0')", "contains({json}, '-9.0')", "tests/sql/udtf/test_udtf.py -k 'expressions or other_types'"),
    Mutation("C12: null equals null in a key", "udfs/arrays/groups.py", "pc.xor(pc.is_null(left), pc.is_null(right))", "pc.or_(pc.is_null(left), pc.is_null(right))", "tests/udfs/arrays/test_groups.py"),
    Mutation(
        "a time plus a duration stops at the end of TIMESTAMP", "udfs/arrays/groups.py",
        "return np.where(values > limit, HIGHEST, np.minimum(values, limit) + duration)", "return values + duration", KERNELS,
    ),
    Mutation(
        "C4: nulls come first where the order says so", "udfs/arrays/ordering.py",
        "np.where(present, ranks, -1 if by.nulls_first else len(ranks))", "np.where(present, ranks, len(ranks) if by.nulls_first else -1)",
        "tests/udfs/suppress/test_merging.py tests/sql/stream/test_buckets.py",
    ),
    Mutation(
        "C4: ties are broken by the remaining columns", "udfs/arrays/ordering.py",
        "among[_lexsorted([run, *(directed(one(chosen, b.name), b) for b in ties), among])]", "among[_lexsorted([run, among])]",
        "tests/udfs/suppress/test_merging.py tests/sql/stream/test_buckets.py",
    ),
    Mutation("a null in a key is no digest of zeros", "udfs/keys.py", "missing.append((~present).astype(np.uint64))", "missing.append(np.zeros(length, np.uint64))", "tests/sql/rows/test_keys.py -k 'numbers_of_keys or digests'"),
    Mutation("keys are told apart with a secret", "udfs/keys.py", "hashlib.shake_256(secret.encode())", 'hashlib.shake_256(b"")', "tests/sql/rows/test_keys.py -k numbers_of_keys"),
    Mutation(
        "rows that merge sort before the next run begins", "udfs/suppress/merging.py",
        'np.searchsorted(numbers, first, side="left")', 'np.searchsorted(numbers, first, side="right")', "tests/udfs/suppress/test_merging.py",
    ),
    # state
    Mutation("a query keeps the buckets that it was started with", "sql/stream/packing.py", "numbers = [task.getLocalProperty(name) for name in PARTITIONS]", "numbers = [task.getLocalProperty(name) for name in PARTITIONS[::-1]]", "tests/sql/stream/test_streaming.py::test_a_query_keeps_the_buckets_that_it_was_started_with"),
    Mutation("a checkpoint with another number of buckets is refused", "sql/stream/buckets.py", "if now != {before[BUCKETS]}:", "if not now:", "tests/sql/stream/test_buckets.py"),
    Mutation("a checkpoint of another form is refused, whatever its number of buckets", "sql/stream/buckets.py", "        self.refuse_other_form(before)\n", "", "tests/sql/stream/test_buckets.py"),
    Mutation("names of buckets travel to workers by value", "sql/stream/packing.py", "def ids(number", "@__import__('functools').cache\ndef ids(number", "tests/sql/stream/test_buckets.py"),
    Mutation("of a key that two slices have, the newer speaks", "udfs/state.py", "            there[position] = True\n", "", "tests/sql/stream/test_buckets.py"),
    Mutation("a slice lives while an entry of it does", "udfs/state.py", "slices[-1].highest < threshold:", "slices[-1].highest <= threshold:", "tests/sql/stream/test_buckets.py tests/udfs/updates"),
    Mutation(
        "what is due is released once", "udfs/state.py",
        "(lives_by >= self.index.released) & (lives_by < threshold)", "lives_by < threshold", "tests/udfs/updates tests/udfs/sessions tests/udfs/suppress",
    ),
    # sessions
    Mutation("W2: rows at a distance of `gap` are one session", "udfs/sessions/rules.py", "while first and live[first - 1][1] + gap >= start:", "while first and live[first - 1][1] + gap > start:", "tests/udfs/sessions tests/udfs/test_kernels.py"),
    Mutation("W3: a session is closed past its end, gap and grace", "udfs/sessions/rules.py", "while live and live[0][1] < oldest_end:", "while live and live[0][1] <= oldest_end:", "tests/udfs/sessions tests/udfs/test_kernels.py"),
    Mutation("W3: a row is judged after merging", "udfs/sessions/rules.py", "        if not near:\n", "        if not near or end < oldest_end:\n", "tests/udfs/sessions tests/udfs/test_kernels.py"),
    Mutation("W2: the fast path joins at a distance of `gap` too", "udfs/sessions/rules.py", "(begins[1:] > groups.plus(reach[:-1], gap))", "(begins[1:] >= groups.plus(reach[:-1], gap))", "tests/udfs/sessions tests/udfs/test_kernels.py"),
    # windows
    Mutation("W1: at end plus grace a window is closed", "udfs/closing.py", "return edge if self.end_inside else plus(edge, 1)", "return edge", "tests/udfs/test_closing.py"),
    Mutation("W5: what a sliding window has is what its panes were when it was closed", "udfs/updates/sliding_updates.py", "if end < horizon and end in key.due:", "if False:", "tests/udfs/updates"),
    Mutation("C10: numbers of changes go on from one part of a micro-batch to the next", "udfs/updates/updates.py", "before = 0 if starts[at] else before", "before = 0", "tests/udfs/updates"),
    Mutation("memory lasts for what rows change: hopping windows", "udfs/updates/window_updates.py", "max(MOST // ", "max((MOST << 20) // ", "tests/udfs/updates -k memory"),
    Mutation("memory lasts for what rows change: sliding windows", "udfs/updates/sliding_updates.py", "if log.spent >= MOST:", "if False:", "tests/udfs/updates -k memory"),
    Mutation("W1: what is open in a kernel is open", "udfs/updates/window_updates.py", "is_open = end >= self", "is_open = end > self", "tests/udfs/updates"),
    Mutation("W1: a window's state lives until it is closed, on a stream", "udfs/updates/updates.py", "return int(self.closing.closed_before(stream_time))", "return int(self.closing.closed_before(stream_time)) + 1", "tests/udfs/updates"),
    Mutation("W1: the same in SQL", "sql/windows/membership.py", "return named(END) < expression", "return named(END) <= expression", "tests/sql/functions/test_distinct_in_window.py tests/sql/functions/test_updates_sql.py"),
    Mutation("W3: a session closes past its `gap`, too", "udfs/closing.py", "Closing(gap + (grace or 0), end_inside=True)", "Closing(grace or 0, end_inside=True)", "tests/udfs/test_closing.py"),
    Mutation("W6: what ends with a row closes a microsecond later", "udfs/closing.py", "return self.patience + self.end_inside", "return self.patience", "tests/udfs/test_closing.py"),
    Mutation("C3: a close stops at the end of TIMESTAMP", "udfs/closing.py", "return min(time + duration, HIGHEST)", "return time + duration", "tests/udfs/test_closing.py"),
    Mutation("W1: every window that contains a row has it", "sql/windows/membership.py", "{size - 1}L), {slide}L)", "{size - 2}L), {slide}L)", "tests/sql/functions/test_distinct_in_window.py tests/sql/windows"),
    Mutation("S2: a final row leaves at the first stream time that reached its close", "sql/windows/first_reach.py", "divmod(after, slide)", "divmod(after + 1, slide)", "tests/sql/windows"),
    Mutation("a null clock is a clock of its own", "sql/rows/columns.py", "[named(one).eqNullSafe(named(other))", "[named(one) == named(other)", "tests/sql/windows/test_final_windows.py -k null_clock"),
    # suppress
    Mutation(
        "S3: a row that replaces another takes over its place",
        "udfs/suppress/decisions.py",
        "return _decided(rows, order, group, by[place], rows.place[place], rows.due[place])",
        "return _decided(rows, order, group, by, rows.place, rows.due)",
        "tests/udfs/suppress/test_buffer.py",
    ),
    Mutation(
        "S6: a buffer is full beyond its bound, not at it",
        "udfs/suppress/decisions.py",
        "(self.records is not None and count > self.records)",
        "(self.records is not None and count >= self.records)",
        "tests/udfs/suppress/test_buffer.py",
    ),
    Mutation(
        "S2: a deletion is dropped when its window closes",
        "udfs/suppress/until.py",
        "return self.close is not None",
        "return False",
        "tests/udfs/suppress",
    ),
    # versions and joins
    Mutation(
        "V3: a version is gone once its end has expired",
        "udfs/versions.py",
        "end is not None and end <= minus(stream_time, retention)",
        "end is not None and end < minus(stream_time, retention)",
        "tests/sql/functions/test_versions_scenarios.py tests/sql/functions/test_versions.py",
    ),
    Mutation("V2: a put at stream time less grace is accepted", "udfs/versions.py", "time < minus(stream_time, grace)", "time <= minus(stream_time, grace)", "tests/udfs/test_as_of_kernel.py"),
    Mutation("V3: a lookup at stream time less retention is served", "udfs/versions.py", "at < minus(stream_time, retention)", "at <= minus(stream_time, retention)", "tests/udfs/test_as_of_kernel.py"),
    Mutation("V3: the current version never expires", "udfs/as_of_join.py", "(valid_from < newest) & (matches >= 0)", "(valid_from <= newest) & (matches >= 0)", "tests/udfs/test_as_of_kernel.py"),
    Mutation("V3: the current version never expires, whatever rows of other keys its batch has", "udfs/as_of_join.py", "min([times.min(), *before.times[:1]])", "times.min()", "tests/udfs/test_as_of_kernel.py"),
    Mutation("J4: without `allow_exact` nothing lies before the smallest time", "udfs/as_of_join.py", "timed & (times > groups.LOWEST)", "timed", "tests/udfs/test_as_of_kernel.py"),
    Mutation("J4: without `allow_exact` an equal time does not count", "udfs/as_of_join.py", "asked = times if self.exact else groups.minus(times, 1)", "asked = times", "tests/udfs/test_as_of_kernel.py"),
    Mutation("J4: tolerance is inclusive", "sql/as_of/lookup.py", '_distance(time, MATCH, right) <= call["tolerance"]', '_distance(time, MATCH, right) < call["tolerance"]', "tests/sql/functions/test_as_of_join.py -k boundaries_by_name"),
    Mutation("J4: of two at one distance the earlier is taken", "sql/as_of/lookup.py", "(_distance(time, AFTER, right) < _distance(time, BEFORE, right))", "(_distance(time, AFTER, right) <= _distance(time, BEFORE, right))", "tests/sql/functions/test_as_of_join.py -k boundaries_by_name"),
    Mutation("J1: an equality with a constant is no key", "sql/as_of/sides.py", "if turned is None or not _is_key(call, frames[1], turned)", "if turned is None", "tests/sql/functions/test_as_of_join.py -k constant"),
    Mutation("V1: a version ends before valid_to", "sql/as_of/lookup.py", "(time.column < end)", "(time.column <= end)", "tests/sql/as_of"),
    Mutation("C10: changes of rows that have NaN in ORDER BY are numbered on", "udfs/arrays/groups.py", "if pa.types.is_floating(left.type)", "if False", "tests/udfs/arrays/test_groups.py"),
    Mutation("C6: a row ahead of stream time is not late", "sql/rows/outcome.py", "F.when(late <= 0, 0.0).otherwise(late)", "F.abs(late)", "tests/sql/rows/test_outcome.py"),
    Mutation("D8: lateness falls with stream time", "sql/rows/outcome.py", 'call.options.get("keep") == "last"', "False", "tests/sql/rows/test_outcome.py"),
    Mutation("C4: a column with a collation breaks its own ties", "sql/rows/frame.py", "done = {r.name for r in equal if not has_collation(r.type)}", "done = {r.name for r in equal}", "tests/sql/rows/test_ties.py"),
    Mutation("C4: zeros of ORDER BY are told apart in the end", "sql/rows/frame.py", "if o.ref.name in own and has_floating(o.ref.type)", "if False", "tests/sql/rows/test_ties.py"),
    Mutation("S7: sessions and sliding windows close after their end", "sql/suppress/batch.py", "after >= closes", "after >= made", "tests/sql/functions/test_suppress.py -k close_before_that"),
    Mutation("J4: ties are an error where a match depends on them", "sql/as_of/lookup.py", "functools.reduce(operator.and_, good, field(MATCH, TIED))", "field(MATCH, TIED)", "tests/sql/functions/test_as_of_join.py -k equal_times"),
    Mutation("who decided is told to the microsecond", "sql/suppress/spread.py", '({"ignoreNullFields": "false"} | AS_JSON)', '{"ignoreNullFields": "false"}', "tests/sql/suppress/test_spread.py"),
    Mutation("C12: a row that takes no part opens no window", "sql/windows/explain.py", "named(START), late, takes_part)", "named(START), late)", "tests/sql/functions/test_updates_sql.py -k without_a_time"),
    # doors
    Mutation("a connection without the token gets no answer", "catalog/door/callbacks.py", "secrets.compare_digest(rest[0], self.token)", "secrets.compare_digest(rest[0], rest[0])", "tests/catalog/door/test_callbacks.py"),
    Mutation("a connection on which a call waits is not idle", "catalog/door/callbacks.py", "idle ? 0 : 1", "0", "tests/catalog/door/test_callbacks.py"),
    Mutation("a call inside a call is counted", "catalog/door/callbacks.py", "waiting.intValue() > 1", "waiting.intValue() > 9", "tests/catalog/door/test_callbacks.py"),
    Mutation("a table's mark has no string that Spark reads otherwise", "sql/tables/marks.py", "if not STRING.fullmatch(token.text):", "if False:", "tests/sql/tables/test_what_tables_say.py -k refused_with_the_property"),
    Mutation("comments nest", "sql/syntax/tokens.py", 'depth += 1 if mark.group() == "/*" else -1', "depth -= 1", "tests/catalog/statements/test_query.py -k 'lexer or where_a_table_may_stand'"),
    Mutation("a rewritten text keeps its lines", "sql/syntax/as_of_rewrite.py", "{chr(10) * missing}", "", "tests/sql/syntax -k 'line or rewritten or text'"),
    Mutation("C8: keys are given once", "sql/call/binding.py", "        if written and given.get(option):\n", "        if False:\n", "tests/whole/test_golden.py -k wrong_calls"),
    Mutation("C8: an option that is required is asked for", "sql/call/binding.py", "if option.required and given.get(option.name) is None:", "if False:", "tests/whole/test_golden.py -k wrong_calls"),
    Mutation("C9: a name that is taken is refused", "sql/call/binding.py", "if (taken := call.names.find(name, names)) is not None", "if (taken := None) is not None", "tests/whole/test_golden.py -k wrong_calls"),
    # tasks
    Mutation(
        "R1: a member that comes back with its state has its tasks at once", "udfs/assignment/sticky.py",
        "key=lambda t: bool(heirs.of(t))", "key=lambda t: 0", ASSIGNED,
    ),
    Mutation(
        "R1: where costs differ, the giver has not less than the taker then", "udfs/assignment/sticky.py",
        "2 * cost[t] * threads <= gap", "cost[t] * threads <= gap", ASSIGNED,
    ),
    Mutation(
        "R2: at most max_warmups copies at a time", "udfs/assignment/movements.py",
        "return self.warmups >= 0", "return True", ASSIGNED,
    ),
    Mutation(
        "R2: a member within acceptable_lag has caught up", "udfs/assignment/cluster.py",
        "return lag <= self.acceptable_lag", "return lag < self.acceptable_lag", ASSIGNED,
    ),
    Mutation(
        "R2: a task that nobody has state of does not wait", "udfs/assignment/movements.py",
        "if source == NONE and lag == UNKNOWN:", "if False:", ASSIGNED,
    ),
    Mutation(
        "R3: tags keep copies apart as long as there are enough of them", "udfs/assignment/cluster.py",
        "if self.values[place] <= count:", "if self.values[place] < count:", ASSIGNED,
    ),
    Mutation(
        "R4: a copy that is there becomes active by promotion", "udfs/assignment/rounds.py",
        "PROMOTE if member in held else ASSIGN", "ASSIGN", ASSIGNED,
    ),
    Mutation(
        "R5: a negative lag is an error", "udfs/assignment/reading.py",
        'pc.less(pc.fill_null(copies["lag"], 0), 0)', 'pc.less(pc.fill_null(copies["lag"], 0), -5)', ASSIGNED,
    ),
    Mutation(
        "R5: two owners are an error", "udfs/assignment/reading.py",
        'owners["member_count_distinct"], 1)', 'owners["member_count_distinct"], 2)', ASSIGNED,
    ),
    # changelogs
    Mutation(
        "J7: a versioned side ignores a change that is older than the newest one of its key", "sql/changes/given.py",
        "return F.coalesce(time >= newest, F.lit(True))", "return F.lit(True)", CHANGELOGS,
    ),
    Mutation(
        "V2: of changes of a versioned side, one of equal time replaces", "sql/changes/given.py",
        "return F.coalesce(time >= newest, F.lit(True))", "return F.coalesce(time > newest, F.lit(True))", CHANGELOGS,
    ),
    Mutation(
        "J7: a deletion moves the newest time of its key", "sql/changes/join.py",
        "times = [joined.here(place, field) for", "times = [F.when(joined.alive(), joined.here(place, field)) for", JOINED,
    ),
    Mutation(
        "J7: a delete leaves only where the join had a row", "sql/functions/join_changes.py",
        '.when(_present(call, joined, now=False), "delete")', '.otherwise("delete")', JOINED,
    ),
    Mutation(
        "J7: change_time is the larger of the row's time and the other side's", "sql/functions/join_changes.py",
        "AT: F.greatest(joined.time(), _time_of_other(joined))", "AT: joined.time()", JOINED,
    ),
    Mutation(
        "J7: of equal places in the order the left row is first", "sql/changes/join.py",
        "order += [Order(refs[ties[0]], True, False)", "order += [Order(refs[ties[0]], True, True)", JOINED,
    ),
    Mutation(
        "V2: a change of a versioned side that is as old as retention allows is taken", "sql/changes/given.py",
        'call["retention"], less)', 'max(call["retention"] - 1000, 0), less)', CHANGELOGS,
    ),
    Mutation(
        "V8: what passed and does not any more is deleted", "sql/functions/filter_changes.py",
        'F.when(named(PASSES), "upsert").when(named(HAD), "delete")', 'F.when(named(PASSES), "upsert")', FILTERED,
    ),
    Mutation(
        "V8: of a versioned input all that does not pass is deleted", "sql/functions/filter_changes.py",
        'F.lit(True) if call["versioned"] else F.coalesce(last, F.lit(False))', "F.coalesce(last, F.lit(False))", FILTERED,
    ),
    Mutation(
        "J8: a left row that names another one withdraws its old match", "sql/changes/foreign.py",
        'HAD: F.lag(named(HAS), 1, False).over(by_key)', "HAD: F.lit(False)", BY_NAME,
    ),
    Mutation(
        "J8: only the current match counts", "sql/changes/foreign.py",
        'for a, b in (("l", "r"), ("r", "l"))]', 'for a, b in (("r", "l"),)]', BY_NAME,
    ),
    Mutation(
        "J8: on a stream, a left row that names another one is told of by that one alone", "udfs/changes/references.py",
        "told = np.flatnonzero(~of_right & ~groups.as_flags(one(rows, self.marks.silent)))", "told = np.flatnonzero(~of_right)", STREAMED,
    ),
    Mutation(
        "J8: on a stream, what names another row now is not told of the old one's changes", "udfs/changes/references.py",
        "high = np.minimum(np.searchsorted(right, left.end), np", "high = np.minimum(len(right), np", STREAMED,
    ),
    Mutation(
        "J8: on a stream, a null names nothing, and nothing is held of it", "udfs/changes/references.py",
        "comes & groups.as_flags(one(rows, self.marks.names))", "comes", STREAMED,
    ),
    Mutation(
        "J8: on a stream, a deletion has the time of what it withdraws, if that is larger", "udfs/changes/referring.py",
        "np.where(before >= 0, met[before], LOWEST))", "LOWEST)", STREAMED,
    ),
    Mutation(
        "J8: a deletion has the time of what it withdraws, if that is larger", "sql/changes/foreign.py",
        "AT: F.greatest(named(LEFT_TIME), named(RIGHT_TIME), late)", "AT: F.greatest(named(LEFT_TIME), named(RIGHT_TIME))", BY_NAME,
    ),
    Mutation(
        "J9: a row that moves leaves its old group", "sql/changes/aggregate.py",
        "F.explode(F.array(part(False), part(True)))", "F.explode(F.array(part(True)))", TOTALS,
    ),
    Mutation(
        "J9: a null group is no group", "sql/changes/aggregate.py",
        'here = expression(" AND ".join([quoted(ALIVE), *(f"{quoted(g.name)} IS NOT NULL" for g in groups)]))', "here = named(ALIVE)", TOTALS,
    ),
    Mutation(
        "J9: one change if the group is the same", "sql/changes/aggregate.py",
        "df = df.withColumn(LAST, named(COMES) | ~named(SAME)).drop(PART)", "df = df.withColumn(LAST, F.lit(True)).drop(PART)", TOTALS,
    ),
    Mutation(
        "J9: change_time never goes back within a group", "sql/changes/aggregate.py",
        "AT: F.max(frame.time.column).over(so_far)", "AT: frame.time.column", TOTALS,
    ),
    Mutation(
        "J9: the smallest value that is gone is forgotten", "udfs/taken_back.py", "if self.counts[top]:", "if True:", TOTALS,
    ),
    # changelogs and versions on streams
    Mutation(
        "C10: on a stream, change_seq goes on in the next micro-batch", "udfs/changes/latest.py",
        "in_run = in_run + np.where(goes_on, number_before, 0)", "in_run = in_run + 0", STREAMED,
    ),
    Mutation(
        "J7: on a stream, a deletion is held as long as an older change may come", "udfs/changes/latest.py",
        "np.where(for_ever, HIGHEST, time)", "np.where(for_ever, time, time)", STREAMED,
    ),
    Mutation(
        "J7: on a stream, a versioned side takes a change that is as old as retention allows", "udfs/changes/latest.py",
        "else clock, log.retention)", "else clock, log.retention - 1)", STREAMED,
    ),
    Mutation(
        "J9: on a stream, a group's values come back from the state", "udfs/changes/totals.py",
        "whose in entry else asked.empty(values.type)", "whose in entry and current < 0 else asked.empty(values.type)", STREAMED,
    ),
    Mutation(
        "C5: of two streams, a version is held for `retention` after the next one begins", "udfs/as_of_stream.py",
        "self.retention - self.grace + 1)", "0)", "tests/udfs/test_as_of_stream.py",
    ),
    Mutation(
        "V3: of two streams, a row that comes now meets no dead version, whatever else is held", "udfs/as_of_stream.py",
        "matches = np.where(late & ~newest, -1, matches)",
        "matches = np.where(late & ~newest & np.isin(of, versions.group[alive]), -1, matches)", "tests/udfs/test_as_of_stream.py",
    ),
    Mutation(
        "C5: of two streams, dead versions are not written again", "udfs/as_of_stream.py",
        "np.isin(versions.group, changed) & (until >= threshold)", "np.isin(versions.group, changed)", "tests/udfs/test_as_of_stream.py",
    ),
    Mutation(
        "J4: the nearest but an equal time, of a table beside a stream", "sql/as_of/stream.py",
        "if direction != NEAREST and exact ==", "if exact ==", "tests/sql/stream/test_as_of_streams.py -k cut_anyhow_joins",
    ),
    Mutation(
        "C12: a row that is dropped for a null does not move the watermark", "sql/stream/watermark.py",
        "F.when(moves, moment)", "moment", "tests/sql/stream/test_session_streams.py::test_dropped_rows_alone",
    ),
    Mutation(
        "C3: what a table stored of a watermark is none", "sql/stream/watermark.py",
        "set(REFERENCE.findall(plan)) <= set(DEFINITION.findall(plan))", "False", "tests/sql/stream/test_watermark.py",
    ),
    Mutation(
        "D7: on a stream, a null offset is none, though it travels as a digest", "sql/stream/plan.py",
        "{name: F.when(known, column) for", "{name: column for",
        "tests/sql/stream/test_streaming.py::test_deduplicate_over_a_stream_cut_and_restarted_at_random",
    ),
    Mutation(
        "D1: the smallest time has nothing before it", "udfs/arrays/groups.py",
        "np.where(targets < low, -1, np.minimum(np.maximum(targets, low), high) - low)",
        "np.minimum(np.maximum(targets, low - 1), high) - low", KERNELS,
    ),
    Mutation(
        "D8: turned round, the smallest time is the largest", "udfs/deduplicate.py",
        "times, stream_times = ~times, ~stream_times", "times, stream_times = -times, -stream_times", KERNELS,
    ),
    Mutation(
        "C5: a restart in a session of another time zone changes nothing", "udfs/arrays/blobs.py",
        'return pa.timestamp(kind.unit, "UTC")', "return kind", "tests/udfs/suppress/test_waiting.py tests/udfs/arrays/test_blobs.py",
    ),
    Mutation(
        "held rows of other columns are an error that names them", "sql/stream/checkpoint.py",
        '    refuse_changed(function, "columns", differences(was, now))\n', "", "tests/udfs/suppress/test_waiting.py",
    ),
    Mutation(
        "V3: of two streams, a row that waited does not expire", "udfs/as_of_stream.py",
        "hidden = late & ~newest", "hidden = np.asarray(expired(at, stream_time, self.retention)) & ~newest", "tests/udfs/test_as_of_stream.py",
    ),
    Mutation(
        "V3: by the clock on the wall, the newest version is never too old", "udfs/as_of_stream.py",
        "            old &= ~_newest(group, moments, right, owner, held)\n", "            pass\n", "tests/udfs/test_as_of_stream.py",
    ),
    Mutation(
        "S8: where a stream has no stream time yet, `emit_time` is the row's own", "udfs/suppress/waiting.py",
        "own.take(pa.array(np.arange(len(drops)), mask=drops))", "pa.nulls(len(drops), own.type)", "tests/udfs/suppress/test_waiting.py",
    ),
    Mutation(
        "held rows go on though other things in them may be null now", "udfs/arrays/blobs.py",
        "field.with_type(_in_one_form(field.type)).with_nullable(True)", "field.with_type(_in_one_form(field.type))",
        "tests/udfs/suppress/test_waiting.py -k held_rows",
    ),
    Mutation(
        "a checkpoint has options letter by letter", "sql/stream/checkpoint.py",
        "    if LETTERS not in before:\n", "    if before:\n", "tests/sql/stream/test_checkpoint.py",
    ),
    Mutation(
        "W5: a checkpoint knows the types of what is added up", "sql/windows/updates.py",
        '{"types": changing.types, "output"', '{"output"', "tests/sql/stream/test_pinned.py -k added_up",
    ),
    Mutation(
        "J9: a checkpoint knows the types of what is added up", "sql/changes/stream_totals.py",
        '    options["types"] = _types(seen, frame.df.schema)\n', "", "tests/sql/stream/test_pinned.py -k added_up",
    ),
    Mutation(
        "C4: a stream refuses ORDER BY with a collation", "sql/stream/plan.py",
        '        refuse_collated(call, "ORDER BY", "a column", item.ref)\n', "        pass\n", "tests/sql/stream/test_pinned.py -k collation",
    ),
    # pictures
    Mutation(
        "a picture: a closed session stays what it is", "catalog/pictures/meanings.py",
        "or b.end >= closing.closed_before(now))", "or b.end)", DRAWN,
    ),
    Mutation(
        "a picture: a row of several windows is late only where all are closed", "catalog/pictures/meanings.py",
        "next((r for r in group if r.outcome not in DROPPED), group[0])", "group[0]", DRAWN,
    ),
    Mutation(
        "a picture: a late row is not kept (D6)", "catalog/pictures/meanings.py",
        "and row.at < row.clock - within:", "and row.clock < row.clock - within:", DRAWN,
    ),
    Mutation(
        "a picture: names are no formulas", "catalog/pictures/drawing.py",
        "fontsize=9, parse_math=False)", "fontsize=9)", DRAWN,
    ),
    Mutation(
        "explore: only who has the token gets an answer", "catalog/explore/server.py",
        "return secrets.compare_digest(request.path_params[\"token\"].encode(), token.encode())", "return True", "tests/catalog/explore",
    ),
    Mutation(
        "explore: the Host header is that of loopback", "catalog/explore/server.py", "allowed_hosts=HOSTS", 'allowed_hosts=["*"]', "tests/catalog/explore",
    ),
    # maintained tables
    Mutation("maintain: a run sees its table as it was when it began", "catalog/maintained/target.py", '.option("versionAsOf", self.version)', "", f"{MAINTAINED} -k same_time"),
    Mutation("maintain: a full run with a key computes its query once", "catalog/maintained/maintaining.py", "self._refuse_twins(self._cached(rows))\n        return self.target", "self._refuse_twins(rows)\n        return self.target", f"{MAINTAINED} -k full_run"),
    Mutation("maintain: DATE 'yesterday' is another day each time", "catalog/maintained/refusing.py", "if token.name in TIMES and", "if token.name in () and", f"{MAINTAINED} -k cannot_be_followed"),
    Mutation("maintain: a sum of values that may be NULL is in doubt when some went", "catalog/maintained/additive.py", "F.lit(False) if never_null else", "F.lit(False) if i else", f"{ADDED} -k without_null"),
    Mutation("a struct may be null though its fields never are", "udfs/arrays/ordering.py", "with_type(without_times(field.type)).with_nullable(True)", "with_type(without_times(field.type))", "tests/udfs/arrays/test_ordering.py"),
    Mutation(
        "maintain: where the least value of a group went, it is computed anew", "catalog/maintained/additive.py",
        "reached = (went <= new)", "reached = (went < new)", f"{ADDED}::test_what_changes_are_added_to_is_what_all_rows_give",
    ),
    Mutation(
        "maintain: of a join, what changed meets one side as it was and the other as it is", "catalog/maintained/additive.py",
        "old=n > place", "old=False", f"{ADDED}::test_what_changes_are_added_to_is_what_all_rows_give",
    ),
    Mutation(
        "maintain: a null among the units is named by the condition", "catalog/maintained/target.py",
        "if len(known) < len(values) else conditions", "if not known else conditions", f"{ADDED}::test_a_condition_names_units_whatever_they_are",
    ),
    Mutation(
        "maintain: a group that makes several rows is put in its place whole", "catalog/maintained/maintaining.py",
        "root.grouped is None or root.spread", "root.grouped is None", FOUND,
    ),
    Mutation(
        "maintain: -0.0 is written in the place of 0.0", "catalog/maintained/target.py",
        "NOT (CAST({old} AS STRING) <=> CAST({new} AS STRING))", "NOT ({old} <=> {new})", FOUND,
    ),
    Mutation(
        "changes: a key or group that is also in ORDER BY is the row's, not that of what caused the change", "sql/changes/given.py",
        "shown.setdefault(original, column)", "shown[original] = column", "tests/sql/changes/test_join_changes_by_foreign_key.py -k breaks_ties",
    ),
    Mutation(
        "maintain: rows that have no partner on the null side are looked up too", "catalog/maintained/nodes.py",
        " and not (edge.outer and forward)", "", FOUND,
    ),
    Mutation(
        "maintain: two columns that meet one column of a null side are two", "catalog/maintained/nodes.py",
        "([] if edge.outer else [(edge.other, edge.one)])", "[(edge.other, edge.one)]", JOINS,
    ),
    Mutation(
        "maintain: no way leads through the null side of an outer join", "catalog/maintained/nodes.py",
        " and not (e.outer and to_null_side[here])", "", JOINS,
    ),
    Mutation(
        "maintain: what was cached last is freed first", "catalog/maintained/units.py",
        "self.cached.pop().unpersist()", "self.cached.pop(0).unpersist()", "tests/catalog/maintained/test_units.py",
    ),
    Mutation(
        "maintain: a name of three parts is a field", "catalog/maintained/names.py",
        'if column.args.get("db"):', 'if column.args.get("no part"):', JOINS,
    ),
    Mutation(
        "maintain: an expression over CHARs is not asked apart from its table", "catalog/maintained/reading.py",
        '.startswith("char(") for c in columns', '.startswith("no type") for c in columns', JOINS,
    ),
    Mutation(
        "maintain: count of two things counts no rows", "catalog/maintained/names.py",
        " and not item.expressions:", ":", JOINS,
    ),
    Mutation(
        "maintain: a text that writes is not run", "catalog/statements/calls.py",
        "return statement.word(first) in QUERIES and", "return", f"{MAINTAINED} -k writes",
    ),
    Mutation(
        "maintain: a CHAR is one of its length", "catalog/maintained/nodes.py",
        "char_type(f) or f.dataType", "f.dataType", JOINS,
    ),
    Mutation(
        "maintain: what changes on the null side of an outer join is not followed row by row", "catalog/maintained/additive.py",
        " and a not in root.optional", "", f"{ADDED}::test_rows_that_changes_lead_to_are_put_in_their_places",
    ),
    Mutation(
        "maintain: a row that was there between two commits alone never came", "catalog/maintained/additive.py",
        "tables[source.table].net(session)", "tables[source.table].signed(session)", f"{ADDED}::test_rows_that_changes_lead_to_are_put_in_their_places",
    ),
    Mutation(
        "maintain: a row may not come with the key of one that is there", "catalog/maintained/additive.py",
        "if twins is None and inserted:", "if False:", f"{ADDED}::test_a_key_that_two_rows_come_to_have_is_refused",
    ),
    Mutation(
        "maintain: a null key has its place too", "catalog/maintained/target.py",
        '{OLD}.{quoted(c)} <=> {NEW}.{quoted(c)}', '{OLD}.{quoted(c)} = {NEW}.{quoted(c)}', f"{ADDED}::test_rows_that_changes_lead_to_are_put_in_their_places",
    ),
    Mutation(
        "TABLE_HISTORY: -0.0 in the place of 0.0 is another version", "sql/tables/commits.py",
        " or has_floating(kind):", ":", "tests/sql/functions/test_table_history.py::test_a_version_is_told_from_another_by_bits",
    ),
    Mutation(
        "dbt: what was kept in a run before holds back rows of the next", "catalog/dbt/package/macros/incremental/since_kept.sql",
        ") where streamtime_newest = 1", ") where streamtime_newest = 0", "tests/catalog/dbt/test_incremental.py",
    ),
    Mutation(
        "dbt: a row that is `within` before the newest one may hold back what comes", "catalog/dbt/package/macros/incremental/since_kept.sql",
        "{{ time }} >= (select max({{ time }}) from {{ this }}) - interval", "{{ time }} > (select max({{ time }}) from {{ this }})  + interval", "tests/catalog/dbt/test_incremental.py",
    ),
    Mutation(
        "dbt: what is there is not appended again", "catalog/dbt/package/macros/incremental/only_new.sql",
        "{{ time }} > (select max", "{{ time }} >= (select max", "tests/catalog/dbt/test_incremental.py",
    ),
    # what is stored
    Mutation(
        "V2: stream time moves within a put", "catalog/store/puts.py",
        "            clock = moved(clock, micros)\n            accepted[", "            accepted[", VERSIONED,
    ),
    Mutation(
        "V4: a deletion is in a commit of its own", "catalog/store/puts.py",
        "return self.batch is None and self.label is None", "return self.batch is None", f"{PUTS} -k among_puts",
    ),
    Mutation(
        "watch: what was tried is tried again as it was", "catalog/monitoring/watching.py",
        "[: self._tried or len(self._waiting)]", "[: len(self._waiting)]", "tests/catalog/monitoring/test_watch.py -k not_lost",
    ),
    Mutation(
        "S12: first results of sessions wait for the gap that made them", "sql/suppress/batch.py",
        "    if closes > made + 1:", "    if closes > made + 1 and not corrected:", "tests/sql/functions/test_suppress.py -k first_results_of_sessions",
    ),
    Mutation(
        "C10: plain SQL takes rows that are equal in one order", "sql/windows/session_updates.py",
        "orderBy(*frame.sort(), named(ROW))", "orderBy(*frame.sort())", "tests/catalog/plain/test_whole_texts.py -k equal_in_all_columns",
    ),
    Mutation("V7: a batch is stored once", "catalog/store/puts.py", "{APP: batch and batch[0], VERSION:", "{APP: None, VERSION:", VERSIONED),
    Mutation(
        "V2: where another writer moved stream time, rows are judged anew", "catalog/store/puts.py",
        "F.when(now.eqNullSafe(F.lit(clock).cast(\"long\")), True)", "F.when(now.isNull() | now.isNotNull(), True)", VERSIONED,
    ),
    Mutation(
        "V6: a query of WITH is not the table whose name it has", "sql/as_of/history.py",
        "if reads_with(call.tables[1].source, call[\"history\"]):", "if False:", "tests/sql/as_of/test_history.py::test_a_query_of_with_has_no_history",
    ),
    Mutation(
        "V6: what was read in other columns than a table has now is not read", "sql/tables/commits.py",
        "start, complete, why = anew, False,", "complete, why = False,",
        "tests/sql/functions/test_table_history.py::test_a_table_that_was_replaced_with_other_columns_begins_anew",
    ),
    Mutation(
        "expectations: a row may come back for each of several windows", "catalog/expectations.py",
        'and given.get("slide") is None', "", "tests/catalog/test_expectations.py",
    ),
    Mutation(
        "dbt: a versioned table with another key needs a full refresh", "catalog/dbt/package/macros/materializations/versioned_table.sql",
        "and 'redacted' not in declared", "and false", "tests/catalog/dbt/test_texts.py",
    ),
    Mutation(
        "R5: names are compared by their bytes", "sql/functions/assign_tasks.py", "if collated(kind):", "if False:",
        "tests/sql/functions/test_assign_tasks.py",
    ),
    Mutation(
        "V2: stream time is the table's, not what a process remembers", "catalog/store/puts.py",
        "if source is None and remembered:", "if False:", PUTS,
    ),
    Mutation(
        "a lookup by a datetime finds what a put of it stored", "catalog/store/fitting.py",
        "if isinstance(value, datetime.datetime) and", "if False and", f"{PUTS}::test_a_lookup_finds_the_time_that_was_put_whatever_the_zones",
    ),
    Mutation(
        "deletions that share the name of a batch are not one", "catalog/store/table.py",
        'json.dumps(["delete", str(batch_id), *row.values()], default=str)', 'json.dumps(["delete", str(batch_id)])',
        f"{PUTS}::test_many_deletions_share_the_name_of_a_batch",
    ),
    Mutation(
        "rows of a frame are put in the direction that is said", "catalog/store/table.py",
        '"ASC" if s.ascending else "DESC"', '"ASC"', f"{PUTS}::test_rows_of_a_frame_go_in_the_order_that_is_said",
    ),
    Mutation("V3: in a stored table, too, the current version never expires", "catalog/store/table.py", "(valid | ((F.col(", "(((F.col(", VERSIONED),
    Mutation(
        "V4: a range lookup includes its end", "catalog/store/table.py",
        "F.expr(f\"{microseconds(quoted(self._layout.time.name), self._layout.time.dataType)} <= `__at`\")",
        "F.expr(f\"{microseconds(quoted(self._layout.time.name), self._layout.time.dataType)} < `__at`\")", VERSIONED,
    ),
    Mutation("apply_changes: of equal ones a deletion wins", "sql/tables/apply_changes.sql", "ORDER BY `__gone` DESC{% for c in ties %}", "ORDER BY `__gone`{% for c in ties %}", APPLIED),
    Mutation(
        "apply_changes: an older change brings no deleted key back", "sql/tables/apply_changes.sql",
        "FROM {{ deletions }} AS d LEFT SEMI JOIN changes AS c ON {% for k in keys %}d.{{ k }} = c.{{ k }}{{ ' AND ' if not loop.last }}{% endfor %}\n\n  )\n  SELECT * FROM (",
        "FROM {{ deletions }} AS d LEFT ANTI JOIN changes AS c ON {% for k in keys %}d.{{ k }} = c.{{ k }}{{ ' AND ' if not loop.last }}{% endfor %}\n\n  )\n  SELECT * FROM (", APPLIED,
    ),
    Mutation(
        "few rows: they lie in other tasks once offsets are comparable under a collation", "sql/rows/frame.py",
        "together=self.together and not shuffled", "together=self.together", "tests/sql/rows/test_scans.py",
    ),
    Mutation(
        "suppress: rows that leave as they come lie in all tasks", "sql/suppress/spread.py",
        "F.coalesce(named(ASIDE), divided.ranges.partition_label)", "divided.ranges.partition_label", "tests/sql/suppress/test_spread.py",
    ),
    Mutation(
        "windows: those that stay open lie in all tasks", "sql/windows/release.py",
        "F.when(never, anywhere).otherwise(self.ranges.partition_label)", "self.ranges.partition_label", "tests/sql/windows/test_final_windows.py",
    ),
    Mutation(
        "W6: a stream time right below a close does not release it", "udfs/release.py",
        "wanted = groups.as_ints(closes)", "wanted = groups.as_ints(closes) - 1", "tests/udfs/test_release.py",
    ),
    Mutation(
        "W6: the next range's first stream time lets out what closes above all of a range", "udfs/release.py",
        "range(lowest, its + 1)", "range(its, its + 1)", "tests/udfs/test_release.py",
    ),
    Mutation(
        "of stream times a task holds no more than the next windows ask for", "udfs/release.py",
        "times, above = times[:below], known[below : below + 1]", "pass", "tests/udfs/test_release.py",
    ),
    Mutation(
        "W6: a window leaves at its close, not after it", "sql/windows/release.py", "-{HIGHEST}L) - 1L", "-{HIGHEST}L)",
        "tests/sql/windows/test_grouped.py -k adds_up",
    ),
    Mutation(
        "W6: where a range has no stream time above a close, the next one's smallest holds", "sql/windows/release.py",
        "F.coalesce(reached, F.get(cut.above(clocks), named(RANGE)))", "reached", "tests/sql/windows/test_final_windows.py -k several_ranges",
    ),
    Mutation(
        "maintain: any(x) is no key", "catalog/maintained/reading.py", "exp.AggFunc, exp.Any, exp.Window", "exp.AggFunc, exp.Window",
        f"{MAINTAINED}::test_what_looks_like_a_key_and_is_none",
    ),
    Mutation(
        "maintain: the FROM of IS DISTINCT FROM ends no item", "catalog/maintained/names.py",
        'and source.word(i - 1) != "DISTINCT"', "", f"{MAINTAINED}::test_what_looks_like_a_key_and_is_none",
    ),
    Mutation(
        "maintain: a note counts as a run", "catalog/maintained/target.py",
        "return self._written(nothing, receipt, label)", "nothing.options(userMetadata=label).saveAsTable(self.name); return receipt",
        f"{MAINTAINED}::test_a_run_that_finds_nothing_leaves_nothing_out_of_what_another_did_meanwhile",
    ),
    Mutation(
        "apply_changes: the table of deletions gets wider with its table", "catalog/store/applying.py",
        "self._widened(self.deletions, remembered)", "self._widened(self.deletions, [])",
        "tests/catalog/store/test_applying.py::test_what_stands_beside_a_table_gets_wider_with_it",
    ),
    Mutation(
        "maintain: an expression with a name that only the whole text knows is no unit", "catalog/maintained/names.py",
        "return table in self.known if table else", "return True if table else",
        f"{MAINTAINED}::test_expressions_that_do_not_say_where_a_row_is_made_of",
    ),
    Mutation(
        "maintain: an expression that is a MAP is no unit", "catalog/maintained/reading.py",
        'if comparable(kinds.get(u, "")))', "if u in kinds)",
        f"{MAINTAINED}::test_expressions_that_do_not_say_where_a_row_is_made_of",
    ),
    Mutation(
        "maintain: tables are read as they were, however long ago", "catalog/maintained/snapshots.py",
        'RetentionDuration": "false"}', 'RetentionDuration": "true"}',
        f"{MAINTAINED}::test_tables_that_change_seldom_are_read_as_they_were_and_what_is_lost_is_computed_anew",
    ),
    Mutation(
        "apply_changes: a batch that comes again brings no rows back", "catalog/store/applying.py",
        "session.sql(again.merge)", "session.sql(work.merge)", APPLIED,
    ),
    Mutation("apply_changes: a fraction is not cut off", "catalog/store/fitting.py", " or _cuts(given, wanted)", "", APPLIED),
    Mutation("apply_changes: a batch is applied once", "catalog/store/applying.py", "with _named(session, batch):", "with _named(session, None):", APPLIED),
    # servers and Python UDTFs
    Mutation("serve: beyond this machine, Connect needs a token", "catalog/server/options.py", "if options.connect_port is not None and not token(options):", "if False:", SERVED),
    Mutation("serve: beyond this machine, passwords travel by TLS", "catalog/server/options.py", "if options.thrift_port is not None and not options.keystore:", "if False:", SERVED),
    Mutation(
        "C2: a day that is null is no time", "sql/rows/typed.py",
        'return f"if({day} IS NULL, NULL, least(', 'return f"if({day} IS NULL, -9000000000000000000L, least(', "tests/sql/functions/test_versions.py -k days",
    ),
    Mutation(
        "J5: `match` is heeded beside `arrival`", "sql/as_of/known_as_of.py",
        "direction, exact = meaning(call, sides)", "direction, exact = meaning(call, sides)[0], True", "tests/sql/functions/test_as_of_join.py -k known_then",
    ),
    Mutation(
        "J5: clocks run by keys of any type", "sql/as_of/waiting.py",
        'call["grace"]), left.df.columns', 'call["grace"]), frame.df.columns', "tests/sql/functions/test_as_of_join.py -k any_key",
    ),
    Mutation(
        "S6: the error of a full buffer is not lost to a condition on its rows", "sql/suppress/fullness.py",
        "columns = [error_or(F.lit(None).cast(f.dataType), f.dataType)", "columns = [F.lit(None).cast(f.dataType)", "tests/catalog/plain/test_whole_texts.py -k full",
    ),
    Mutation(
        "plain: two `?` of one text have two values", "catalog/plain/ctes.py",
        'if any(token.text == "?" for token in Source(text).tokens):', "if False:", "tests/catalog/plain/test_compiling.py -k question",
    ),
    Mutation(
        "plain: a function of the session is its body", "catalog/plain/expressions.py",
        '"NormalizeNaNAndZero", "SQLScalarFunction")', '"NormalizeNaNAndZero")', "tests/catalog/plain/test_expressions.py -k session_is",
    ),
    Mutation(
        "plain: AS_OF_JOIN with `arrival` asks blocks of the rows that it has", "sql/plain/known.py",
        "in_order = [*frame.sort(), *_others(frame, identity)]", "in_order = frame.sort()",
        "tests/whole/test_evaluations.py -k plain_sql_computes",
    ),
    Mutation(
        "plain: what is told of groups wants all that they have", "sql/windows/grouped.py",
        "df.withColumn(LATEST, wanting_all(named(NEWEST), df))", "df.withColumn(LATEST, named(NEWEST))", "tests/whole/test_evaluations.py -k plain_sql_computes",
    ),
    Mutation(
        "plain: no condition has many columns in it", "sql/windows/first_reach.py",
        "narrow = frame.kernels or len(frame.columns) <= MOST_CARRIED", "narrow = True",
        "tests/catalog/plain/test_whole_texts.py -k many_columns",
    ),
    Mutation(
        "what users filter by moves below what came in time", "sql/windows/first_reach.py",
        "narrow = frame.kernels or len(frame.columns)", "narrow = len(frame.columns)",
        "tests/sql/windows/test_first_reach.py -k reaches_the_files",
    ),
    Mutation(
        "plain: late sessions go into the shuffle in sorted runs", "sql/plain/islands.py",
        'rows, by = sorted_runs(rows, identity, "0L" if several else coarse_number(SINCE))', "by = list(identity)",
        "tests/catalog/plain/test_compiling.py -k stays",
    ),
    Mutation(
        "C12: in AS_OF_JOIN with retention a right row without a key moves no clock", "sql/as_of/lookup.py",
        "chosen(right, right.has_time & right.has_key).df, left", "chosen(right, right.has_time).df, left",
        "tests/catalog/plain/test_whole_texts.py -k long_before",
    ),
    Mutation(
        "plain: long texts name their columns, for which Spark's analyzer needs fewer turns", "catalog/plain/ctes.py",
        '"*" if self.depth <= DEEP else listed', '"*"', "tests/catalog/plain/test_whole_texts.py -k deep_text",
    ),
    Mutation(
        "plain: a text that Spark's analyzer gives up on is refused", "catalog/plain/compiling.py",
        "if TURNS not in str(error):", "if TURNS:", "tests/catalog/plain/test_whole_texts.py -k deep_text",
    ),
    Mutation(
        "plain: a text is as deep as the calls in it are together", "catalog/plain/ctes.py",
        "self.depth = below + self._depth()", "self.depth = self._depth()", "tests/catalog/plain/test_whole_texts.py -k deep_text",
    ),
    Mutation(
        "plain: a window function stands in the expression that it is for", "catalog/plain/printer.py",
        "return (each, child) if all(n == 1", "return (each, child) if not all(n == 1", "tests/catalog/plain/test_whole_texts.py -k stands_in",
    ),
    Mutation(
        "plain: a key of sessions may be given twice", "sql/plain/islands.py",
        "identity = list(dict.fromkeys(identity))", "identity = list(identity)", "tests/catalog/plain/test_whole_texts.py -k given_twice",
    ),
    # what slow tests alone see
    Mutation(
        "J7: on a stream, too, of equal places in the order the left row is first", "sql/changes/stream.py",
        "order.append(Order(refs[SIDE], True, True))", "order.append(Order(refs[SIDE], False, True))", CHANGING,
    ),
    Mutation(
        "J7: on a stream each side has a watermark, so that none is ahead of the other", "sql/changes/stream.py",
        "watermarked(own if mine and not all(has) else call, side.frame)", "side.frame.df", f"{CHANGING} -k 'ahead or cut_anyhow'",
    ),
    Mutation(
        "J9: on a stream, too, a null group is no group", "sql/changes/stream_totals.py",
        """*(f"{quoted(g.name)} IS NOT NULL" for g in seen.groups)""", "*[]", f"{CHANGING} -k totals",
    ),
    Mutation(
        "FILTER_CHANGES: on a stream, what a deletion shows beside its key is null", "sql/changes/stream.py",
        "F.when(upsert, named(c))).alias(o)", "named(c)).alias(o)", f"{CHANGING} -k 'filter or batch'",
    ),
    Mutation(
        "J8: on a stream, a row that goes and comes back to where it was only comes", "sql/changes/foreign_stream.py",
        "return parts.where(named(LAST))", "return parts", NAMING,
    ),
    Mutation(
        "J8: on a stream, a left row says when it comes alone, not when it went from another", "sql/changes/foreign_stream.py",
        "named(MOVED) & ~named(COMES)", "~named(COMES)", NAMING,
    ),
    Mutation(
        "AS_OF_JOIN: a table without rows leaves no row of the stream unread", "sql/as_of/stream.py",
        "return F.spark_partition_id() >= 0", "return F.lit(True)", AS_OF_STREAMS,
    ),
    Mutation(
        "J4: beside a stream, of right rows of one time one is taken", "sql/as_of/stream.py",
        ".where(named(TO).isNull() | (named(TO) != right.time.column))", "", AS_OF_STREAMS,
    ),
    Mutation(
        "C12: of two streams, a left row without a key moves no watermark", "sql/as_of/both_streams.py",
        "side.time.column if place else F.when(side.has_key, side.time.column)", "side.time.column",
        f"{AS_OF_STREAMS} -k moves_no_watermark",
    ),
    Mutation(
        "C3: where one of two streams has a watermark, the option gives the other one", "sql/as_of/both_streams.py",
        "if has[place] or (any(has) and call", "if has[place] or (False and call", f"{AS_OF_STREAMS} -k idle_side",
    ),
    Mutation(
        "S8: what follows SUPPRESS knows how far its rows lie behind by emit_time", "sql/suppress/stream.py",
        "[*(unmarked(schema[name]) for name", "[*(schema[name] for name", "tests/sql/stream/test_suppress_stream.py -k own_times",
    ),
    Mutation(
        "S6: on a stream, too, bounds are of all keys together", "sql/suppress/stream.py",
        "identity = [] if bounded else changelog.identity", "identity = changelog.identity",
        "tests/sql/stream/test_suppress_stream.py -k bounded",
    ),
    Mutation(
        "on a stream, what is held is looked at when it is due, whether rows come or not", "sql/stream/buckets.py",
        "return first_due(state) - self.holder.threshold(0)", "return FAR",
        "tests/sql/stream/test_suppress_stream.py -k 'idle or random or equal_however'",
    ),
    Mutation(
        "W3: on a stream, sessions close without `grace`, too, as each row's sentence says", "sql/windows/explain.py",
        'SessionSteps(call["gap"], grace, close=True)', 'SessionSteps(call["gap"], grace, close=False)',
        "tests/sql/stream/test_session_streams.py -k sentence",
    ),
    Mutation(
        "a function that follows a stream's function has its watermark", "sql/stream/plan.py",
        "        return marked(call, field)\n", "        return field\n", "tests/whole/test_chains.py tests/sql/stream/test_streaming.py",
    ),
    Mutation(
        "a checkpoint of another output is an error that names it", "sql/functions/sessionize.py",
        '"grace": call["grace"], "output": output}', '"grace": call["grace"]}', "tests/sql/stream/test_session_streams.py",
    ),
    Mutation(
        "TABLE_HISTORY: a commit that wrote a row as it was is no version", "sql/tables/commits.py",
        'unchanged = (F.col("removed") == 1) & equal', 'unchanged = (F.col("removed") == 1) & F.lit(False)', HISTORIES,
    ),
    Mutation(
        "TABLE_HISTORY: what was there before the range began has no beginning", "sql/tables/commits.py",
        '(F.col("number") == 1) & (F.col("removed") > 0)', 'F.col("removed") > 9', HISTORIES,
    ),
    Mutation(
        "TABLE_HISTORY: history begins where files of older commits were vacuumed", "sql/tables/commits.py",
        'if r.at >= horizon), default', 'if r.at >= 0), default', HISTORIES,
    ),
    Mutation(
        "a backquote in a name is written twice", "sql/syntax/text.py", '"`" + name.replace("`", "``") + "`"', '"`" + name + "`"', "tests/sql/call/test_names.py",
    ),
    Mutation(
        "D8: as a Python UDTF, too, rows are turned round where the last of a key stays", "sql/udtf/handler.py",
        "OrderingColumn(o.expression.text, o.ascending != last, o.nulls_first != last)",
        "OrderingColumn(o.expression.text, o.ascending, o.nulls_first)", "tests/sql/udtf/test_udtf.py",
    ),
    Mutation(
        "C12: as a Python UDTF, too, a row without a time moves no clock", "sql/udtf/handler.py",
        "pa.array(micros[order], mask=~moves[order])", "pa.array(micros[order])", "tests/sql/udtf/test_udtf.py",
    ),
    Mutation(
        "kernels travel to workers that have not the pack", "sql/rows/kernels.py",
        'pkgutil.walk_packages(streamtime.udfs.__path__, "streamtime.udfs.")', 'pkgutil.iter_modules(streamtime.udfs.__path__, "streamtime.udfs.")',
        "tests/sql/rows/test_kernels.py",
    ),
    Mutation(
        "the code of kernels is pickled once, whatever calls say", "sql/rows/kernels.py", "@functools.lru_cache(maxsize=256)\ndef _code(",
        "@functools.lru_cache(maxsize=0)\ndef _code(", "tests/sql/rows/test_kernels.py",
    ),
    Mutation(
        "a worker reads a code once", "udfs/arrays/worker.py", "if code not in library:", "if library.clear() is None:", "tests/sql/rows/test_kernels.py",
    ),
    Mutation(
        "what is made for one analysis goes with it", "sql/rows/columns.py", "if not all(map(lasts, columns)):", "if not columns:", "tests/sql/rows/test_columns.py",
    ),
]  # fmt: skip


class Record(NamedTuple):
    """What became of a broken rule: the test that failed first, or None; when, in which commit, and a digest of the file that was broken.

    `short`: it failed with no more rounds than a short run goes.
    """

    caught: str | None
    date: str
    commit: str
    file: str
    short: bool = True


class DidNotRunError(Exception):
    """Not a test failed, but pytest."""


def broken(mutation: Mutation, package: Path) -> None:
    """The package with that rule broken."""
    for folder, inside in (("catalog", "."), ("sql", "sql"), ("udfs", "udfs")):
        shutil.copytree(ROOT / folder, package / inside, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    top, _, rest = mutation.file.partition("/")
    path = package / rest if top == "catalog" else package / top / rest
    path.write_text(path.read_text().replace(mutation.text, mutation.broken))


def caught(mutation: Mutation, seconds: float = LIMIT) -> tuple[str | None, bool]:
    """The test that caught it before, if it does so still and a short run takes it; or the first of a short run that fails; or of all; None
    where the broken rule passes them all. And whether it is one that a short run takes, if it was not known to be slow for what it caught."""
    named = shlex.split(mutation.tests)
    known = records().get(mutation.rule)
    with tempfile.TemporaryDirectory() as folder:
        broken(mutation, Path(folder) / "streamtime")
        before = [known.caught] if known and known.caught and "::" in known.caught else []
        for tests, which, *more in ((before, SHORT), (named, SHORT), (before, ALL, "--few"), (named, ALL, "--few"), (named, ALL)):
            try:
                by = failing(folder, tests, which, seconds, *more) if tests else None
            except DidNotRunError:
                if tests is not before:  # which may be gone
                    raise
                continue
            if by is not None:
                if "::" in by and by not in before and fails_anyway(mutation, by, seconds):
                    raise DidNotRunError(f"{by} fails by itself where no rule is broken")
                return by, which == SHORT
        return None, False


def fails_anyway(mutation: Mutation, test: str, seconds: float) -> bool:
    """Whether a test fails over the package with its rule whole, too: then it has caught nothing."""
    with tempfile.TemporaryDirectory() as folder:
        broken(mutation._replace(broken=mutation.text), Path(folder) / "streamtime")
        return failing(folder, [test], ALL, seconds, "--few") is not None


def failing(folder: str, tests: Sequence[str], which: str, seconds: float, *more: str) -> str | None:
    """The first of these tests that fails over the package in a folder."""
    results = Path(folder) / "results.xml"
    results.unlink(missing_ok=True)
    options = ["-x", "-q", "-p", "no:cacheprovider", "-o", "junit_family=xunit1", f"--junitxml={results}", *more]
    command = [sys.executable, "-m", "pytest", *options, "-m", which, *tests]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | {"PYTHONPATH": folder}, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return f"nothing came for {LIMIT} s"
    if done.returncode in (0, 5):  # passed, or none of them is such a test
        return None
    cases = ElementTree.parse(results).getroot().iter("testcase") if done.returncode == 1 else ()
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    if not failed or failed[0].get("file") is None:  # it must be a test that fails, not pytest
        raise DidNotRunError(f"{' '.join(tests)} did not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return f"{failed[0].get('file')}::{failed[0].get('name')}"


def records() -> dict[str, Record]:
    return {rule: Record(**record) for rule, record in json.loads(RECORDS.read_text()).items()}


def add(mutation: Mutation, by: str | None, short: bool = True) -> None:
    """What others wrote meanwhile stays; records of rules that stand no more go."""
    now = records() | {mutation.rule: Record(by, datetime.datetime.now(datetime.UTC).date().isoformat(), commit(), digest(mutation), short)}
    lines = (f"{json.dumps(m.rule)}: {json.dumps(now[m.rule]._asdict())}" for m in MUTATIONS if m.rule in now)
    RECORDS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def digest(mutation: Mutation) -> str:
    return hashlib.sha256((ROOT / mutation.file).read_bytes()).hexdigest()[:12]


def commit() -> str:
    """The commit of the code; with a plus where files of the package or of tests are not as in there."""
    git = [["rev-parse", "--short", "HEAD"], ["status", "--porcelain", "--", "catalog", "sql", "udfs", "tests", ":!tests/mutations.json"]]
    head, changed = (subprocess.run(["git", *g], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip() for g in git)
    return f"{head}+" if changed else head


def cost(mutation: Mutation) -> float:
    """About how many seconds its tests take, by what whole files took; and a session of Spark takes half a minute to start."""
    known = json.loads((ROOT / "tests" / "seconds.json").read_text())["short"]
    named = [ROOT / word.partition("::")[0] for word in mutation.tests.split(" -k ")[0].split()]
    files = [path for one in named for path in ([one] if one.is_file() else one.rglob("test_*.py"))]
    starts = 30 if any("SparkSession" in path.read_text() for path in files) else 0
    return float(sum(known.get(path.relative_to(ROOT).as_posix(), 20) for path in files) + starts)


def older_first(mutations: list[Mutation]) -> list[Mutation]:
    """Those without a record, those whose file is another now, the others; of each the quick ones first."""
    now = records()

    def standing(m: Mutation) -> tuple[int, str, float]:
        record = now.get(m.rule)
        if record is None:
            return 0, "", cost(m)
        return (1, "", cost(m)) if record.file != digest(m) else (2, record.date, cost(m))

    return sorted(mutations, key=standing)


def summary() -> str:
    now = records()
    lost = [m.rule for m in MUTATIONS if m.rule in now and now[m.rule].caught is None]
    changed = sum(m.rule in now and now[m.rule].file != digest(m) for m in MUTATIONS)
    missing = sum(m.rule not in now for m in MUTATIONS)
    return (
        f"Of {len(MUTATIONS)} rules {len(MUTATIONS) - missing - len(lost)} were caught, {len(lost)} were not caught, {missing} were not yet run; "
        f"{changed} were run before their file changed." + "".join(f"\nNot caught: {rule}" for rule in lost)
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="run.py mutations", description="Breaks rules on purpose, and says which test caught each.")
    parser.add_argument("names", nargs="*", help="part of a rule or of its file; without one, all")
    parser.add_argument("--older", action="store_true", help="first those without a record, or whose file changed since")
    parser.add_argument("--seconds", type=float, default=math.inf, help="end after so long")
    asked = parser.parse_args(arguments)
    chosen = [m for m in MUTATIONS if not asked.names or any(n.lower() in f"{m.rule} {m.file}".lower() for n in asked.names)]
    if not chosen:
        print(f"No rule has {' or '.join(asked.names)} in its name or file.", file=sys.stderr)
        return 2
    end, good = time.monotonic() + asked.seconds, True
    for number, mutation in enumerate(older_first(chosen) if asked.older else chosen, 1):
        began = time.monotonic()
        if began >= end:
            break
        try:
            by, short = caught(mutation, min(LIMIT, end - began))
        except DidNotRunError as error:
            good = False
            print(f"{mutation.rule}: {error}", file=sys.stderr, flush=True)
            continue
        if by is not None and time.monotonic() >= end and by.startswith("nothing came"):
            break  # it was not asked to the end
        add(mutation, by, short)
        good = good and by is not None
        print(f"{number:3}/{len(chosen)}  {time.monotonic() - began:5.0f} s  {mutation.rule}\n{' ' * 17}{by or 'NOT CAUGHT'}", flush=True)
    print(f"\n{summary()}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
