"""Java classes of ours, compiled by the Janino that Spark brings."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

_compiled: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()  # by Spark application, which is a gateway


def instance(gateway: Any, name: str, source: str) -> Any:
    """A new object of the class `streamtime.<name>`, compiled once: Py4J knows the methods of a class by its name."""
    classes = _compiled.setdefault(gateway, {})
    if name not in classes:
        compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(gateway.jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader())
        compiler.cook(source)
        classes[name] = compiler.getClassLoader().loadClass(f"streamtime.{name}")
    return classes[name].newInstance()
