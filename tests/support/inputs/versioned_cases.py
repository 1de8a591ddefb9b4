"""Cases of the versioned store, and where ours differs from Kafka's."""

from __future__ import annotations

import json

from support import TESTS

FOLDER = TESTS / "cases"


CASES = json.loads((FOLDER / "versioned_store.json").read_text())


KAFKA = [c for c in json.loads((FOLDER / "kafka_versioned_store.json").read_text()) if "known_wart" not in c]


REFUSED = -(2**63)
