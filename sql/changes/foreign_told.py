"""What each change of a join by a foreign key did, in words (rules C6, J8): one row for each change, whichever side it is of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from streamtime.sql.changes.foreign import BY_RIGHT, HAD, HAS, MATCH, PLACE, RIGHT_TIME, touched
from streamtime.sql.changes.given import ALIVE, CLOCK
from streamtime.sql.changes.join import NEWEST, SIDE, SIDES
from streamtime.sql.rows.columns import named, together
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.rows.outcome import explained

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.changes.foreign import Both
    from streamtime.sql.rows.frame import Frame

DID, MET, MANY = (f"{PREFIX}{n}" for n in ("did", "met", "many"))


def told(call: Bound, both: Both, left_out: Column, ignored: Column) -> DataFrame:
    """`output => 'explain'`; `left_out` says of a change why it takes no part, and `ignored` why it does not apply."""
    frame, did = both.frame, _did(call, both)
    pairs = {name: f"{name}_of" for name in (SIDE, *both.keys[0], *both.keys[1], PLACE)}
    renamed = did.select(*(named(n).alias(other) for n, other in pairs.items()), *map(named, (DID, MET, MANY)))
    df = frame.df.join(renamed, together(pairs), "left")
    return explained_rows(call, both, frame.with_df(df), left_out, ignored, named(DID))


def explained_rows(call: Bound, both: Both, frame: Frame, left_out: Column, ignored: Column, did: Column) -> DataFrame:
    """Changes with what each of them `did` to rows of the join, if it did anything: to how many (`MANY`), and what it met (`MET`)."""
    no_row = F.when(named(ALIVE), "waits").otherwise("nothing")
    return explained(call, frame, named(CLOCK), left_out, F.coalesce(ignored, did, no_row), {}, _sentences(both))


def _did(call: Bound, both: Both) -> DataFrame:
    """What a change did to the rows of the join; all that it touches have one fate."""
    events, of_right = touched(call, both), named(BY_RIGHT)
    causes = [F.when(of_right, SIDES[1]).otherwise(SIDES[0]).alias(SIDE)]
    causes += [F.when(~of_right, named(k)).alias(k) for k in both.keys[0]] + [F.when(of_right, named(k)).alias(k) for k in both.keys[1]]
    did = F.when(named(HAS) & named(MATCH), "joined").when(named(HAS), "alone").when(named(HAD), "withdrew")
    met = F.when(named(MATCH), named(RIGHT_TIME))
    return events.groupBy(*causes, named(PLACE)).agg(F.max(did).alias(DID), F.max(met).alias(MET), F.count(F.lit(1)).alias(MANY))


def _sentences(both: Both) -> dict[str, list[Column | str]]:
    left = named(SIDE) == SIDES[0]
    names = F.lit(True)
    for column in both.foreign:
        names &= named(column).isNotNull()

    def by_side(of_left: Column | str, of_right: str) -> Column:
        many = F.concat(F.lit(of_right), named(MANY).cast("string"), F.lit("."))
        return F.when(left, F.lit(of_left) if isinstance(of_left, str) else of_left).otherwise(many)

    met = F.concat(
        F.lit("Upsert: its row and that of the right side, of "), named(MET).cast("string"), F.lit(", are the row of the join now.")
    )
    unmet = F.when(names, "No change: the right side has no row of the key that it names.").otherwise(
        "No change: it names no row of the right side, as it has a null in `on`."
    )
    return {
        "joined": [by_side(met, "Upsert: left rows that name it, and are joined with it now: ")],
        "alone": [
            by_side("Upsert: its row stands without one of the right side.", "Upsert: left rows that name it, and stand alone now: ")
        ],
        "withdrew": [
            by_side("Delete: the join had a row of this key, and has none now.", "Delete: left rows that name it, and lost their match: ")
        ],
        "waits": [F.when(left, unmet).otherwise("No change: no row of the left side names it.")],
        "nothing": [
            F.when(left, "No change: a deletion, and the join had no row of this key.").otherwise(
                "No change: a deletion, and the join had no row with it."
            )
        ],
        "too_old": ["Ignored: older than `retention` allows, as stream time of its side is ", named(CLOCK), "."],
        "out_of_order": ["Ignored: a newer change of this key and side, of ", named(NEWEST), ", came before it."],
    }
