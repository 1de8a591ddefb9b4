"""What tests share: nasty inputs, slow definitions, streams, programs that run as processes of their own."""

from pathlib import Path

TESTS = Path(__file__).parent.parent
ROOT = TESTS.parent
PROGRAMS = TESTS / "support" / "programs"  # what runs in a process of its own
