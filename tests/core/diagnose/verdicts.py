"""A verdict on facts, and the part of it that tests compare."""

from __future__ import annotations

from recovery.core.diagnose import diagnose
from recovery.core.types import AttemptFacts, Diagnosis, Exclude, FailureClass, Restart
from tests.core.attempts import crash


def verdict(facts: AttemptFacts) -> Diagnosis:
    return diagnose(facts, crash(facts))


def said(got: Diagnosis) -> tuple[FailureClass, Restart, Exclude, tuple[str, ...]]:
    return got.failure_class, got.restart, got.exclude, got.nodes
