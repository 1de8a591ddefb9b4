"""The syntax door: a parser around Spark's, which rewrites what Spark's refuses: AS OF joins (`streamtime.sql.syntax.as_of_rewrite`),
and calls whose rows have an order and no keys (`streamtime.statements.unkeyed`).

Every text goes to the session's own parser first. Only where that fails with one of the errors that these give, on a text that has the
words, Python is asked to rewrite it. So a text that Spark understands never leaves the JVM, costs nothing, and means what it meant; and a
Spark that knows ASOF JOIN itself keeps it. What is neither keeps Spark's error; one sentence is put behind it where it is about a call of
the pack (`streamtime.statements.hints`).

The wrapper is a few lines of Java, compiled by the compiler that comes with Spark for the code of queries (Janino): a proxy for
ParserInterface, whatever methods that has in the Spark at hand. It is put into the session at hand, and into the session extensions, from
which every later session (of newSession, Connect and Thrift clients too) builds its parser; there it is the outermost, around Delta's.
"""

from __future__ import annotations

import logging
import re
from typing import Any

from py4j.java_gateway import set_field
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from streamtime.door import janino
from streamtime.door.analyzer import FREE_TEXT, AnalyzerDoor
from streamtime.shelf import SPECS
from streamtime.sql.call.errors import gist
from streamtime.sql.syntax import as_of_rewrite
from streamtime.sql.syntax.as_of_clauses import Refusal
from streamtime.sql.syntax.as_of_rewrite import rewrite
from streamtime.sql.syntax.tokens import line_and_position, offset
from streamtime.statements import views
from streamtime.statements.hints import of_clauses, of_syntax, too_deep
from streamtime.statements.unkeyed import with_single_partition

