"""The one place where a version of the policy is added."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from recovery import audit
from recovery.access import Actor
from recovery.core.policy import check_rules
from recovery.models import PolicyVersion
from recovery.pipeline.invalid import Invalid


def add_version(
    rules: Any, *, base: int | None = None, reason: str, actor: Actor, now: datetime, verb: str = "policy.saved",
    **data: Any,
) -> PolicyVersion:  # fmt: skip
    """Add a version, which holds from now on, whoever may do so. Raises Invalid.

    `base`: the number of the version that `rules` was made from (0: there was none), refused where another one holds
    by now: what that one says would be lost unseen. None: put it on top of whatever holds.
    """
    errors = check_rules(rules)
    if errors:
        raise Invalid(errors)
    if base is None:
        base = PolicyVersion.objects.order_by("-number").values_list("number", flat=True).first() or 0
    number = base + 1  # one of a kind: of two that are made from the same version one is stored
    try:
        with transaction.atomic():
            version = PolicyVersion.objects.create(
                number=number, rules=rules, author=actor.name, reason=reason[:300], created_at=now
            )
            audit.record(
                verb, actor=actor, at=now, subject_kind="policy", subject_id=version.pk,
                old=str(base), new=str(number), reason=reason, **data,
            )  # fmt: skip
    except IntegrityError as error:
        raise Invalid([f"Somebody else saved version {number} in this moment: reload and look at it first."]) from error
    return version
