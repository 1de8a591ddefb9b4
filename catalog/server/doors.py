"""The server's two doors, and what Spark tells of who goes through them. The only file here that touches classes of the JVM.

Both doors open after the functions are registered, so that no session can be without them: Spark Connect is started here, rather than as a
plugin of Spark, which would open it before. The secrets are never part of a command line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from streamtime.door import janino
from streamtime.server.options import CannotServe, Options

EVENTS = """
package streamtime;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.spark.scheduler.SparkListenerEvent;

public class ServerEvents extends org.apache.spark.scheduler.SparkListener {
    private final LinkedBlockingQueue events = new LinkedBlockingQueue(100000);
    private final com.fasterxml.jackson.databind.ObjectMapper mapper = new com.fasterxml.jackson.databind.ObjectMapper();

    public void onOtherEvent(SparkListenerEvent event) {
        String name = event.getClass().getSimpleName();
        if (!name.startsWith("SparkListenerConnect") && !name.startsWith("SparkListenerThriftServer")) return;
        Map said = new LinkedHashMap();
        said.put("event", name.substring("SparkListener".length()));
        scala.Product fields = (scala.Product) event;
        for (int i = 0; i < fields.productArity(); i++) {
            Object value = fields.productElement(i);
            String field = fields.productElementName(i);
            if (value instanceof String && !field.startsWith("statement")) said.put(field, value);
        }
        try {
            this.events.offer(this.mapper.writeValueAsString(said));
        } catch (com.fasterxml.jackson.core.JsonProcessingException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    public String next(int milliseconds) throws InterruptedException {
        return (String) this.events.poll(milliseconds, TimeUnit.MILLISECONDS);
    }
}
"""
# Spark and Hive make objects of these themselves, and find the classes by name
CLASSES = {
    "Passwords": """
package streamtime;

public class Passwords implements org.apache.hive.service.auth.PasswdAuthenticationProvider {
    public static volatile java.util.function.BiFunction refusal;

    public void Authenticate(String user, String password) throws javax.security.sasl.AuthenticationException {
        Object said = refusal.apply(user, whole(password));
        if (said != null) throw new javax.security.sasl.AuthenticationException((String) said);
    }

    private static String whole(String text) {  // Hive makes a character of each byte of UTF-8, with its sign
        byte[] bytes = new byte[text.length()];
        boolean torn = false;
        for (int i = 0; i < bytes.length; i++) {
            torn = torn || text.charAt(i) >= 0xff80;
            bytes[i] = (byte) text.charAt(i);
        }
        return torn ? new String(bytes, java.nio.charset.StandardCharsets.UTF_8) : text;
    }
}
""",
    "Gate": """
package streamtime;

import org.sparkproject.connect.grpc.Metadata;
import org.sparkproject.connect.grpc.ServerCall;
import org.sparkproject.connect.grpc.ServerCallHandler;
import org.sparkproject.connect.grpc.Status;

public class Gate implements org.sparkproject.connect.grpc.ServerInterceptor {
    public static volatile boolean shut;

    public ServerCall.Listener interceptCall(ServerCall call, Metadata headers, ServerCallHandler next) {
        String method = call.getMethodDescriptor().getBareMethodName();
        if (shut && (method.equals("ExecutePlan") || method.equals("AnalyzePlan"))) {
            call.close(Status.FAILED_PRECONDITION.withDescription("the server is stopping"), new Metadata());
            return new Nothing();
        }
        return next.startCall(call, headers);
    }
}

class Nothing extends ServerCall.Listener {}
""",
}
INTERCEPTORS = "spark.connect.grpc.interceptor.classes"
# What these log of each failed query, with the stack, is one line of the server's own log. That a client went away is no error, and that
# a query which ended had no job to cancel is none either
QUIET = (
    "org.apache.spark.sql.connect",
    "org.apache.spark.sql.hive.thriftserver",
    "org.apache.hive.service",
    "org.apache.thrift.server",
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.scheduler.DAGScheduler",
    "org.apache.hadoop.hive.conf.HiveConf",
    "org.apache.hadoop.hive.ql.session.SessionState",
    "SQLQueryContextLogger",
)


class PasswordCheck:
    """A java.util.function.BiFunction of a user and a password, in Python."""

    class Java:
        """The Java interface of this Py4J proxy."""

        implements = ("java.util.function.BiFunction",)

    def __init__(self, refusal: Callable[[str, str], str | None]) -> None:
        self.refusal = refusal

    def apply(self, user: str | None, password: str | None) -> str | None:
        """Why that user may not come in; None if it may."""
        return self.refusal(user or "", password or "")

    def toString(self) -> str:
        """For logs and debuggers."""
        return "streamtime passwords"


class Doors:
    """The doors of one driver, which open one by one. `classes` is a folder of the JVM's class path. `listen` first, to hear of all."""

    def __init__(self, spark: SparkSession, classes: Path) -> None:
        self.spark, self.gateway = spark, spark.sparkContext._gateway
        self.classes = classes
        self.jvm: Any = spark.sparkContext._jvm
        self.connect: Any = None
        self.gate: Any = None
        self.thrift: Any = None
        self.events: Any = None
        self.asked: PasswordCheck | None = None

    def listen(self) -> None:
        """Hear of sessions and queries from now on."""
        self.events = janino.instance(self.gateway, "ServerEvents", EVENTS)
        self.spark.sparkContext._jsc.sc().addSparkListener(self.events)

    def next_event(self) -> dict[str, str] | None:
        """The next event; None if there was none for a second."""
        said = self.events.next(1000)
        return None if said is None else json.loads(said)

    def open_connect(self, options: Options, token: str) -> int:
        """Start Spark Connect; gives its port.

        Raises:
            CannotServe: the port is taken, or this Spark cannot do what was asked.
        """
        package = self.jvm.org.apache.spark.sql.connect
        conf = self.jvm.org.apache.spark.SparkEnv.get().conf()
        conf.set("spark.connect.grpc.binding.address", options.host)
        conf.set("spark.connect.grpc.binding.port", str(options.connect_port))
        conf.set("spark.connect.grpc.port.maxRetries", "0")
        if token and not self._checks(token):
            raise CannotServe(f"Spark {self.spark.version} does not check a token of Spark Connect: use a newer one, or --connect-port off")
        self.gate = self._compiled("Gate")
        conf.set(INTERCEPTORS, with_gate(conf.get(INTERCEPTORS, "")))
        try:
            package.service.SparkConnectService.start(self.spark.sparkContext._jsc.sc())
        except Exception as error:
            raise CannotServe(_taken("Spark Connect", options.host, options.connect_port, error)) from error
        self.connect = getattr(self.jvm, "org.apache.spark.sql.connect.service.SparkConnectService$").__getattr__("MODULE$")
        return int(self.connect.localPort())

    def _checks(self, token: str) -> bool:
        try:
            return bool(self.jvm.org.apache.spark.sql.connect.config.Connect.getAuthenticateToken().get() == token)
        except Exception:  # a Spark that has no such thing
            return False

    def open_thrift(self, options: Options, password: str, refusal: Callable[[str, str], str | None]) -> int:
        """Start the JDBC/ODBC server; gives its port. `refusal` says why a user may not come in with that password, or nothing.

        Raises:
            CannotServe: the port is taken, or this Spark has no such server.
        """
        self.asked = PasswordCheck(refusal)  # the JVM holds no strong reference to Python objects
        self._compiled("Passwords").getField("refusal").set(None, self.asked)
        self.jvm.java.lang.System.setProperty("hive.server2.custom.authentication.class", "streamtime.Passwords")
        settings = {
            "hive.server2.transport.mode": "binary",
            "hive.server2.thrift.bind.host": options.host,
            "hive.server2.thrift.port": str(options.thrift_port),
            "hive.server2.authentication": "CUSTOM",
            "hive.server2.enable.doAs": "false",  # all is run by this process's user
        }
        if options.keystore:
            settings["hive.server2.use.SSL"] = "true"
            settings["hive.server2.keystore.path"] = str(options.keystore.resolve())
            settings["hive.server2.keystore.password"] = password
        confs = [self.spark.sparkContext._jsc.hadoopConfiguration()]
        opened = self.jvm.org.apache.hadoop.hive.ql.session.SessionState.get()
        if opened is not None:  # by the metastore's client in this thread: Spark then takes its settings for the server
            confs.append(opened.getConf())
        for conf in confs:
            for key, value in settings.items():
                conf.set(key, value)
        server = self.jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2
        try:
            self.thrift = server.startWithSparkSession(self.spark._jsparkSession, False)
        except Exception as error:
            raise CannotServe(_taken("JDBC", options.host, options.thrift_port, error)) from error
        finally:
            for conf in confs:
                conf.unset("hive.server2.keystore.password")  # sessions can read these settings
        return self._thrift_port(options.host)

    def _thrift_port(self, host: str) -> int:
        (service,) = [s for s in self.thrift.getServices() if s.getClass().getSimpleName() == "ThriftBinaryCLIService"]
        listens = service.getServerIPAddress()
        if not listens.equals(self.jvm.java.net.InetAddress.getByName(host)):
            self.thrift.stop()
            raise CannotServe(
                f"JDBC listens at {listens.getHostAddress()}, where --host says {host}; use --thrift-port off and report it, please"
            )
        return int(service.getPortNumber())

    def _compiled(self, name: str) -> Any:
        """One of CLASSES, put where others can find it by name."""
        compiler = self.jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(self.jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader())
        compiler.cook(CLASSES[name])
        for made, code in compiler.getBytecodes().items():
            place = self.classes.joinpath(*made.split(".")).with_suffix(".class")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(code)
        return self.jvm.java.lang.Class.forName(f"streamtime.{name}")

    def alive(self) -> bool:
        """Whether the JVM runs, and Spark in it."""
        process = getattr(self.gateway, "proc", None)
        if process is not None and process.poll() is not None:
            return False
        try:
            return not self.spark.sparkContext._jsc.sc().isStopped()
        except Exception:
            return False

    def streams(self) -> list[Any]:
        """The streaming queries of all sessions."""
        return list(self.spark._jsparkSession.sharedState().activeStreamingQueries().values())

    def shut_connect(self) -> None:
        """Take no new statements over Spark Connect. Those that run go on, and their clients are told how they end."""
        if self.gate is not None:
            self.gate.getField("shut").set(None, True)

    def cancel(self) -> None:
        """Stop what streams, and cancel every job."""
        for stream in self.streams():
            stream.stop()
        self.spark.sparkContext.cancelAllJobs()

    def close(self) -> None:
        """Shut both doors, and stop Spark."""
        if self.thrift is not None:
            self.thrift.stop()
        if self.connect is not None:
            server, nothing = self.connect.server(), self.jvm.scala.Option.empty()
            self.connect.stop(nothing, nothing)
            server.shutdownNow()
        self.spark.stop()


def forget_environment() -> None:
    """Hive takes an address and a port from the environment, whatever its settings say."""
    for name in ("HIVE_SERVER2_THRIFT_BIND_HOST", "HIVE_SERVER2_THRIFT_PORT", "HIVE_SERVER2_TRANSPORT_MODE"):
        os.environ.pop(name, None)


def with_gate(given: str) -> str:
    """The interceptors of Spark Connect: those that --conf names, and the gate, which Spark asks first where it stands last."""
    names = [name.strip() for name in given.split(",")]
    return ",".join([*(name for name in names if name not in ("", "streamtime.Gate")), "streamtime.Gate"])


def _taken(door: str, host: str, port: int | None, error: Exception) -> str:
    said = str(error)
    if "BindException" in said or "Address already in use" in said or "Could not create ServerSocket" in said:
        return f"{door}: {host}:{port} is taken by another program. Give another port, or 0 for any free one"
    first = said.strip().splitlines()[0] if said.strip() else type(error).__name__
    return f"{door} does not start at {host}:{port}: {first}"
