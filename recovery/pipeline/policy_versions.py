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
    rules: Any, *, reason: str, actor: Actor, now: datetime, verb: str = "policy.saved", **data: Any
) -> PolicyVersion:
    """Add a version, which holds from now on, whoever may do so. Raises Invalid."""
    errors = check_rules(rules)
    if errors:
        raise Invalid(errors)
    newest = PolicyVersion.objects.order_by("-number").first()
    number = newest.number + 1 if newest else 1
    try:
        with transaction.atomic():
            version = PolicyVersion.objects.create(
                number=number, rules=rules, author=actor.name, reason=reason[:300], created_at=now
            )
            audit.record(
                verb, actor=actor, at=now, subject_kind="policy", subject_id=version.pk,
                old=str(number - 1), new=str(number), reason=reason, **data,
            )  # fmt: skip
    except IntegrityError as error:
        raise Invalid([f"Somebody else saved version {number} in this moment: reload and look at it first."]) from error
    return version
