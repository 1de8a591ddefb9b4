"""Trees of Catalyst, a whole one at a time: a look into the JVM takes a tenth of a millisecond, and a plan has thousands of nodes."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from streamtime.door import janino

LISTS = {"Project": "projectList", "Window": "windowExpressions", "Aggregate": "aggregateExpressions"}
JAVA = """
package streamtime;

import java.util.ArrayList;
import java.util.List;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.InheritAnalysisRules;
import org.apache.spark.sql.catalyst.expressions.BinaryArithmetic;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.PrettyAttribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.Iterator;
import scala.collection.Map;
import scala.collection.Seq;

public class Trees {
    private final ObjectMapper mapper = new ObjectMapper();
    private final List expressions = new ArrayList();

    public String plan(LogicalPlan plan) throws Exception {
        List output = new ArrayList();
        for (Iterator each = plan.output().iterator(); each.hasNext();) {
            Attribute attribute = (Attribute) each.next();
            List one = new ArrayList();
            one.add(Long.valueOf(attribute.exprId().id()));
            one.add(attribute.name());
            output.add(one);
        }
        List said = new ArrayList();
        said.add(plan.nodeName());
        said.add(output);
        return mapper.writeValueAsString(said);
    }

    public String expressions(Seq all) throws Exception {
        List said = new ArrayList();
        for (Iterator each = all.iterator(); each.hasNext();) said.add(said((Expression) each.next()));
        return mapper.writeValueAsString(said);
    }

    public String expression(Expression e) throws Exception {
        return mapper.writeValueAsString(said(e));
    }

    private List said(Expression e) {
        List children = new ArrayList();
        for (Iterator each = e.children().iterator(); each.hasNext();) children.add(said((Expression) each.next()));
        boolean named = e instanceof NamedExpression && e.resolved(), cast = e instanceof Cast, constant = e instanceof Literal;
        List said = new ArrayList();
        said.add(Integer.valueOf(expressions.size()));
        said.add(e.getClass().getSimpleName());
        said.add(children);
        said.add(named ? Long.valueOf(((NamedExpression) e).exprId().id()) : null);
        said.add(named ? ((NamedExpression) e).name() : e instanceof GetStructField ? ((GetStructField) e).extractFieldName() : null);
        said.add(cast || constant ? e.dataType().sql() : null);
        said.add(!constant || ((Literal) e).value() == null ? null : ((Literal) e).value().toString());
        Object mode = cast ? ((Cast) e).evalMode() : e instanceof BinaryArithmetic ? ((BinaryArithmetic) e).evalMode() : null;
        said.add(Boolean.valueOf(mode != null && mode.toString().equals("TRY")));
        said.add(Boolean.valueOf(e instanceof InheritAnalysisRules));
        said.add(Boolean.valueOf(more(e)));
        expressions.add(e);
        return said;
    }

    private boolean more(Expression e) {
        for (Iterator each = e.productIterator(); each.hasNext();) {
            Object one = each.next();
            if (one instanceof DataType || one instanceof Map && !((Map) one).isEmpty()) return true;
            if (one instanceof Seq && !((Seq) one).isEmpty() && ((Seq) one).head() instanceof UTF8String) return true;
        }
        return false;
    }

    public Expression node(int place) {
        return (Expression) expressions.get(place);
    }

    public String sql(int place) {
        return node(place).sql();
    }

    public String sql(int place, String texts) throws Exception {
        Expression e = node(place);
        java.util.Iterator text = ((List) mapper.readValue(texts, List.class)).iterator();
        scala.collection.mutable.ArrayBuffer made = new scala.collection.mutable.ArrayBuffer();
        for (Iterator each = e.children().iterator(); each.hasNext();) {
            Expression child = (Expression) each.next();
            String said = (String) text.next();
            made.addOne(child.resolved() ? new PrettyAttribute(said, child.dataType()) : child);
        }
        return ((Expression) e.withNewChildren(made.toSeq())).sql();
    }
}
"""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """An expression.

    `id` and `name` are those of a column, a variable or an alias, and `name` also that of a field; `type` a cast's or a constant's;
    `value` the text of what a constant is, without quotes, or None for NULL. `tries`: gives NULL where others fail. `stands_for`: its
    only child is what it means, and is analysed. `more`: types, options or patterns are in it that are no children; few say these when
    they print themselves.
    """

    trees: Trees
    place: int
    kind: str
    children: list[Node]
    id: int
    name: str
    type: str
    value: str | None
    tries: bool
    stands_for: bool
    more: bool

    @property
    def jvm(self) -> Any:
        """The expression itself."""
        return self.trees.java.node(self.place)

    def sql(self, *children: str) -> str:
        """As it prints itself; around these texts, where it has children."""
        return str(self.trees.java.sql(self.place, json.dumps(children)) if children else self.trees.java.sql(self.place))


@dataclass(frozen=True, eq=False)
class Operator:
    """A node of a plan; `output` are the ids and names of its columns."""

    trees: Trees
    jvm: Any
    kind: str
    output: list[tuple[int, str]]

    @functools.cached_property
    def child(self) -> Operator:
        """The only one."""
        return self.trees.operator(self.jvm.child())

    @property
    def leaves_out(self) -> bool:
        """Whether it only leaves columns out."""
        return self.kind == "Project" and all(e.kind == "AttributeReference" for e in self.listed)

    @functools.cached_property
    def listed(self) -> list[Node]:
        """What is in the list of a projection, of window functions or of groups; each once, for Spark repeats columns of windows."""
        return list({e.id: e for e in self.trees.expressions(getattr(self.jvm, LISTS[self.kind])())}.values())


class Trees:
    """Looks at plans and expressions of one JVM."""

    def __init__(self, gateway: Any) -> None:
        self.java = janino.instance(gateway, "Trees", JAVA)

    def operator(self, plan: Any) -> Operator:
        """A logical plan's root."""
        kind, output = json.loads(self.java.plan(plan))
        return Operator(self, plan, kind, [(i, name) for i, name in output])

    def expression(self, e: Any) -> Node:
        """An expression with all below it."""
        return self._node(json.loads(self.java.expression(e)))

    def expressions(self, seq: Any) -> list[Node]:
        """Those of a Scala Seq."""
        return [self._node(said) for said in json.loads(self.java.expressions(seq))]

    def _node(self, said: Sequence[Any]) -> Node:
        place, kind, children, *rest = said
        return Node(self, place, kind, [self._node(child) for child in children], *rest)
