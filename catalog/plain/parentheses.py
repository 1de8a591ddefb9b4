"""Parentheses that say nothing, left out of a text that was made of trees: what is left has the same tree.

Spark prints each operator in parentheses of its own. Those go that stand between what parts expressions anyway, or around what binds
tighter than the operators beside it. Where that is not known of a word or a sign, they stay.
"""

from __future__ import annotations

from streamtime.sql.syntax.tokens import Source

NEVER, OTHER, OR, AND, NOT, IS, COMPARED, SUM, ONE = range(9)  # what an expression is on its outermost level: higher ones bind tighter
LEVELS = {
    "OR": OR,
    "AND": AND,
    "NOT": NOT,
    "IS": IS,
    **dict.fromkeys(("=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">="), COMPARED),
    **dict.fromkeys(("+", "-", "*", "/", "%", "DIV"), SUM),
    **dict.fromkeys((",", "->", "=>", "SELECT", "WITH", "FROM", "VALUES", "TABLE"), NEVER),
}
# Behind the one, and before the other, any expression may stand; "" is an end of the text.
LEFT = ("", "(", ",", "SELECT", "WHERE", "ON", "WHEN", "THEN", "ELSE", "BY", "->")
RIGHT = (
    *("", ")", ",", "WHEN", "THEN", "ELSE", "END", "AS", "ASC", "DESC"),
    *("FROM", "WHERE", "GROUP", "ORDER", "ROWS", "RANGE", "LATERAL", "SORT", "DISTRIBUTE", "UNION"),
)
ASKED = {OR: AND, NOT: SUM, IS: SUM}  # beside these, what binds tighter than that, and no reader must ask
CONSTANTS = ("NULL", "TRUE", "FALSE")


class Brackets(Source):
    """A text in which CASE .. END, and the < and > of a type, hold together what parentheses do."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        cases, types = list[int](), list[int]()
        for i in range(len(self.tokens)):
            word = self.keyword(i)
            if word == "CASE":
                cases.append(i)
            elif word == "END" and cases:
                self.closing[cases.pop()] = i
            elif word == "<" and self.keyword(i - 1) in ("STRUCT", "ARRAY", "MAP"):
                types.append(i)
            elif word == ">" and types:
                self.closing[types.pop()] = i

    def keyword(self, i: int) -> str:
        """A word or a sign to compare with; nothing beyond the ends; for a string, a name in quotes and a field the name of none."""
        if not 0 <= i < len(self.tokens):
            return ""
        return "a name" if self.is_field(i) else self.tokens[i].word or "a name"

    def gap(self, i: int) -> str:
        """What stands before a token: nothing, or a blank, or a hint between two."""
        between = self.text[self.tokens[i - 1].end if i else 0 : self.tokens[i].start]
        return f" {between.strip()} " if between.strip() else " " * bool(between)


def without_needless(text: str) -> str:
    """The text of a query without parentheses that say nothing."""
    source = Brackets(text)
    needless = set[int]()
    _level(source, 0, len(source.tokens), needless)
    made, gap, parted = "", "", False
    for i, token in enumerate(source.tokens):
        gap, parted = max(gap, source.gap(i), key=len), parted or i in needless
        if i not in needless:
            if parted and not gap and token.kind != "sign" and (made[-1:].isalnum() or made[-1:] in ("_", "`", "'", '"')):
                gap = " "
            made, gap, parted = made + gap * bool(made) + token.text, "", False
    return made


def _level(source: Brackets, start: int, end: int, needless: set[int]) -> int:
    """What binds least in a stretch, where that is an expression. Its needless parentheses are put among the others."""
    level, ranges, was_one = ONE, False, False
    for i in source.level(start, end):
        word, close = source.keyword(i), source.closing.get(i)
        ranges |= word == "BETWEEN"
        if close is None:
            its = _of_token(source, i)
        else:
            its = _level(source, i + 1, close, needless)
            after = source.keyword(close + 1)
            last = next(at for at in range(close - 1, i - 1, -1) if at not in needless)
            a_call = after == "." and its == ONE and source.keyword(last) == ")"  # and its field
            if word == "(" and its > NEVER and _begins(source, i, its, ranges) and (a_call or _ends(after, its)):
                needless |= {i, close}
            else:
                its = ONE
        both = was_one and its == ONE and not _goes_on(source, i)  # beside each other: what is between them is no sign
        level, was_one = min(level, OTHER if both else its), its == ONE
    return level


def _of_token(source: Brackets, i: int) -> int:
    word = source.keyword(i)
    if word in ("a name", "."):
        return ONE
    if word == "NOT" and source.keyword(i - 1) == "IS":
        return IS
    is_one = source.keyword(i + 1) == "(" or word in CONSTANTS or word[:1].isdigit()
    return LEVELS.get(word, ONE if is_one else OTHER)


def _goes_on(source: Brackets, i: int) -> bool:
    """Whether a token belongs to the one before it: as a field, the arguments of a function, or a place in an array."""
    word, before = source.keyword(i), source.keyword(i - 1)
    return "." in (word, before) or (word in ("(", "[") and before not in LEVELS and before not in LEFT)


def _begins(source: Brackets, start: int, its: int, ranges: bool) -> bool:
    """Whether what binds so may begin without this parenthesis. `ranges`: an AND before it may be that of BETWEEN."""
    before = source.keyword(start - 1)
    if before == "AND" and ranges:
        return False
    if before in ("+", "-") and source.tokens[start + 1].text[0].isdigit():  # it would be the sign of that number
        return False
    return before in LEFT or _beside(before, its) or (before == "[" and its > COMPARED)  # a place compares nothing


def _ends(after: str, its: int) -> bool:
    binds_left = after in ("AND", "OR") and its == LEVELS[after]
    return after in RIGHT or _beside(after, its) or binds_left or (after == "]" and its > COMPARED)


def _beside(operator: str, its: int) -> bool:
    """Whether what binds so stands beside an operator without parentheses."""
    level = LEVELS.get(operator, NEVER)
    return level > NEVER and its > ASKED.get(level, level)
