"""A question that one rule of the policy asks, and people who answer it, at the same moment perhaps."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.db import connection

from recovery.access import Actor
from recovery.core.policy import DEFAULT_RULES, check_rules
from recovery.models import Agreement, Decision, PolicyVersion
from recovery.pipeline import decide
from recovery.pipeline.decide import AlreadyDecided, OutOfDate
from recovery.pipeline.invalid import Invalid

if TYPE_CHECKING:
    from tests.pipeline.conftest import Desk

Ask = Callable[..., "Desk"]


def write_policy(desk: Desk, *, freezes: list[dict[str, Any]] | None = None, **rule: Any) -> None:
    document = {
        **DEFAULT_RULES,
        "rules": [{"name": "hardware", "classes": ["gpu_hardware"], "mode": "approve", **rule}],
        "breaker": {**DEFAULT_RULES["breaker"], "max_excluded_percent": 60},
        "freezes": freezes or [],
    }
    assert check_rules(document) == []
    number = PolicyVersion.objects.count() + 1
    PolicyVersion.objects.create(number=number, rules=document, author="admin", reason="test", created_at=desk.now)


def approve(desk: Desk, who: Actor, **more: Any) -> Decision | Agreement:
    row = desk.recommendation
    return decide.approve(row.pk, shown_hash=row.hash, actor=who, now=desk.now, **more)


def at_once(*presses: Callable[[], object]) -> list[str]:
    """What came of presses of different people at the same moment, by the name of the answer's class."""
    start, answers = threading.Barrier(len(presses)), []

    def press(do: Callable[[], object]) -> None:
        start.wait()
        try:
            answers.append(type(do()).__name__)
        except (AlreadyDecided, OutOfDate, Invalid) as refused:
            answers.append(type(refused).__name__)
        finally:
            connection.close()

    threads = [threading.Thread(target=press, args=(do,)) for do in presses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    return sorted(answers)
