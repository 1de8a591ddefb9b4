"""Says which worker runs which task: shares out shards, tenants or streaming queries over members, with few moves.

## In a picture

```text
          before              after
m1        a  b  c  d          a  b  c            c stays until m2 has read its state
m2        (d)                 d  [c]             d moves at once: m2 has its state
                                                 d runs   (d) standby   [c] warm-up
```

## What it does

Three tables go in: what is to be run, who can run it, and who has what now. The plan comes out: a row for each copy of a task.

- **Tables**: `tasks` has the column `task`. It may have `stateful`, BOOLEAN (null, or no such column: true), and `cost`, a number: how
  much load it is (no such column: all are alike). `members` has `member`. It may have `threads`, how many tasks it runs at a time (no
  such column: 1), `alive`, BOOLEAN, and columns that `tags` names. `current` has `task` and `member`. It may have `role` (`'active'`,
  `'standby'`, `'warmup'`; null: state that lies there while no copy runs; no such column: `'active'`) and `lag`, how many records a copy
  has still to read (null: not known). Other columns do no harm. Without `current` nothing runs yet.
- **Copies**: a task has one active copy, which runs it. A standby keeps up, ready to take over; each task that has state has `standbys`
  of them, on as many other members. A warm-up is a copy on its way: it takes the task over once it has caught up.
- **Actions**: `keep`: it stays as it is. `assign`: start a copy. `warm_up`: start a copy as a warm-up. `promote`: a copy that is there
  becomes the active one. `revoke`: stop a copy. Carry out `revoke` first. An owner that stays on as a standby has two rows, `revoke` as
  `active` and `assign` as `standby`. All rows but those of `revoke` are the table `current` of the next call.
- **Tasks stay where they are** with `strategy => 'sticky'` (R1). Each member has a quota: its `threads`, times the tasks per thread,
  rounded down. A task stays with its owner while that is within its quota. Else it goes to a standby within its quota, or to a member
  within it that has caught up. What is left stays with its owner, unless that is full and another has more room; then it goes to the
  member with most room. Of the tasks that an owner has too many of, those go first that another member with room can take over at once,
  then those that come last by name. So a member that leaves moves its own tasks only. One that joins takes no more than its share. One
  that comes back with its state on disk has its tasks again without a warm-up.
- **Costs that differ**: all tasks stay first. Those without an owner find a place, the dearest first. Then the member furthest above its
  share gives to the one furthest below, as long as it does not get less than that one.
- **Tasks are dealt by name** with `strategy => 'high_availability'`: round by round, then evened out over threads (R3). Where a task
  should be depends on the names alone, so many may move when a member comes or goes.
- **Nothing starts cold** (R2). A task with state whose owner is alive stays there until the member that is to have it has caught up: its
  `lag` is at most `acceptable_lag`. Until then that member has a warm-up; no more than `max_warmups` of them run at a time. There is
  never a second owner. `handover => 'immediate'` (only with `'sticky'`) does not wait. Without a column `lag` nothing is known of state,
  and nothing waits.
- **Who is gone**: a member of `current` that `members` does not have, and one with `alive` false. Its tasks are assigned at once: to a
  copy that has caught up, else to the one that lags least. With a column `alive`, all members must be listed. Copies of a task that
  `tasks` does not have are revoked.
- **Apart**: with `tags => ARRAY('zone')`, the copies of a task lie on members of different zones, as far as there are enough. Several
  tags count together; one whose values are all in use no longer counts.
- **What comes next**: `rounds => n` goes on from the plan to the next ones, as if all copies had caught up in between, until nothing
  changes or there are n (R4). The column `round` counts them.

`output => 'explain'` adds `lag`, and `why`, a sentence. `output => 'metrics'` has numbers for each round: `moves` (tasks that change
their owner while it lives), `recovered` (tasks of owners that are gone), `cold_starts`, `promotions`, `warm_ups` (those that start),
`waiting` (moves still to come), `standbys_missing`, `tasks_per_thread_max` and `_min`, `imbalance` (by how much these differ), and
`stable` (1: no round needs to follow).

## Nulls, ties, late rows, empty input

- **Errors when the query runs, with the rows**: a null task or member, a name that is listed twice, a task with two owners, a role that
  is none, a negative lag, a `cost` or `threads` of zero, a member that is not listed where `alive` is. No member is an error, too.
- **Ties**: of members that are as good as each other the first by name is taken (R5).
- **Names** are compared by their bytes. A column under a collation is refused.
- **Empty input**: without tasks the plan is empty. There is no event time, so nothing is late.

## On a stream

Batch only. Plan in `foreachBatch`, or every few minutes.

## Guarantees

The plan depends on the rows alone, not on their order, files or cores (R5). Each task has one active copy. No member has two copies of a
task. A plan that was carried out leads to one that keeps everything.

## Related functions, and the same thing elsewhere

- No other function of this pack is like it. `streamtime.plot` draws a plan of several rounds.
- **Kafka Streams** assigns in the same way, by its StickyTaskAssignor and HighAvailabilityTaskAssignor. Two things differ. Its sticky
  assignor moves at once and does not ask who has caught up, as with `handover => 'immediate'`. And of tasks that are alike the first by
  name is taken here, which in Kafka depends on hash codes.
- **Flink SQL** and **plain Spark** have nothing of the kind: their own schedulers place tasks, and do not say where.

## Memory and state

One task plans, since each decision depends on those before it: about 1 KB of memory for each task. 100,000 tasks on 1,000 members take a
few seconds, and twice as many take twice as long. The tables may come from anywhere, and are read once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.call.errors import did_you_mean, listed
from streamtime.sql.call.kinds import Choice, Count, Flag, Refused, Texts
from streamtime.sql.call.spec import NAME, Example, Option, Spec
from streamtime.sql.rows import kernels
from streamtime.sql.rows.columns import named
from streamtime.sql.rows.frame import ambiguous
from streamtime.sql.rows.typed import collated
from streamtime.udfs.assignment.cluster import Rules
from streamtime.udfs.assignment.planner import COLUMNS, PROBLEM, Planner
from streamtime.udfs.assignment.reading import COPY, MEMBER, NOTHING, TASK

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.call.values import Value

TASKS, MEMBERS, CURRENT = "tasks", "members", "current"
KINDS = {TASKS: TASK, MEMBERS: MEMBER, CURRENT: COPY}  # how the kernel tells the tables' rows apart
STICKY = "sticky"
NAMES = (T.StringType, T.IntegralType, T.DecimalType, T.DateType, T.TimestampType, T.TimestampNTZType, T.BinaryType, T.NullType)
OF_TABLE = {TASKS: ("task", "stateful", "cost"), MEMBERS: ("member", "threads", "alive"), CURRENT: ("task", "member", "role", "lag")}
FIELDS = {  # columns that a table may have: their type, and what stands there where it has none
    "stateful": ("boolean", True),
    "cost": ("double", 1.0),
    "threads": ("bigint", 1),
    "alive": ("boolean", True),
    "role": ("string", "active"),
    "lag": ("bigint", None),
}
EXPECTED = {
    "boolean": ("BOOLEAN", (T.BooleanType,)),
    "double": ("a number", (T.NumericType,)),
    "bigint": ("a whole number", (T.IntegralType,)),
    "string": ("STRING", (T.StringType,)),
}
OUTPUTS = {
    **dict.fromkeys(("role", "action", "why", "name", "metric", "unit", PROBLEM), T.StringType()),
    "round": T.IntegerType(),
    "lag": T.LongType(),
    "value": T.DoubleType(),
}


@dataclass(frozen=True)
class Rounds(Count):
    """A number of rounds."""

    @property
    def allowed(self) -> str:
        """The values that it takes, as a page lists them."""
        return "a whole number, one or more"

    def read(self, value: Value) -> int:
        """The number."""
        count = super().read(value)
        if not count:
            raise Refused("a whole number of one or more", "")
        return count


def check(call: Bound) -> None:
    """Options that do not go together."""
    if call["strategy"] == STICKY:
        return
    for name, given in (("handover", call["handover"] == "immediate"), ("preserve_active", call["preserve_active"])):
        if given:
            raise call.refuse(f"`{name}`", "goes with strategy => 'sticky' only", "Leave one out.")


def plan(call: Bound) -> DataFrame:
    """ASSIGN_TASKS as a DataFrame."""
    tables = dict(zip(call.spec.named, (t.df for t in call.tables), strict=False))
    for name, df in tables.items():
        if df.isStreaming:
            raise call.refuse(f"`{name}`", "is a stream: who runs what is planned over whole tables", "Plan in foreachBatch.")
    types = {name: _type(call, tables, name) for name in ("task", "member")}
    kinds = {"kind": "int", **types, **{f: kind for f, (kind, _) in FIELDS.items()}, "tags": "array<string>"}
    rows = call.session.range(1).select(F.lit(NOTHING).alias("kind"), *[F.lit(None).cast(k).alias(f) for f, k in [*kinds.items()][1:]])
    given = set[str]()
    for table, df in tables.items():
        by_role = _columns(call, table, df)
        given |= by_role.keys() & {"alive", "lag"}
        columns = {"kind": F.lit(KINDS[table])} | {f: F.lit(FIELDS[f][1]) for f in OF_TABLE[table] if f in FIELDS} | by_role
        if table == MEMBERS:
            columns["tags"] = F.array(*[named(df.columns[_place(call, table, df, tag)]).cast("string") for tag in call["tags"] or ()])
        rows = rows.unionAll(df.select(*[columns.get(f, F.lit(None)).cast(kinds[f]).alias(f) for f in kinds]))
    rules = Rules(
        available=call["strategy"] != STICKY,
        standbys=call["standbys"],
        acceptable_lag=call["acceptable_lag"],
        max_warmups=call["max_warmups"],
        warm=call["handover"] == "warm",
        preserve=call["preserve_active"],
    )
    label = call["name"] or call.spec.name
    planner = Planner(rules, call["rounds"], call["output"], call.spec.name, label, frozenset(given))
    fields = [T.StructField(c, types.get(c) or OUTPUTS[c]) for c in (*COLUMNS[call["output"]], PROBLEM)]
    made = kernels.mapped(rows.repartition(1), planner.run, T.StructType(fields))
    right = F.when(named(PROBLEM).isNotNull(), F.raise_error(named(PROBLEM)).cast("boolean")).otherwise(F.lit(True))
    # Spark takes it for not deterministic, and so puts no condition of the user's in front, which might drop the row that has the problem
    return made.where((F.spark_partition_id() >= 0) & right).drop(PROBLEM)


def _columns(call: Bound, table: str, df: DataFrame) -> dict[str, Column]:
    """Those of a table's columns that the plan is made of, by their names there."""
    by_role = {}
    for name in OF_TABLE[table]:
        if name not in FIELDS or call.names.among(name, df.columns):
            place = _place(call, table, df, name)
            if name in FIELDS:
                kind = df.schema[place].dataType
                expected = EXPECTED[FIELDS[name][0]]
                if not isinstance(kind, (*expected[1], T.NullType)):
                    raise call.refuse(f"`{table}`", f"expected {expected[0]} as `{name}`, got {kind.simpleString().upper()}", "Cast it.")
            by_role[name] = named(df.columns[place])
    return by_role


