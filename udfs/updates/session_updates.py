"""SESSION_UPDATES (rules W2, W3, W5, W6): sessions that open, grow and merge, row by row; keys whose times never fall all at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import LOWEST, Flags, Ints
from streamtime.udfs.arrays.ordering import one
from streamtime.udfs.sessions.rules import Session, Sessions, closed_before
from streamtime.udfs.state import Entries, Taken
from streamtime.udfs.updates.changes import DELETE, END, START, UPSERT, Layout, Parents, Sums, Updates, Windows, accumulated, numbered

OPEN, CLOSED = 0, 1


@dataclass(frozen=True)
class Chains:
    """What rows did to the sessions of their keys."""

    late: Flags
    chain: Ints  # of each row that is not late, the chain that it went on or began: numbered from 0 as they began
    start: Ints  # its session right after the row
    end: Ints
    gone: Ints  # rows that replaced a session, rising; within a row by the session's end and start
    gone_start: Ints
    gone_end: Ints
    parents: Parents  # of chains
    group: Ints  # the sessions in the end: whose they are, rising ..
    bounds: Ints  # .. their ends and starts ..
    content: Ints  # .. and what is in them: a chain, or where it is negative the entry ~content that was held
    closed: Flags  # .. and whether a row of their key came that closed them


def chained(group: Ints, times: Ints, clock: Ints, owner: Ints, held: Ints, gap: int, grace: int) -> Chains:
    """Judge rows that come by group, each group's in processing order; `held` are the ends and starts of live sessions of `owner`, rising.

    Where a key's times never fall, no sessions merge and all keys are judged at once. Others are cut into islands: rows that lie further
    than `gap` above all before them and stay there know nothing of what was. Islands in which times fall are judged row by row, and so is a
    key whose stream time falls, since its rows follow several clocks: what one of them closed stays closed for the others.
    """
    closes = closed_before(clock, gap, grace)
    before, rises, island = islands(group, times, owner, held[0], gap)
    alone = np.zeros(int(island[-1]) + 1 if len(island) else 0, bool)
    alone[island[times < before]] = True
    falls = groups.falls(group, closes)
    if falls.any():
        several = np.isin(group, group[1:][falls])
        island = np.where(several, island[rises][np.cumsum(rises) - 1], island)
        alone[island[several]] = True
    together = ~alone[island] if len(island) else rises
    late = together & (times < closes)
    found = _together(np.flatnonzero(together & ~late), group, times, closes, island, owner, held, gap)
    return _one_by_one(found, np.flatnonzero(~together), late, group, times, closes, island, owner, held, gap)


def islands(group: Ints, times: Ints, owner: Ints, ends: Ints, gap: int) -> tuple[Ints, Flags, Ints]:
    """Of each row: the largest time before it in its group, ends of held sessions included; whether it begins its group; its island."""
    count = len(times)
    starts = np.ones(count, bool)
    starts[1:] = group[1:] != group[:-1]
    before = np.full(count, LOWEST)
    if not count:
        return before, starts, group
    fallen = bool(groups.falls(group, times).any())
    before[1:] = np.where(starts[1:], LOWEST, (groups.running_max(group, times) if fallen else times)[:-1])
    if len(owner):
        floor = np.full(int(group[-1]) + 1, LOWEST)
        np.maximum.at(floor, owner, ends)
        before = np.maximum(before, floor[group])
    if not fallen and not (times < before).any():  # nothing falls: each row is the lowest from there on
        return before, starts, np.cumsum(starts | ((before > LOWEST) & (times > groups.plus(before, gap)))) - 1
    lowest = -groups.running_max((group[-1] - group)[::-1], -times[::-1])[::-1]  # of the rows from here on
    cut = starts | ((before > LOWEST) & (lowest > groups.plus(before, gap)))
    return before, starts, np.cumsum(cut) - 1


@dataclass
class Found:
    """Sessions as they come to be known."""

    chain: Ints
    start: Ints
    end: Ints
    gone: list[Ints]
    child: list[Ints]
    parent: list[Ints]
    sessions: list[Ints]  # group, end, start, content, and whether it is closed
    chains: int


def _together(rows: Ints, group: Ints, times: Ints, closes: Ints, island: Ints, owner: Ints, held: Ints, gap: int) -> Found:
    """Rows that are accepted, of islands in which times never fall: each goes on with the session of the row before it, or opens one."""
    count = len(times)
    found = Found(np.full(count, -1), times.copy(), times.copy(), [], [], [], [], 0)
    t, of, where, closed = (c if len(rows) == count else c[rows] for c in (times, group, island, closes))
    if not len(rows):
        return found
    previous = np.append(LOWEST, t[:-1])
    follows = np.append(False, where[1:] == where[:-1])
    newest = newest_held(owner, held[0])
    entry = np.full(len(rows), -1)
    if len(newest):
        first = np.flatnonzero(np.append(True, of[1:] != of[:-1])[: np.searchsorted(of, len(newest))])
        first = first[first_island(island, group)[rows[first]]]
        entry[first] = newest[of[first]]
    has = entry >= 0
    previous[has] = held[0][entry[has]]
    joins = (follows | has) & (t <= groups.plus(previous, gap)) & (previous >= closed)
    opens = ~joins | has  # a held session that goes on is a chain that begins with it
    chain, begins = np.cumsum(opens) - 1, np.flatnonzero(opens)
    goes_on = np.flatnonzero((joins & has)[begins])
    first_start = t[begins]
    first_start[goes_on] = held[1][entry[begins[goes_on]]]
    start = first_start[chain]
    found.chain[rows], found.start[rows] = chain, start
    found.chains = len(begins)
    replaced = joins & (start != t)
    found.gone.append(np.stack((rows[replaced], previous[replaced], start[replaced])))
    found.child.append(goes_on)
    found.parent.append(~entry[begins[goes_on]])
    last = np.append(begins[1:], len(rows)) - 1
    found.sessions.append(np.stack((of[begins], t[last], first_start, np.arange(len(begins)), np.full(len(begins), OPEN))))
    return found


def newest_held(owner: Ints, ends: Ints) -> Ints:
    """For each group up to the last that has any, the held session that ends last; -1 for none."""
    newest = np.full(int(owner[-1]) + 1 if len(owner) else 0, -1)
    order = np.lexsort((ends, owner))
    newest[owner[order]] = order
    return newest


def first_island(island: Ints, group: Ints) -> Flags:
    """Whether a row is in the first island of its group."""
    starts = np.append(True, group[1:] != group[:-1])
    first: Flags = island == island[np.flatnonzero(starts)][np.cumsum(starts) - 1]
    return first


def _one_by_one(
    found: Found,
    rows: Ints,
    late: Flags,
    group: Ints,
    times: Ints,
    closes: Ints,
    island: Ints,
    owner: Ints,
    held: Ints,
    gap: int,
) -> Chains:
    """The rows of islands in which times fall; then all that was found, together."""
    taken_up = np.zeros(len(owner), bool)
    taken_up[~np.concatenate([np.zeros(0, np.int64), *found.parent])] = True
    gone, child, parent, sessions = list[tuple[int, int, int]](), list[int](), list[int](), list[tuple[int, ...]]()
    chains, start, end, of_chain = found.chains, found.start, found.end, found.chain
    live, before, prior = Sessions(gap), -1, 0  # known by their contents
    first = first_island(island, group) if len(rows) else late
    for row, time, closed in zip(rows.tolist(), times[rows].tolist(), closes[rows].tolist(), strict=True):
        if island[row] != before:
            sessions += _listed(int(group[prior]), live.live, OPEN)
            before, live.live = island[row], []
            if first[row]:
                low, high = np.searchsorted(owner, [group[row], group[row] + 1])
                taken_up[low:high] = True
                live.live = sorted((int(held[1][e]), int(held[0][e]), ~e) for e in range(low, high))
        prior = row
        session = live.take(time, time, closed)
        if live.over:
            sessions += _listed(int(group[row]), live.over, CLOSED)
        if session is None:
            late[row] = True
            continue
        begins, ends, content = session
        if len(live.near) != 1 or content < 0:
            content, chains = chains, chains + 1
            child += [content] * len(live.near)
            parent += [of for _, _, of in live.near]
            live.live[live.at] = (begins, ends, content)
        if (begins, ends) != (time, time):
            gone += ((row, until, since) for since, until, _ in live.near)
        start[row], end[row], of_chain[row] = begins, ends, content
    if len(rows):
        sessions += _listed(int(group[prior]), live.live, OPEN)
    rest = np.flatnonzero(~taken_up & np.isin(owner, group))
    left = np.stack((owner[rest], held[0][rest], held[1][rest], ~rest, np.full(len(rest), OPEN)))
    all_gone = np.concatenate([*found.gone, np.array(gone, np.int64).reshape(-1, 3).T], axis=1)
    all_sessions = np.concatenate([*found.sessions, np.array(sessions, np.int64).reshape(-1, 5).T, left], axis=1)
    if len(rows) or len(rest):
        all_gone = all_gone[:, np.argsort(all_gone[0], kind="stable")]
        all_sessions = all_sessions[:, np.argsort(all_sessions[0], kind="stable")]
    parents = Parents(
        np.concatenate([*found.child, np.array(child, np.int64)]), np.concatenate([*found.parent, np.array(parent, np.int64)])
    )
    whose, ends, starts, content, over = all_sessions
    closed = over == CLOSED
    if len(whose):
        closed |= ends < closes[np.searchsorted(group, whose, side="right") - 1]
    return Chains(
        late, of_chain, start, end, all_gone[0], all_gone[2], all_gone[1], parents, whose, np.stack((ends, starts)), content, closed
    )


def _listed(group: int, sessions: list[Session], over: int) -> list[tuple[int, ...]]:
    """Sessions as columns have them: their group, end, start and content, and whether they are closed."""
    return [(group, end, start, content, over) for start, end, content in sessions]


def places(gone: Ints, item: Ints, rows: int) -> Ints:
    """Where changes stand once they are in the order of their rows: first those of `gone`, then those of `item`; both rise."""
    before = np.cumsum(np.bincount(gone, minlength=rows))  # deletes up to each row
    upserts = np.arange(len(item)) + before[item]
    deletes = np.arange(len(gone)) + np.searchsorted(item, gone)
    return np.concatenate((deletes, upserts))


@dataclass(frozen=True)
class SessionUpdates(Updates):
    """Sessions, both bounds inclusive; closed once stream time has passed their end, `gap` and `grace`."""

    changed_at_end: ClassVar[bool] = True

    layout: Layout
    gap: int
    grace: int

    def threshold(self, clock: int) -> int:
        """A session is closed when stream time > end + gap + grace [W3]."""
        return int(closed_before(clock, self.gap, self.grace))

    def close(self, end: Ints) -> Ints:
        """One microsecond after the end, the gap and the grace [W6]."""
        return groups.plus(end, self.gap + self.grace + 1)

    def changes(
        self, rows: pa.Table, group: Ints, clock: Ints, owner: Ints, held: Entries, before: int = 0, since: int = 0
    ) -> tuple[Taken, Ints]:
        """For each row a delete of every session that it merges with, then the new session."""
        times = groups.micros(one(rows, self.layout.time))
        found = chained(group, times, clock, owner, held.matrix[[END, START]], self.gap, self.grace)
        item = np.flatnonzero(~found.late)
        states = self.layout.states(held.payload, len(held), rows)
        sums = accumulated(self.layout, rows, item, found.chain[item], found.parents, states, every=not self.layout.final)
        caused_by = np.concatenate((found.gone, item))
        place = places(found.gone, item, rows.num_rows)  # deletes come first
        order = np.empty(len(place), np.int64)
        order[place] = np.arange(len(place))
        caused_by = caused_by[order]
        seq = numbered(rows, group, self.layout.ordered, caused_by, before)
        out = pa.table({})
        if not self.layout.final:
            out = self._changes(rows, found, item, sums, order, caused_by, seq)
        asked = found.group >= since
        entries = self._entries(rows, held, found, item, sums, seq[place[len(found.gone) :]], asked)
        whose = np.where(found.closed, ~found.group, found.group)
        return Taken(out, whose[asked], entries, {"late_drop_total": int(found.late.sum())}), caused_by

    def _changes(self, rows: pa.Table, found: Chains, item: Ints, sums: Sums, order: Ints, caused_by: Ints, seq: Ints) -> pa.Table:
        deletes = len(found.gone)
        start, end = np.concatenate((found.gone_start, found.start[item]))[order], np.concatenate((found.gone_end, found.end[item]))[order]
        kind = np.repeat([DELETE, UPSERT], [deletes, len(item)])[order]
        of = pa.array(order - deletes, mask=order < deletes)  # deletes have null aggregates
        results = [a.result(s, result).take(of) for (a, result), s in zip(self.layout.aggregates, sums.per_item, strict=True)]
        at = pa.array(caused_by)
        carried = {n: one(rows, n).take(at) for n in self.layout.carried}
        return self.layout.table(carried, Windows(start, end, self.close(end), kind, end), results, pa.array(seq), None)

    def _entries(self, rows: pa.Table, held: Entries, found: Chains, item: Ints, sums: Sums, seq: Ints, asked: Flags) -> Entries:
        """The sessions of groups that are asked for, closed ones among them: whoever asked drops or releases them."""
        content, (end, start) = found.content[asked], found.bounds[:, asked]
        is_chain = content >= 0
        matrix = np.stack((end, start, end))
        chains = content[is_chain]
        last = np.zeros(int(found.chain.max(initial=-1)) + 1, np.int64)
        last[found.chain[item]] = np.arange(len(item))  # the last one stays
        new = Entries(matrix[:, is_chain], self.layout.payload(sums.of(chains), rows, item[last[chains]], seq[last[chains]]))
        if is_chain.all():
            return new
        both = Entries.join([new, Entries(matrix[:, ~is_chain], held.take(~content[~is_chain]).payload)], 3)
        back = np.empty(len(is_chain), np.int64)
        back[np.concatenate((np.flatnonzero(is_chain), np.flatnonzero(~is_chain)))] = np.arange(len(is_chain))
        return both.take(back)