JAVA = """
package streamtime;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.function.BiFunction;
import java.util.regex.Pattern;
import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.internal.SessionState;
import scala.Option;
import scala.collection.mutable.Buffer;

public class AsOfParsers extends scala.runtime.AbstractFunction2 {
    volatile Pattern mentioned;
    volatile BiFunction rewrite;  // (text, parameters) to null, a Throwable, or (rewritten text, text without what was rewritten)
    volatile BiFunction explain;  // (text, error) to null, or the error to throw in its place
    volatile Pattern view;
    volatile String setting;
    volatile BiFunction plain;  // (text of a view, session) to null, a Throwable, or the text without calls

    public void explain(BiFunction explain) {
        this.explain = explain;
    }

    public void plain(String view, String setting, BiFunction plain) {
        this.view = Pattern.compile(view, Pattern.CASE_INSENSITIVE | Pattern.DOTALL);
        this.setting = setting;
        this.plain = plain;
    }

    public void open(String mentioned, BiFunction rewrite) {
        this.mentioned = Pattern.compile(mentioned, Pattern.CASE_INSENSITIVE);
        this.rewrite = rewrite;
    }

    public Object apply(Object session, Object parser) {
        return this.rewrite == null ? parser : around(parser);
    }

    private Object around(Object parser) {
        Class[] interfaces = new Class[] {ParserInterface.class};
        return Proxy.newProxyInstance(ParserInterface.class.getClassLoader(), interfaces, new AsOfParser(this, parser));
    }

    private AsOfParser handler(Object parser) {
        if (!Proxy.isProxyClass(parser.getClass())) return null;
        InvocationHandler handler = Proxy.getInvocationHandler(parser);
        return handler instanceof AsOfParser && ((AsOfParser) handler).parsers == this ? (AsOfParser) handler : null;
    }

    public boolean isIn(SessionState state) {
        return handler(state.sqlParser()) != null;
    }

    public void putInto(SessionState state) throws Exception {
        if (!isIn(state)) field(SessionState.class, "sqlParser").set(state, around(state.sqlParser()));
    }

    public void takeOutOf(SessionState state) throws Exception {
        AsOfParser handler = handler(state.sqlParser());
        if (handler != null) field(SessionState.class, "sqlParser").set(state, handler.inner);
    }

    public void putInto(SparkSessionExtensions extensions) {
        extensions.injectParser(this);
    }

    public void takeOutOf(SparkSessionExtensions extensions) throws Exception {
        ((Buffer) field(SparkSessionExtensions.class, "parserBuilders").get(extensions)).subtractOne(this);
    }

    public void close() {
        this.explain = null;
        this.plain = null;
        this.rewrite = null;  // the parsers of sessions opened in between only pass on from now on
    }

    private static Field field(Class owner, String name) throws Exception {
        Field field = owner.getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }
}

class AsOfParser implements InvocationHandler {
    final AsOfParsers parsers;
    final Object inner;

    AsOfParser(AsOfParsers parsers, Object inner) {
        this.parsers = parsers;
        this.inner = inner;
    }

    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
        Object view = this.parsers.plain != null && isOurs(method, arguments) ? plainView((String) arguments[0]) : null;
        if (view instanceof Throwable) throw (Throwable) view;
        if (view != null) {
            arguments = (Object[]) arguments.clone();
            arguments[0] = view;
        }
        try {
            return method.invoke(this.inner, arguments);
        } catch (InvocationTargetException failed) {
            Throwable error = failed.getTargetException();
            if (this.parsers.rewrite == null || !isOurs(method, arguments)) throw thrown(method, error);
            Object made = isSyntax(error) ? asked(this.parsers.rewrite, arguments[0], arguments.length > 1 ? arguments[1] : null) : null;
            if (made instanceof Throwable) throw (Throwable) made;
            if (made != null) {
                try {
                    return parsed(method, arguments, (scala.Tuple2) made);
                } catch (Throwable other) {
                    error = other;
                }
            }
            Object explained = isSyntax(error) || isOther(error) ? asked(this.parsers.explain, arguments[0], error) : null;
            throw thrown(method, explained == null ? error : (Throwable) explained);
        }
    }

    private static Throwable thrown(Method method, Throwable error) {  // a proxy may not throw what is not declared: of a script
        if (error instanceof RuntimeException || error instanceof Error) return error;
        Class[] declared = method.getExceptionTypes();
        for (int i = 0; i < declared.length; i++) {
            if (declared[i].isInstance(error)) return error;
        }
        return new IllegalArgumentException(error.getMessage(), error);
    }

    private boolean isOurs(Method method, Object[] arguments) {
        String name = method.getName();
        if (!name.startsWith("parsePlan") && !name.startsWith("parseQuery")) return false;
        return this.parsers.mentioned.matcher((String) arguments[0]).find();
    }

    private Object plainView(String text) {
        Option session = SparkSession.getActiveSession();
        if (session.isEmpty() || !this.parsers.view.matcher(text).find()) return null;
        Option asked = ((SparkSession) session.get()).conf().getOption(this.parsers.setting);
        return asked.isEmpty() ? null : asked(this.parsers.plain, text, session.get());
    }

    private static boolean isSyntax(Throwable error) {
        String condition = error instanceof SparkThrowable ? ((SparkThrowable) error).getCondition() : null;
        return "PARSE_SYNTAX_ERROR".equals(condition) || "_LEGACY_ERROR_TEMP_0056".equals(condition);
    }

    private static boolean isOther(Throwable error) {  // loose items behind a clause of a table argument; parentheses without end
        String condition = error instanceof SparkThrowable ? ((SparkThrowable) error).getCondition() : null;
        return "_LEGACY_ERROR_TEMP_0064".equals(condition) || error instanceof StackOverflowError;
    }

    private static Object asked(BiFunction python, Object text, Object about) {
        try {
            return python == null ? null : python.apply(text, about);
        } catch (RuntimeException gone) {  // Python cannot be reached, or is about to end
            return null;
        }
    }

    private Object parsed(Method method, Object[] arguments, scala.Tuple2 made) throws Throwable {
        Object[] changed = (Object[]) arguments.clone();
        changed[0] = made._1();
        try {
            return method.invoke(this.inner, changed);
        } catch (InvocationTargetException failed) {  // something else is wrong with the text: say so at its place in it
            changed[0] = made._2();
            try {
                method.invoke(this.inner, changed);
            } catch (InvocationTargetException same) {
                throw same.getTargetException();
            }
            throw failed.getTargetException();
        }
    }
}
"""

MENTIONED = rf"{as_of_rewrite.MENTIONED}|\b(?:{'|'.join(SPECS)})\b"
LOOSE = "_LEGACY_ERROR_TEMP_0064"  # several items in a clause of a table argument, without parentheses
WORD = re.compile(r"\w*")
PLACE = re.compile(r"; line (\d+) pos (\d+)")


class TextFunction:
    """A java.util.function.BiFunction from a text and something about it, in Python."""

    class Java:
        """The Java interface of this Py4J proxy."""

        implements = ("java.util.function.BiFunction",)

    def __init__(self, door: AnalyzerDoor) -> None:
        self.door = door

    def apply(self, text: str, about: Any) -> Any:
        """The answer, None where there is none. Raises nothing: that would be logged."""
        try:
            return self.answer(text, about)
        except Exception:
            logging.getLogger("streamtime").debug("%s: no answer to a text", self.toString(), exc_info=True)
            return None

    def answer(self, text: str, about: Any) -> Any:
        """The same, which may raise."""
        raise NotImplementedError

    def toString(self) -> str:
        """For logs and debuggers."""
        return f"streamtime {type(self).__name__.lower()}"


class Rewrite(TextFunction):
    """From a text and its parameters to the text rewritten."""

    def answer(self, text: str, parameters: Any) -> Any:
        """None to keep Spark's error, an exception to throw in its place, or both texts."""
        try:
            made = rewrite(text, lambda name: _literal(parameters, name))
        except Refusal as refusal:
            return _parse_exception(self.door, text, str(refusal), refusal.offset)
        now, plain = (text, text) if made is None else (made.text, made.plain)
        made = with_single_partition(now, plain, SPECS) or made
        return None if made is None else self.door.jvm.scala.Tuple2(made.text, made.plain)


