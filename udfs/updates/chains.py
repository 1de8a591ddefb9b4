"""What rows do to the sessions of their keys (rules W2, W3): rows whose times never fall all at once, the others one by one.

A chain is a session as long as it only grows; one that merges others, or goes on with one that was held, begins with what these came to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import LOWEST, Flags, Ints
from streamtime.udfs.closing import of_sessions
from streamtime.udfs.sessions.rules import Session, Sessions
from streamtime.udfs.updates.changes import Parents

OPEN, CLOSED = 0, 1
NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Arrived:
    """Rows by group, each group's in processing order, and the live sessions that are held of some groups."""

    group: Ints
    times: Ints
    closes: Ints  # when a row comes, a session that ends before this is closed
    owner: Ints  # whose the held sessions are, rising
    ends: Ints  # of held sessions
    starts: Ints
    gap: int


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


@dataclass
class Making:
    """Chains as they come to be known."""

    late: Flags
    chain: Ints  # of each row
    start: Ints
    end: Ints
    chains: int = 0  # how many there are
    gone: list[Ints] = field(default_factory=list)  # a row, and the end and the start of the session that it replaced
    parents: list[Ints] = field(default_factory=list)  # a chain, and what it began with
    sessions: list[Ints] = field(default_factory=list)  # group, end, start, content, and whether it is closed


def chained(group: Ints, times: Ints, clock: Ints, owner: Ints, held: Ints, gap: int, grace: int) -> Chains:
    """Judge rows that come by group, each group's in processing order; `held` are the ends and starts of live sessions of `owner`, rising.

    Where a key's times never fall, no sessions merge and all keys are judged at once. Others are cut into islands: rows that lie further
    than `gap` above all before them and stay there know nothing of what was. Islands in which times fall are judged row by row, and so is a
    key whose stream time falls, since its rows follow several clocks: what one of them closed stays closed for the others.
    """
    rows = Arrived(group, times, of_sessions(gap, grace).closed_before(clock), owner, held[0], held[1], gap)
    island, together = cut(rows)
    late = together & (times < rows.closes)
    making = Making(late, np.full(len(times), -1), times.copy(), times.copy())
    _together(making, np.flatnonzero(together & ~late), rows, island)
    taken_up = np.zeros(len(owner), bool)
    taken_up[~np.concatenate([NONE, *(parent for _, parent in making.parents)])] = True
    _one_by_one(making, np.flatnonzero(~together), rows, island, taken_up)
    _untouched(making, rows, taken_up)
    return _finished(making, rows)


def cut(rows: Arrived) -> tuple[Ints, Flags]:
    """The island of each row, and whether its rows are judged together."""
    before, begins, island = islands(rows)
    alone = np.zeros(int(island[-1]) + 1 if len(island) else 0, bool)
    alone[island[rows.times < before]] = True
    falls = groups.falls(rows.group, rows.closes)
    if falls.any():
        several = np.isin(rows.group, rows.group[1:][falls])
        island = np.where(several, island[begins][np.cumsum(begins) - 1], island)
        alone[island[several]] = True
    return island, ~alone[island] if len(island) else begins


def islands(rows: Arrived) -> tuple[Ints, Flags, Ints]:
    """Of each row: the largest time before it in its group, ends of held sessions included; whether it begins its group; its island."""
    group, times, gap = rows.group, rows.times, rows.gap
    count = len(times)
    starts = begins(group)
    before = np.full(count, LOWEST)
    if not count:
        return before, starts, group
    fallen = bool(groups.falls(group, times).any())
    before[1:] = np.where(starts[1:], LOWEST, (groups.running_max(group, times) if fallen else times)[:-1])
    if len(rows.owner):
        floor = np.full(int(group[-1]) + 1, LOWEST)
        np.maximum.at(floor, rows.owner, rows.ends)
        before = np.maximum(before, floor[group])
    if not fallen and not (times < before).any():  # nothing falls: each row is the lowest from there on
        return before, starts, np.cumsum(starts | ((before > LOWEST) & (times > groups.plus(before, gap)))) - 1
    lowest = -groups.running_max((group[-1] - group)[::-1], -times[::-1])[::-1]  # of the rows from here on
    apart = starts | ((before > LOWEST) & (lowest > groups.plus(before, gap)))
    return before, starts, np.cumsum(apart) - 1


def begins(group: Ints) -> Flags:
    """Where another group begins."""
    starts = np.ones(len(group), bool)
    starts[1:] = group[1:] != group[:-1]
    return starts


def first_island(island: Ints, group: Ints) -> Flags:
    """Whether a row is in the first island of its group."""
    starts = begins(group)
    first: Flags = island == island[np.flatnonzero(starts)][np.cumsum(starts) - 1] if len(group) else starts
    return first


def newest_held(owner: Ints, ends: Ints) -> Ints:
    """For each group up to the last that has any, the held session that ends last; -1 for none."""
    newest = np.full(int(owner[-1]) + 1 if len(owner) else 0, -1)
    order = np.lexsort((ends, owner))
    newest[owner[order]] = order
    return newest