def _place(call: Bound, table: str, df: DataFrame, name: str) -> int:
    """Which column has that name."""
    places = call.names.among(name, df.columns)
    if len(places) == 1:
        return places[0]
    if places:
        raise ambiguous(call, f"`{table}`", name)
    fix = did_you_mean(name, df.columns) or f"The table has {listed(df.columns)}; rename one in the TABLE argument."
    raise call.refuse(f"`{table}`", f"has no column `{name}`", fix)


def _type(call: Bound, tables: dict[str, DataFrame], name: str) -> T.DataType:
    """The type of a column that tells tasks or members apart: the same in each table that has it."""
    having = [table for table in tables if name in OF_TABLE[table]]
    types = [tables[table].schema[_place(call, table, tables[table], name)].dataType for table in having]
    for table, kind in zip(having, types, strict=True):
        if not isinstance(kind, NAMES):
            fix = "Cast it, such as CAST(id AS STRING), or to_json(id) of a struct."
            raise call.refuse(f"`{table}`", f"`{name}` is {kind.simpleString().upper()}, by which names cannot be told apart", fix)
        if collated(kind):
            problem = f"`{name}` is {kind.simpleString().upper()}, and names are told apart by their bytes"
            raise call.refuse(f"`{table}`", problem, f"Write {name} COLLATE UTF8_BINARY, where needed of lower({name}).")
        if kind != types[0]:
            problem = f"`{name}` is {kind.simpleString().upper()}, in `{having[0]}` it is {types[0].simpleString().upper()}"
            raise call.refuse(f"`{table}`", problem, "Cast one to the type of the other.")
    return types[0]