class Explain(TextFunction):
    """From a text and Spark's error to the same error with a hint behind it, or to None."""

    def answer(self, text: str, error: Any) -> Any:
        """The same condition, place and parameters, but for the one that ends the message."""
        if error.getClass().getSimpleName() == "StackOverflowError":
            return _parse_exception(self.door, text, *too_deep(text))
        condition, start = error.getCondition(), error.start()
        if condition == LOOSE:
            last, hint = "msg", of_clauses(text)
        else:
            last, hint = "hint", of_syntax(text, offset(text, start.line().get(), start.startPosition().get()))
        if hint is None:
            return None
        parameters = getattr(self.door.classes["map"], "MODULE$").empty()
        for name, value in dict(error.getMessageParameters()).items():
            parameters = parameters.updated(name, f"{value.rstrip('.')}. {hint}" if name == last else value)
        made = self.door.jvm.org.apache.spark.sql.catalyst.parser.ParseException
        place = (start, error.stop()) if self.door.version.errors_end else (start,)
        return made(error.command(), *place, condition, parameters, error.getQueryContext())


class PlainView(TextFunction):
    """From the text of a view and the session to the text without calls, where the session asks for plain SQL."""

    def answer(self, text: str, session: Any) -> Any:
        """None to leave the text as it is, an exception to throw in its place, or the other text."""
        try:
            return views.as_plain(self.door.session_of(session), text)
        except AnalysisException as error:
            message, place = str(error), PLACE.search(str(error))
            at = offset(text, int(place[1]), int(place[2])) if place else 0
            return _parse_exception(self.door, text, PLACE.sub("", message), at)
        except Exception as error:  # the view would store the call, unlike what the session asks for
            return _parse_exception(self.door, text, f"{views.SETTING} = plain: this view has no plain SQL. {gist(error)}", 0)


class ParserDoor:
    """Puts the parser into sessions: the one at hand, and every later one of this driver."""

    def __init__(self, door: AnalyzerDoor) -> None:
        self.rewrite = Rewrite(door)  # the JVM holds no strong reference to Python objects
        self.parsers = janino.instance(door.gateway, "AsOfParsers", JAVA)
        self.explain = Explain(door)
        self.parsers.open(MENTIONED, self.rewrite)
        self.parsers.explain(self.explain)
        self.view = PlainView(door)
        self.parsers.plain(views.VIEW, views.SETTING, self.view)
        self.extensions: list[Any] = []  # those of each application that this process has run

    def has(self, spark: SparkSession) -> bool:
        """Whether that session's parser is ours."""
        return bool(self.parsers.isIn(spark._jsparkSession.sessionState()))

    def join(self, spark: SparkSession) -> None:
        """Put it into this session, and into those opened later."""
        self.parsers.putInto(spark._jsparkSession.sessionState())
        extensions = spark._jsparkSession.extensions()
        if not any(extensions.equals(known) for known in self.extensions):
            self.extensions.append(extensions)
            self.parsers.putInto(extensions)

    def close(self, spark: SparkSession) -> None:
        """Take it out again: of this session, of those opened later, and in effect of those opened in between."""
        self.parsers.takeOutOf(spark._jsparkSession.sessionState())
        for extensions in self.extensions:
            self.parsers.takeOutOf(extensions)
        self.parsers.close()


def _parse_exception(door: AnalyzerDoor, text: str, message: str, offset: int) -> Any:
    """Spark's own, with the place: it takes both from a node of the syntax tree, so this makes one of a single word."""
    antlr = door.jvm.org.antlr.v4.runtime
    stream = antlr.CharStreams.fromString(text)
    word = len(WORD.match(text, offset)[0])  # type: ignore[index]
    source = door.jvm.org.antlr.v4.runtime.misc.Pair(None, stream)
    token = antlr.CommonToken(source, 1, 0, offset, offset + max(word, 1) - 1)
    line, position = line_and_position(text, offset)
    token.setLine(line)
    token.setCharPositionInLine(position)
    node = antlr.ParserRuleContext()
    set_field(node, "start", token)
    set_field(node, "stop", token)
    parameters = getattr(door.classes["map"], "MODULE$").empty().updated("msg", message)
    return door.jvm.org.apache.spark.sql.catalyst.parser.ParseException(FREE_TEXT, parameters, node)


def _literal(parameters: Any, name: str) -> str | None:
    """The SQL literal of a parameter of `spark.sql(text, args)`."""
    if parameters is None or parameters.getClass().getSimpleName() != "NamedParameterContext":
        return None
    value = parameters.params().get(name)
    return str(value.get().sql()) if value.isDefined() else None
