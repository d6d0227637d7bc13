"""What the demo starts with: accounts, a policy, a cluster. Each is made once and kept by later starts."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from recovery.access import actor_for
from recovery.core.types import FailureClass, Mode
from recovery.demo.scenes import Stage
from recovery.models import Attempt, Cluster, Incident, Membership, PolicyVersion
from recovery.models.access import Role
from recovery.pipeline.by_hand import save_policy

# A person types them from the screen: no characters that look alike. 31^12 possibilities are about 59 bits.
LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
GROUPS = 3
DEMO_ROLES = (Role.VIEWER, Role.OPERATOR, Role.APPROVER, Role.ADMIN)

# A fresh installation only observes. The demo shows all three: it asks before it touches what a person should see, does
# by itself what is safest, and leaves alone what a restart can't mend.
DEMO_RULES: dict[str, Any] = {
    "rules": [
        {
            "name": "Hardware, network and hangs",
            "classes": [
                FailureClass.GPU_HARDWARE,
                FailureClass.NETWORK_FABRIC,
                FailureClass.HANG_COLLECTIVE,
                FailureClass.HANG_SILENT,
            ],
            "mode": Mode.APPROVE,
        },
        {
            "name": "Lost nodes and preemption",
            "classes": [FailureClass.NODE_FAULT, FailureClass.PREEMPTION],
            "mode": Mode.AUTO,
            "max_restarts": 3,
        },
    ],
    "default": {"mode": Mode.OBSERVE},
    "breaker": {
        "max_actions_per_hour": 20,
        "max_excluded_nodes": 4,
        "max_excluded_percent": 50.0,
        "fleet_failures": 6,  # the demo's first minutes show every kind of trouble at once
        "fleet_window_s": 120.0,
    },
    "expires_after_s": 3600.0,
}


def accounts(store: Path) -> dict[str, str]:
    """One account per role, named after it; their passwords, which `store` keeps from one start to the next."""
    passwords = _stored(store)
    for role in DEMO_ROLES:
        passwords.setdefault(role.value, new_password())
    _keep(store, passwords)
    with transaction.atomic():
        for role in DEMO_ROLES:
            user, is_new = User.objects.get_or_create(username=role.value)
            if is_new or not user.check_password(passwords[role.value]):  # either takes a good part of a second
                user.set_password(passwords[role.value])
                user.save(update_fields=["password"])
            Membership.objects.get_or_create(user=user, defaults={"role": role})
    return {role.value: passwords[role.value] for role in DEMO_ROLES}


def new_password() -> str:
    groups = ["".join(secrets.choice(LETTERS) for _ in range(4)) for _ in range(GROUPS)]
    return "-".join(groups)


def policy(now: datetime) -> PolicyVersion:
    """The demo's policy, unless somebody has already written one."""
    newest = PolicyVersion.objects.order_by("-number").first()
    if newest is not None:
        return newest
    author = actor_for(User.objects.get(username=Role.ADMIN.value))
    return save_policy(DEMO_RULES, reason="The policy that the demo starts with", actor=author, now=now)


def cluster(stage: Stage, *, now: datetime, poll_interval_s: float) -> Cluster:
    """The one cluster of the demo, to be looked at now. What earlier starts saw of it stays."""
    wanted = {
        "backend": stage.backend,
        "options": dict(stage.options),
        "poll_interval_s": poll_interval_s,
        "next_look_at": now,
    }
    return Cluster.objects.update_or_create(name=stage.name, defaults=wanted)[0]


def end_leases() -> None:
    """Give back what workers held that an earlier start left killed: nobody else works on the demo's database."""
    for model in (Cluster, Attempt, Incident):
        model.objects.exclude(leased_until=None).update(leased_until=None)


def _stored(store: Path) -> dict[str, str]:
    try:
        found = json.loads(store.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(name): str(password) for name, password in found.items()} if isinstance(found, dict) else {}


def _keep(store: Path, passwords: Mapping[str, str]) -> None:
    """Readable by its owner alone from the first moment on."""
    draft = store.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(dict(passwords), file, indent=2)
    draft.replace(store)