SPEC = Spec(
    name="ASSIGN_TASKS",
    summary="Says which worker runs which task: shares out shards, tenants or streaming queries over members, with few moves.",
    rules="C4, C8, R1-R5 (KIP-429, KIP-441)",
    page=__doc__,
    plan=plan,
    check=check,
    tables=3,
    named={
        TASKS: "the tasks, with `task`, and maybe `stateful`, `cost`",
        MEMBERS: "who can run them, with `member`, and maybe `threads`, `alive`, columns that `tags` names",
        CURRENT: "who has what now, with `task`, `member`, and maybe `role`, `lag`; none: nothing runs yet",
    },
    optional=1,
    ordered=False,
    options=(
        Option(
            "strategy",
            Choice(words=(STICKY, "high_availability")),
            "'sticky': tasks stay where they are, as far as members stay balanced; 'high_availability': they are dealt by their names",
            default=STICKY,
            default_text="'sticky'",
        ),
        Option("standbys", Count(), "how many standbys each task with state has", default=0, default_text="0"),
        Option(
            "acceptable_lag",
            Count(),
            "by how many records a copy may lag and still take over at once",
            default=10_000,
            default_text="10000",
        ),
        Option("max_warmups", Count(), "how many warm-ups may run at a time", default=2, default_text="2"),
        Option(
            "handover",
            Choice(words=("warm", "immediate")),
            "'warm': a task waits where it is until its new member has caught up; 'immediate': it moves at once",
            default="warm",
            default_text="'warm'",
        ),
        Option("preserve_active", Flag(), "tasks never leave a member that is alive", default=False, default_text="false"),
        Option(
            "tags",
            Texts(),
            "columns of `members`, such as a zone or a rack: copies of a task lie apart by them",
            default_text="none",
            values="an array of names of columns",
        ),
        Option("rounds", Rounds(), "how many rounds to plan, if that many change anything", default=1, default_text="1"),
        Option(
            "output",
            Choice(words=("rows", "explain", "metrics")),
            "'rows': the plan; 'explain': with the reason for each row; 'metrics': numbers for each round",
            default="rows",
            default_text="'rows'",
        ),
        NAME,
    ),
    main={
        "strategy": "'sticky'",
        "standbys": "1",
        "output": "'explain'",
    },
    adds={
        "'rows'": "`task` (as in `tasks`), `member` (as in `members`), `role` STRING (`active`, `standby`, `warmup`), `action` STRING "
        "(`keep`, `assign`, `revoke`, `warm_up`, `promote`), `round` INT",
        "'explain'": "the same, then `lag` BIGINT (records; null: not known), `why` STRING",
        "'metrics'": "`name` STRING, `round` INT, `metric` STRING, `value` DOUBLE, `unit` STRING",
    },
    examples=(
        Example(
            "CREATE OR REPLACE TEMP VIEW runs AS SELECT * FROM VALUES\n"
            "  ('a', 'm1', 'active', 0), ('b', 'm1', 'active', 0), ('c', 'm1', 'active', 0), ('d', 'm1', 'active', 0),\n"
            "  ('d', 'm2', 'standby', 12) AS runs(task, member, role, lag)",
            "SELECT task, member, role, action, why FROM ASSIGN_TASKS(output => 'explain', current => TABLE(runs),\n"
            "  tasks => TABLE(SELECT DISTINCT task FROM runs), members => TABLE(VALUES ('m1'), ('m2') AS workers(member)))\n"
            "ORDER BY task, member",
        ),
        Example(
            "",
            "SELECT round, metric, value FROM ASSIGN_TASKS(rounds => 9, output => 'metrics', current => TABLE(runs),\n"
            "  tasks => TABLE(SELECT DISTINCT task FROM runs), members => TABLE(VALUES ('m1'), ('m2') AS workers(member)))\n"
            "WHERE metric IN ('moves', 'warm_ups', 'cold_starts', 'imbalance') ORDER BY round, metric",
            "All rounds until nothing changes, in numbers:",
        ),
    ),
)
