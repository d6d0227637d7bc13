"""Roles by the groups that a site's own log-in tells: given and taken at each log-in, as settings.GROUP_ROLES says.

Only what was given so is taken so; what a person gave stays.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from recovery.access import SYSTEM
from recovery.env import GroupRole
from recovery.models import Membership
from recovery.models.access import Role, Scope
from recovery.pipeline import accounts
from recovery.pipeline.accounts import Reach
from recovery.pipeline.invalid import Invalid

log = logging.getLogger(__name__)
Wanted = tuple[Role, Reach]


def wanted(groups: Collection[str], slurm_user: str, mapping: Collection[GroupRole]) -> list[Wanted]:
    """The roles that those groups give. A scope that can't be read (its cluster is not there) gives none."""
    found: list[Wanted] = []
    for each in mapping:
        if each.group in groups:
            try:
                found.append((Role(each.role), accounts.read_reach(each.scope)))
            except Invalid as problem:
                log.warning("The group %s gives no role: %s", each.group, problem)
    if slurm_user:
        found.append((Role.OWNER, Reach(scope=Scope.USER, name=slurm_user[:100])))
    return found


def apply(user: User, roles: Collection[Wanted], *, now: datetime) -> None:
    """Make the roles that groups gave those, each change an event. The last administrator may go so: the command line
    makes another."""
    with transaction.atomic():
        keys = {
            (role, reach.scope, reach.cluster.pk if reach.cluster else None, reach.name): reach for role, reach in roles
        }
        held = {(row.role, row.scope, row.cluster_id, row.name): row for row in Membership.objects.filter(user=user)}
        for key, row in held.items():
            if row.by_group and key not in keys:
                row.delete()
                accounts.role_told(user, row, old=row.role, new="", actor=SYSTEM, now=now)
        for key, reach in keys.items():
            if key not in held:
                row = Membership.objects.create(
                    user=user, role=key[0], scope=reach.scope, cluster=reach.cluster, name=reach.name, by_group=True
                )
                accounts.role_told(user, row, old="", new=row.role, actor=SYSTEM, now=now)


def take_from_backend(user: User, mapping: Collection[GroupRole]) -> None:
    """After a log-in by a back end of the site's (docs/access.md#ldap). One that tells no groups changes nothing.

    It tells them as `user.site_groups`, and a Slurm user's name as `user.site_slurm_user`; django-auth-ldap by its own
    `user.ldap_user.group_names`.
    """
    groups = getattr(user, "site_groups", None)
    if groups is None and (directory := getattr(user, "ldap_user", None)) is not None:
        groups = directory.group_names
    if groups is not None:
        apply(user, wanted(set(groups), getattr(user, "site_slurm_user", ""), mapping), now=timezone.now())