def _together(making: Making, accepted: Ints, rows: Arrived, island: Ints) -> None:
    """Rows that are accepted, of islands in which times never fall: each goes on with the session of the row before it, or opens one."""
    if not len(accepted):
        return
    whole = len(accepted) == len(rows.times)
    times, group, where, closes = (c if whole else c[accepted] for c in (rows.times, rows.group, island, rows.closes))
    previous = np.append(LOWEST, times[:-1])
    follows = ~begins(where)
    entry = _goes_on_with(accepted, group, rows, island)
    has = entry >= 0
    previous[has] = rows.ends[entry[has]]
    joins = (follows | has) & (times <= groups.plus(previous, rows.gap)) & (previous >= closes)
    opens = ~joins | has  # a held session that goes on is a chain that begins with it
    chain, opened = np.cumsum(opens) - 1, np.flatnonzero(opens)
    goes_on = np.flatnonzero((joins & has)[opened])
    first_start = times[opened]
    first_start[goes_on] = rows.starts[entry[opened[goes_on]]]
    start = first_start[chain]
    making.chain[accepted], making.start[accepted], making.chains = chain, start, len(opened)
    replaced = joins & (start != times)
    making.gone.append(np.stack((accepted[replaced], previous[replaced], start[replaced])))
    making.parents.append(np.stack((goes_on, ~entry[opened[goes_on]])))
    last = np.append(opened[1:], len(accepted)) - 1
    numbers = np.arange(len(opened))
    making.sessions.append(np.stack((group[opened], times[last], first_start, numbers, np.full(len(opened), OPEN))))


def _goes_on_with(accepted: Ints, group: Ints, rows: Arrived, island: Ints) -> Ints:
    """Of each accepted row the held session that it may go on with: the newest, if it begins its group and is in its first island."""
    entry = np.full(len(accepted), -1)
    newest = newest_held(rows.owner, rows.ends)
    if len(newest):
        first = np.flatnonzero(begins(group)[: np.searchsorted(group, len(newest))])
        first = first[first_island(island, rows.group)[accepted[first]]]
        entry[first] = newest[group[first]]
    return entry


def _one_by_one(making: Making, apart: Ints, rows: Arrived, island: Ints, taken_up: Flags) -> None:
    """The rows of islands in which times fall; marks the held sessions that they take up."""
    if not len(apart):
        return
    gone, parents, sessions = list[tuple[int, int, int]](), list[tuple[int, int]](), list[tuple[int, ...]]()
    live, before, group = Sessions(rows.gap), -1, -1  # known by their contents
    first = first_island(island, rows.group)
    for row, time, closes in zip(apart.tolist(), rows.times[apart].tolist(), rows.closes[apart].tolist(), strict=True):
        if island[row] != before:
            sessions += _listed(group, live.live, OPEN)
            before, group = island[row], int(rows.group[row])
            live.live = sorted(_held_of(rows, group, taken_up)) if first[row] else []
        session = live.take(time, time, closes)
        if live.over:
            sessions += _listed(group, live.over, CLOSED)
        if session is None:
            making.late[row] = True
            continue
        start, end, content = session
        if len(live.near) != 1 or content < 0:
            content, making.chains = making.chains, making.chains + 1
            parents += ((content, of) for _, _, of in live.near)
            live.live[live.at] = (start, end, content)
        if (start, end) != (time, time):
            gone += ((row, until, since) for since, until, _ in live.near)
        making.end[row], making.start[row], making.chain[row] = end, start, content
    sessions += _listed(group, live.live, OPEN)
    making.gone.append(np.array(gone, np.int64).reshape(-1, 3).T)
    making.parents.append(np.array(parents, np.int64).reshape(-1, 2).T)
    making.sessions.append(np.array(sessions, np.int64).reshape(-1, 5).T)


def _listed(group: int, sessions: list[Session], over: int) -> Iterator[tuple[int, ...]]:
    """Sessions as columns have them: their group, end, start and content, and whether they are closed."""
    return ((group, end, start, content, over) for start, end, content in sessions)


def _held_of(rows: Arrived, group: int, taken_up: Flags) -> Iterator[Session]:
    """The held sessions of a group, which are taken up."""
    low, high = np.searchsorted(rows.owner, [group, group + 1])
    taken_up[low:high] = True
    return ((int(rows.starts[e]), int(rows.ends[e]), ~e) for e in range(low, high))


def _untouched(making: Making, rows: Arrived, taken_up: Flags) -> None:
    """Sessions that were held of these groups, and that no row took up."""
    rest = np.flatnonzero(~taken_up & np.isin(rows.owner, rows.group))
    making.sessions.append(np.stack((rows.owner[rest], rows.ends[rest], rows.starts[rest], ~rest, np.full(len(rest), OPEN))))


def _finished(making: Making, rows: Arrived) -> Chains:
    """All that came to be known, in order."""
    gone, parents, sessions = (
        np.concatenate([np.zeros((width, 0), np.int64), *pieces], axis=1)
        for width, pieces in ((3, making.gone), (2, making.parents), (5, making.sessions))
    )
    gone, sessions = _rising(gone), _rising(sessions)

    whose, ends, starts, content, over = sessions
    closed = over == CLOSED
    if len(whose):
        closed |= ends < rows.closes[np.searchsorted(rows.group, whose, side="right") - 1]
    row, gone_end, gone_start = gone
    bounds = np.stack((ends, starts))
    return Chains(
        making.late, making.chain, making.start, making.end, row, gone_start, gone_end, Parents(*parents), whose, bounds, content, closed
    )


def _rising(numbers: Ints) -> Ints:
    """Columns of numbers by the first of each."""
    first = numbers[0]
    rises = bool((first[1:] >= first[:-1]).all())
    return numbers if rises else numbers[:, np.argsort(first, kind="stable")]
