"""What a fixture of a whole file prepares: only what the tests that were selected will look at."""

from __future__ import annotations

from typing import Any

import pytest


def selected(request: pytest.FixtureRequest, parameter: str) -> list[Any]:
    """The values of this parameter in the selected tests that use the fixture, one for each test."""
    used = (item for item in request.session.items if isinstance(item, pytest.Function) and request.fixturename in item.fixturenames)
    return [item.callspec.params[parameter] for item in used if hasattr(item, "callspec") and parameter in item.callspec.params]
