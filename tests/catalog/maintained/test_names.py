"""What the text of a block says, before any Spark is asked: which items make several rows, which columns are equal, how columns are spelled."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import expressions as exp

from streamtime.maintained.names import Sources, spread
from streamtime.maintained.nodes import Leaf


def block(text: str) -> exp.Select:
    tree = sqlglot.parse_one(text, dialect="spark")
    assert isinstance(tree, exp.Select)
    return tree


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        *[(f"{name}(a)", True) for name in ("explode", "EXPLODE_OUTER", "posexplode", "posexplode_outer", "inline", "Inline_Outer")],
        ("json_tuple(a, 'x', 'y')", True),
        ("stack(2, a, k)", True),
        ("size(explode(a))", True),
        ("collect_list(a)", False),
        ("my_function(a)", False),
        ("(SELECT max(x) FROM (SELECT explode(a) AS x FROM u))", False),
    ],
)
def test_what_makes_several_rows_of_one_is_known(item: str, expected: bool) -> None:
    assert spread(block(f"SELECT k, {item} AS `o dd` FROM t GROUP BY k")) is expected


def names(*aliases: str) -> Sources:
    def leaf(alias: str) -> Leaf:
        return Leaf(alias, (0, 0), alias, True, False, ("K", "do.t", f"only_{alias}"), {})

    return Sources({alias: leaf(alias) for alias in aliases}, [])


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a.k = b.k", [(("a", "k"), ("b", "k"))]),
        ("(A.K = b.`do.t`) AND only_a = only_b AND a.k > 3", [(("a", "k"), ("b", "do.t")), (("a", "only_a"), ("b", "only_b"))]),
        ("a.k = b.k OR a.k IS NULL", []),  # it need not hold
        ("NOT a.k = b.k", []),
        ("a.k <=> b.k", []),
        ("a.k + 1 = b.k", []),
        ("a.nothing = b.k AND k = b.k", []),  # of nobody; of two
    ],
)
def test_columns_are_equal_where_a_condition_says_so_of_every_row(condition: str, expected: list[object]) -> None:
    assert list(names("a", "b").equal(block(f"SELECT 1 FROM a, b WHERE {condition}").args["where"].this)) == expected


def test_a_column_is_spelled_as_its_table_has_it() -> None:
    assert [names("a").shown("a", name) for name in ("k", "do.t", "p.k")] == ["K", "do.t", "K"]
