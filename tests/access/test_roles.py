"""Roles are given and taken, at the command line and on the admin page, each time with an event."""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import datetime
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.utils import timezone

from recovery.access import Actor, Forbidden, actor_for
from recovery.management.person import at_the_command_line
from recovery.models import Event, Membership
from recovery.models.access import Role, Scope
from recovery.pipeline import accounts
from recovery.pipeline.invalid import Invalid
from tests.access.people import make_person
from tests.factories import make_cluster, make_user


def now() -> datetime:
    return timezone.now()


def set_account(name: str, *arguments: str) -> str:
    out = StringIO()
    call_command("set_account", name, *arguments, stdout=out)
    return out.getvalue()


def test_a_role_is_given_for_a_scope_beside_others(db: None) -> None:
    make_cluster(name="alpha")
    make_user(role=Role.VIEWER, username="mira")
    set_account("mira", "--role", "approver", "--scope", "partition=gpu@alpha")
    said = set_account("mira", "--role", "operator", "--scope", "account=nlp")
    assert said == "mira is viewer, approver for partition gpu on alpha, operator for Slurm account nlp.\n"
    assert Event.objects.filter(verb="account.role_changed").count() == 2


def test_another_role_for_the_same_scope_takes_the_place_of_the_first_unless_it_is_added(db: None) -> None:
    make_user(role=Role.VIEWER, username="mira")
    assert set_account("mira", "--role", "approver") == "mira is approver.\n"
    assert set_account("mira", "--role", "policy_admin", "--add") == "mira is approver, policy administrator.\n"
    event = Event.objects.order_by("pk")[0]
    assert (event.old, event.new, event.reason) == ("viewer", "approver", "Account mira, for everything")


def test_a_role_is_taken(db: None) -> None:
    make_user(role=Role.VIEWER, username="mira")
    assert set_account("mira", "--role", "viewer", "--take") == "mira is without a role.\n"
    assert Event.objects.get().new == ""
    with pytest.raises(CommandError, match="mira is not viewer for all"):
        set_account("mira", "--role", "viewer", "--take")


@pytest.mark.parametrize(
    ("scope", "says"),
    [
        ("planet", "give all, cluster=NAME"),
        ("planet=earth", "give all, cluster=NAME"),
        ("all=1", "give all"),
        ("partition", "give all"),
        ("partition=", "in 1 to 100 characters"),
        ("cluster=gamma", "choose from: alpha"),
        ("account=nlp@gamma", "choose from: alpha"),
    ],
)
def test_a_scope_that_can_not_be_is_refused_with_what_to_give(scope: str, says: str, db: None) -> None:
    make_cluster(name="alpha")
    make_user(role=None, username="mira")
    with pytest.raises(CommandError, match=says):
        set_account("mira", "--role", "viewer", "--scope", scope)
    assert not Membership.objects.exists()


@pytest.mark.parametrize(("role", "scope"), [("owner", "all"), ("owner", "partition=gpu"), ("viewer", "user=mira")])
def test_a_training_user_is_an_owner_of_a_slurm_user_and_nothing_else(role: str, scope: str, db: None) -> None:
    make_user(role=None, username="mira")
    with pytest.raises(CommandError, match="owner is what a Slurm user is to their own jobs"):
        set_account("mira", "--role", role, "--scope", scope)


def test_the_last_administrator_stays(admin: User) -> None:
    person = at_the_command_line()
    with pytest.raises(Invalid, match="last administrator"):
        accounts.take_role(Membership.objects.get(), actor=person, now=now())
    with pytest.raises(Invalid, match="last administrator"):
        accounts.give_role(admin, Role.VIEWER, accounts.Reach(), actor=person, now=now())
    assert Membership.objects.get().role == Role.ADMIN
    assert not Event.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_two_administrators_who_take_each_others_role_at_the_same_moment_leave_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    people = [make_user(role=Role.ADMIN, username=name) for name in ("ada", "grace")]
    actors = [actor_for(person) for person in people]
    rows = [Membership.objects.get(user=person) for person in people]
    both, count = threading.Barrier(2), accounts._administrators

    def counted() -> int:
        """What both saw before either of them went on; unless one waits for the other."""
        seen = count()
        with suppress(threading.BrokenBarrierError):
            both.wait(timeout=2)
        return seen

    monkeypatch.setattr(accounts, "_administrators", counted)
    answers: list[str] = []

    def take(row: Membership, actor: Actor) -> None:
        try:
            accounts.take_role(row, actor=actor, now=now())
            answers.append("taken")
        except Invalid:
            answers.append("refused")
        finally:
            connection.close()

    threads = [threading.Thread(target=take, args=pair) for pair in zip(rows, reversed(actors), strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert sorted(answers) == ["refused", "taken"]
    assert Membership.objects.filter(role=Role.ADMIN).count() == 1


def test_only_an_administrator_for_everything_gives_roles(db: None) -> None:
    cluster = make_cluster(name="alpha")
    actor = actor_for(make_person(Role.ADMIN, Scope.CLUSTER, cluster=cluster))
    with pytest.raises(Forbidden, match="may not give and take roles here"):
        accounts.give_role(make_user(role=None), Role.ADMIN, accounts.Reach(), actor=actor, now=now())


# --- the page --------------------------------------------------------------------------------------------------------


def test_an_administrator_gives_and_takes_on_the_page(clients: dict[str, Client], outsider: User) -> None:
    make_cluster(name="alpha")
    given = {"account": "outsider", "role": "operator", "scope": "partition", "name": "gpu", "cluster": "alpha"}
    page = clients["admin"].post("/admin/roles/give/", given, follow=True).content.decode()
    assert "outsider is operator for partition gpu on alpha." in page
    row = Membership.objects.get(user=outsider)
    assert Event.objects.get().actor_name == "admin"
    page = clients["admin"].post(f"/admin/roles/{row.pk}/take/", follow=True).content.decode()
    assert "outsider is no longer operator for partition gpu on alpha." in page
    assert not Membership.objects.filter(user=outsider).exists()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"account": "nobody"}, "there is no account"),
        ({"role": "emperor"}, "role: choose one"),
        ({"scope": "planet"}, "scope:"),
        ({"scope": "cluster"}, "there is no cluster"),
        ({"scope": "account", "name": " "}, "in 1 to 100"),
    ],
)
def test_a_wrong_form_keeps_what_was_typed_and_says_what_is_wrong(
    wrong: dict[str, str], says: str, clients: dict[str, Client]
) -> None:
    answer = clients["admin"].post(
        "/admin/roles/give/", {"account": "viewer", "role": "operator", "scope": "all"} | wrong
    )
    assert answer.status_code == 422
    page = answer.content.decode()
    assert says in page
    assert f'value="{wrong.get("account", "viewer")}"' in page


def test_the_people_of_a_site_are_shown_to_who_sees_everything(clients: dict[str, Client]) -> None:
    assert "Last log-in" in clients["viewer"].get("/admin/").content.decode()
    assert "Give the role" not in clients["viewer"].get("/admin/").content.decode()
    within = Client()
    within.force_login(make_person(Role.ADMIN, Scope.ACCOUNT, "nlp"))
    assert "Last log-in" not in within.get("/admin/").content.decode()
