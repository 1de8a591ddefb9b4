"""The Python of Spark's workers. Where nothing says which, Spark takes the first `python3` on the PATH, perhaps not the driver's own."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import subprocess
import sys
import threading
import warnings
import weakref
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from streamtime.sql.call.errors import gist, unlogged
from streamtime.sql.rows.kernels import arrow_udf

MODULES = ("numpy", "pyarrow", *(("pandas",) if arrow_udf is None else ()))
# An expression, since workers have not the pack: `eval` is a function that every Python has
PROBE = (
    "(lambda version, find: ' '.join(['%d.%d' % version[:2], *[m for m in " + repr(MODULES) + " if find(m) is None]]))"
    "(__import__('sys').version_info, __import__('importlib.util').util.find_spec)"
)
PATIENCE = 10.0  # seconds that `register` waits for a cluster's answer
FIX = (
    f"Set the environment variable PYSPARK_PYTHON to {sys.executable} before the session starts, with spark-submit also "
    "spark.pyspark.python; or install the packages of the driver there."
)
FIX_CLUSTER = (
    "Functions with a kernel fail there. Install the driver's packages in the workers' Python, or set the environment variable "
    "PYSPARK_PYTHON, with spark-submit also spark.pyspark.python, to one that has them before the session starts; the pack itself need not "
    "be there."
)
FIX_SERVER = (
    "Functions with a kernel fail there. Who runs the server installs NumPy and PyArrow in that Python, or sets PYSPARK_PYTHON to one that "
    "has them before the server starts; the pack itself need not be there."
)
TAG = "streamtime-workers"
PYTHONS = re.compile(r"^\w+(?:Error|Exception): .+$", re.MULTILINE)  # what a worker raised, below the stack that Spark tells of first

_asked: weakref.WeakSet[SparkContext] = weakref.WeakSet()
_asked_servers: weakref.WeakSet[SparkSession] = weakref.WeakSet()


def settle(context: SparkContext) -> str:
    """On a local master, have workers run this process's Python where nobody said which: a sentence about that, '' if nothing was done.

    Where somebody did, and that Python cannot run the functions, there is a warning; on a cluster one of its executors is asked.
    """
    if not local(context):
        if context not in _asked:
            _asked.add(context)
            ask_cluster(context)
        return ""
    if not sys.executable or same(context.pythonExec):
        return ""
    if "PYSPARK_PYTHON" not in os.environ:
        before, context.pythonExec = context.pythonExec, context.getConf().get("spark.pyspark.python") or sys.executable
        said = f"Workers run {context.pythonExec}, where Spark would have taken `{before}`; PYSPARK_PYTHON chooses another."
        logging.getLogger("streamtime").warning("streamtime: %s", said)
    else:
        said = ""
    if problem := lacks(context.pythonExec):
        warnings.warn(f"streamtime: {problem}. {FIX}", RuntimeWarning, stacklevel=3)
    return said


def ask_cluster(context: SparkContext, patience: float = PATIENCE) -> None:
    """Have a task say what its Python lacks. A cluster without a free core answers later: then the warning is one of the log."""
    waits = threading.Event()

    def ask() -> None:
        try:
            problem = lacking(context.pythonExec, context.parallelize([PROBE], 1).map(eval).first())
        except Exception as error:  # a job of ours must not end somebody's session
            problem = f"Spark's workers cannot run Python: {str(error).strip().splitlines()[0][:300]}"
        problems.append(problem)
        if problem and waits.is_set():
            logging.getLogger("streamtime").warning("streamtime: %s. %s", problem, FIX_CLUSTER)

    problems: list[str] = []
    asking = threading.Thread(target=ask, name="streamtime-workers", daemon=True)
    asking.start()
    asking.join(patience)
    waits.set()
    if problems and problems[0]:
        warnings.warn(f"streamtime: {problems[0]}. {FIX_CLUSTER}", RuntimeWarning, stacklevel=4)


def ask_server(spark: SparkSession, patience: float = PATIENCE) -> None:
    """Have a task of a Spark Connect session's server say what its Python lacks, once for a session. A warning says it.

    The question is asked in the foreground, and taken back where no answer comes: what a thread still waited for when the interpreter ends
    could keep it from ending.
    """
    if spark in _asked_servers:
        return
    _asked_servers.add(spark)
    answered = threading.Event()

    def take_back() -> None:
        while not answered.wait(patience):
            with contextlib.suppress(Exception):  # a server that is gone is said by the question itself
                spark.interruptTag(TAG)

    waiting = threading.Thread(target=take_back, name=TAG, daemon=True)
    spark.addTag(TAG)
    waiting.start()
    try:
        evaluated = F.udf(eval, useArrow=False)  # the server's workers may have no PyArrow
        with unlogged():
            said, python = spark.range(1).select(evaluated(F.lit(PROBE)), evaluated(F.lit("__import__('sys').executable"))).collect()[0]
        problem = lacking(python, said)
    except Exception as error:
        if "OPERATION_CANCELED" in str(error):
            logging.getLogger("streamtime").warning(
                "streamtime: no worker of the server was free in %.0f s to say what it lacks.", patience
            )
            return
        raised = PYTHONS.findall(str(error).partition("JVM stacktrace")[0])
        problem = f"the server's workers cannot run Python: {raised[-1] if raised else gist(error)}"
    finally:
        answered.set()
        waiting.join()
        spark.removeTag(TAG)
    if problem:
        warnings.warn(f"streamtime: {problem}. {FIX_SERVER}", RuntimeWarning, stacklevel=3)


def local(context: SparkContext) -> bool:
    """Whether workers run on this machine, with what is installed here."""
    return (context.master or "").partition("[")[0] == "local"


def same(python: str) -> bool:
    """Whether this is the Python of this process. Environments link to one program, so its folder counts too."""
    theirs, own = Path(shutil.which(python) or python).absolute(), Path(sys.executable).absolute()
    return (theirs.parent, theirs.resolve()) == (own.parent, own.resolve())


def lacks(python: str) -> str:
    """Why that Python cannot run the functions; '' if it can."""
    if same(python):
        return ""
    try:
        done = subprocess.run([python, "-c", f"print({PROBE})"], capture_output=True, text=True, timeout=60, check=True)
        return lacking(python, done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return f"Spark's workers are to run `{python}`, which does not run: {error}"


def lacking(python: str, said: str) -> str:
    """What an answer to PROBE means; '' if all is there."""
    version, *missing = said.split()
    if missing:
        return f"Spark's workers run `{python}`, which has no {' and no '.join(missing)}"
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return "" if version == own else f"Spark's workers run `{python}`, which is Python {version}, and this process is Python {own}"
