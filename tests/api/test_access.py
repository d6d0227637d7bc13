from __future__ import annotations

from itertools import pairwise

import pytest
from django.contrib.auth.models import AnonymousUser, User
from pytest_django import DjangoAssertNumQueries

from recovery.access import ROLE_PERMISSIONS, SENTENCES, SYSTEM, Actor, Forbidden, Permission, actor_for, require
from recovery.models.access import Role

LADDER = [Role.VIEWER, Role.OPERATOR, Role.APPROVER, Role.ADMIN]


def test_every_role_and_every_permission_is_in_the_tables() -> None:
    assert set(ROLE_PERMISSIONS) == set(Role)
    assert set(SENTENCES) == set(Permission)
    assert set().union(*ROLE_PERMISSIONS.values()) == set(Permission)


def test_each_role_may_all_that_the_one_below_may_and_more() -> None:
    for lower, higher in pairwise(LADDER):
        assert ROLE_PERMISSIONS[lower] < ROLE_PERMISSIONS[higher]


@pytest.mark.parametrize(
    ("permission", "least"),
    [
        (Permission.VIEW, Role.VIEWER),
        (Permission.OPERATE, Role.OPERATOR),
        (Permission.TOKEN_MANAGE, Role.OPERATOR),
        (Permission.DECIDE, Role.APPROVER),
        (Permission.POLICY_EDIT, Role.ADMIN),
        (Permission.AUDIT_VIEW, Role.ADMIN),
        (Permission.ACCOUNT_MANAGE, Role.ADMIN),
    ],
)
def test_the_least_role_for_each_permission(permission: Permission, least: Role) -> None:
    may = [role for role in LADDER if permission in ROLE_PERMISSIONS[role]]
    assert may[0] == least


def test_a_user_has_the_permissions_of_the_role(approver: User) -> None:
    actor = actor_for(approver)
    assert (actor.kind, actor.name, actor.user_id) == ("user", "approver", approver.pk)
    assert actor.permissions == ROLE_PERMISSIONS[Role.APPROVER]


def test_an_account_without_a_role_may_nothing(outsider: User) -> None:
    assert actor_for(outsider).permissions == frozenset()


def test_a_superuser_without_a_role_may_nothing(outsider: User) -> None:
    outsider.is_superuser = outsider.is_staff = True
    outsider.save()
    assert actor_for(outsider).permissions == frozenset()


def test_an_account_that_was_switched_off_may_nothing(admin: User) -> None:
    admin.is_active = False
    assert actor_for(admin) == Actor(kind="user", name="nobody", user_id=None, permissions=frozenset())


def test_a_role_that_is_unknown_gives_nothing(admin: User) -> None:
    admin.memberships.update(role="emperor")
    assert actor_for(admin).permissions == frozenset()


def test_whoever_is_not_logged_in_is_nobody() -> None:
    assert actor_for(AnonymousUser()).permissions == frozenset()


def test_an_actor_costs_one_query(viewer: User, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(1):
        actor_for(viewer)


def test_who_may_is_let_through(approver: User) -> None:
    require(actor_for(approver), Permission.DECIDE)


def test_a_refusal_says_what_is_missing_and_who_can_give_it(viewer: User) -> None:
    with pytest.raises(Forbidden) as refusal:
        require(actor_for(viewer), Permission.DECIDE)
    assert str(refusal.value) == (
        "viewer may not approve and reject recommendations. An administrator can give the role admin or approver."
    )


@pytest.mark.parametrize("permission", Permission)
def test_the_product_itself_has_no_permission_to_borrow(permission: Permission) -> None:
    assert not SYSTEM.can(permission)
