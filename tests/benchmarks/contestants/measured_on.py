"""Where and when something was measured, as each stored result says it."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from typing import Any


def today(cores: int | None = None, **more: Any) -> dict[str, Any]:
    """The date and the machine: its processors, how many of them Spark was given, and what else `more` says of it."""
    given = {} if cores is None else {"cores": cores}
    machine = given | {"cpus": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()} | more
    return {"date": datetime.now(UTC).date().isoformat(), "machine": machine}
