"""The Python of Spark's workers. Where nothing says which, Spark takes the first `python3` on the PATH, perhaps not the driver's own."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from streamtime.sql.rows.kernels import arrow_udf

if TYPE_CHECKING:
    from pyspark import SparkContext

MODULES = ("numpy", "pyarrow", *(("pandas",) if arrow_udf is None else ()))
PROBE = f"""
import importlib.util, sys
print("%d.%d" % sys.version_info[:2], *[m for m in {MODULES} if importlib.util.find_spec(m) is None])
"""
FIX = (
    f"Set the environment variable PYSPARK_PYTHON to {sys.executable} before the session starts, with spark-submit also "
    "spark.pyspark.python; or install the packages of the driver there."
)


def settle(context: SparkContext) -> str:
    """On a local master, have workers run this process's Python where nobody said which: a sentence about that, '' if nothing was done.

    Where somebody did, and that Python cannot run the functions, there is a warning.
    """
    if not sys.executable or not local(context) or same(context.pythonExec):
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
        done = subprocess.run([python, "-c", PROBE], capture_output=True, text=True, timeout=60, check=True)
        version, *missing = done.stdout.split()
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return f"Spark's workers are to run `{python}`, which does not run: {error}"
    if missing:
        return f"Spark's workers run `{python}`, which has no {' and no '.join(missing)}"
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return "" if version == own else f"Spark's workers run `{python}`, which is Python {version}, and this process is Python {own}"
