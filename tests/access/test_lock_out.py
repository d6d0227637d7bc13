"""Who fails too often waits, known or not; what a thousand tries at once may; who unlocks."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from io import StringIO
from threading import Barrier
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test import Client
from pytest_django import Settings

from recovery.access import actor_for
from recovery.core.speech import duration
from recovery.models import Event, LogInTries
from recovery.models.access import Role
from recovery.pipeline import lock_out
from tests.dashboard.conftest import text_of
from tests.factories import make_cluster, make_user

pytestmark = pytest.mark.django_db

PASSWORD = "a good long password"
WRONG = "wrong"
NOW = datetime(2026, 5, 4, 9, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _quick(settings: Settings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def clock() -> Iterator[time_machine.Traveller]:
    with time_machine.travel(NOW, tick=False) as traveller:
        yield traveller


@pytest.fixture
def mira() -> User:
    return make_user(role=Role.VIEWER, username="mira", password=PASSWORD)


def note_of(page: str) -> str:
    return page[page.index('<div class="note') : page.index('<div class="field"')]


def log_in(name: str = "mira", password: str = WRONG, address: str = "10.0.0.7") -> Any:
    return Client().post("/login/", {"username": name, "password": password}, REMOTE_ADDR=address)


def test_after_five_failures_not_even_the_right_password_opens_until_the_time_is_over(
    mira: User, clock: time_machine.Traveller
) -> None:
    assert [log_in().status_code for _ in range(5)] == [200] * 5
    locked = log_in(password=PASSWORD)
    assert (locked.status_code, locked.headers["Retry-After"]) == (429, "60")
    assert f"nobody can log in for {duration(60)}." in text_of(locked)
    clock.shift(timedelta(seconds=60))
    assert log_in(password=PASSWORD).status_code == 302
    assert [log_in().status_code for _ in range(4)] == [200] * 4  # it began anew
    event = Event.objects.get(verb="account.locked")
    assert (event.subject_id, event.origin) == (str(mira.pk), "10.0.0.7")
    assert event.new == "2026-05-04T09:01:00Z"


def test_each_further_failure_doubles_the_wait_up_to_an_hour(mira: User, clock: time_machine.Traveller) -> None:
    for _ in range(4):
        log_in()
    waits = []
    for turn in range(9):
        log_in(address=f"10.0.1.{turn}")
        waits.append(int(log_in(address=f"10.0.1.{turn}").headers["Retry-After"]))
        clock.shift(timedelta(seconds=waits[-1]))
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]


def test_a_name_that_is_no_account_is_answered_in_the_same_words(mira: User, clock: time_machine.Traveller) -> None:
    answers = {
        name: [log_in(name, address=f"10.1.{len(name)}.1") for _ in range(6)] for name in ("mira", "nobody-here")
    }
    told = {name: [(each.status_code, note_of(text_of(each))) for each in found] for name, found in answers.items()}
    assert told["mira"] == told["nobody-here"]
    assert told["mira"][-1][0] == 429
    assert "nobody-here" not in str(list(LogInTries.objects.values())) + str(list(Event.objects.values()))


def test_a_name_written_another_way_is_the_same_name(mira: User, clock: time_machine.Traveller) -> None:
    for name in ("mira", "MIRA", "Mira", "miRa", "mira"):
        log_in(name)
    assert log_in(password=PASSWORD).status_code == 429


def test_an_address_that_tries_many_names_is_locked_for_all_and_others_are_not(
    mira: User, clock: time_machine.Traveller
) -> None:
    for number in range(20):
        assert log_in(f"guess-{number}").status_code == 200
    assert log_in(password=PASSWORD).status_code == 429
    assert log_in(password=PASSWORD, address="10.0.0.8").status_code == 302


def test_an_account_of_ones_own_frees_no_address(mira: User, clock: time_machine.Traveller) -> None:
    for number in range(19):
        log_in(f"guess-{number}")
    assert log_in(password=PASSWORD).status_code == 302
    assert log_in("guess-19").status_code == 200
    assert log_in(password=PASSWORD).status_code == 429


def test_an_ipv6_network_is_one_address(mira: User, clock: time_machine.Traveller) -> None:
    for number in range(20):
        log_in(f"guess-{number}", address=f"2001:db8::{number:x}")
    assert log_in(password=PASSWORD, address="2001:db8::ffff").status_code == 429
    assert log_in(password=PASSWORD, address="2001:db8:0:1::1").status_code == 302


def test_an_ipv4_address_is_itself_where_a_server_writes_it_as_ipv6(mira: User, clock: time_machine.Traveller) -> None:
    for number in range(20):
        log_in(f"guess-{number}", address="::ffff:10.0.0.9")
    assert log_in(password=PASSWORD, address="10.0.0.9").status_code == 429
    assert log_in(password=PASSWORD, address="::ffff:10.0.0.8").status_code == 302


# --- who was here before ---------------------------------------------------------------------------------------------
def known_client(address: str = "10.0.0.7") -> Client:
    """A browser in which mira logged in, and out again."""
    client = Client(REMOTE_ADDR=address)
    assert client.post("/login/", {"username": "mira", "password": PASSWORD}).status_code == 302
    assert client.post("/logout/").status_code == 302
    return client


def test_strangers_who_try_a_name_lock_nobody_out_of_a_known_browser(mira: User, clock: time_machine.Traveller) -> None:
    mine = known_client()
    for number in range(25):  # the name, and the address that both are at
        log_in()
        log_in(f"guess-{number}")
    assert log_in(password=PASSWORD, address="10.0.0.99").status_code == 429
    assert log_in("noor", password=PASSWORD).status_code == 429
    assert mine.post("/login/", {"username": "mira", "password": PASSWORD}).status_code == 302
    assert log_in(password=PASSWORD, address="10.0.0.99").status_code == 429  # and frees nobody else


def test_a_known_browser_is_locked_by_its_own_failures_and_known_for_one_name(
    mira: User, clock: time_machine.Traveller
) -> None:
    mine = known_client()
    make_user(role=Role.VIEWER, username="noor", password=PASSWORD)
    for _ in range(5):
        assert mine.post("/login/", {"username": "mira", "password": WRONG}).status_code == 200
    assert mine.post("/login/", {"username": "mira", "password": PASSWORD}).status_code == 429
    told = Event.objects.get(verb="account.locked")
    assert (told.subject_id, told.reason) == (str(mira.pk), "5 tries to log in failed with one browser")
    assert log_in(password=PASSWORD, address="10.0.0.99").status_code == 302
    for _ in range(5):
        mine.post("/login/", {"username": "noor", "password": WRONG})
    assert log_in("noor", password=PASSWORD, address="10.0.0.99").status_code == 429


@pytest.mark.parametrize("made_up", ["", "x", ":", "a:b", "a:b:1:sig"])
def test_what_a_stranger_sends_as_a_cookie_makes_no_browser_known(
    mira: User, clock: time_machine.Traveller, made_up: str
) -> None:
    client = Client()
    client.cookies["known_browser"] = made_up
    for _ in range(5):
        client.post("/login/", {"username": "mira", "password": WRONG})
    assert log_in(password=PASSWORD).status_code == 429


def test_who_is_logged_in_gives_the_password_again_whatever_strangers_try(
    mira: User, clock: time_machine.Traveller
) -> None:
    make_user(role=Role.ADMIN, username="ada", password=PASSWORD)
    ada, cluster = Client(REMOTE_ADDR="10.0.0.7"), make_cluster(paused_at=NOW, paused_reason="maintenance")
    ada.post("/login/", {"username": "ada", "password": PASSWORD})
    clock.shift(timedelta(minutes=40))
    for number in range(25):
        log_in("ada")
        log_in(f"guess-{number}")
    given = {"reason": "done", "confirm_password": PASSWORD}
    assert ada.post(f"/clusters/{cluster.pk}/arm/", given).status_code == 302
    cluster.refresh_from_db()
    assert cluster.paused_at is None


def test_unlocking_frees_known_browsers_too_and_an_account_is_listed_once(
    mira: User, clock: time_machine.Traveller, admin: User
) -> None:
    mine = known_client()
    for _ in range(5):
        log_in()
        mine.post("/login/", {"username": "mira", "password": WRONG})
    (row,) = lock_out.locked_accounts(now=NOW)
    assert row.user == mira
    assert lock_out.unlock(mira, actor=actor_for(admin), now=NOW)
    assert mine.post("/login/", {"username": "mira", "password": PASSWORD}).status_code == 302
    assert log_in(password=PASSWORD, address="10.0.0.99").status_code == 302


def test_tries_at_once_are_counted_before_any_password_is_looked_at(mira: User) -> None:
    begun = [lock_out.begin("mira", "10.0.0.7", now=NOW) for _ in range(7)]
    assert begun == [None] * 5 + [NOW + timedelta(seconds=60)] * 2


@pytest.mark.django_db(transaction=True)
def test_twenty_tries_at_the_same_moment_are_five() -> None:
    """Names that nobody has yet: even the first row is made by one of them."""
    gate = Barrier(20)

    def attempt(number: int) -> bool:
        gate.wait(30)
        try:
            return lock_out.begin("mira", f"10.9.0.{number}", now=NOW) is None
        finally:
            connection.close()

    with ThreadPoolExecutor(20) as pool:
        looked_at = sum(pool.map(attempt, range(20)))
    assert looked_at == 5


def test_failures_of_yesterday_are_forgotten(mira: User) -> None:
    for _ in range(4):
        lock_out.begin("mira", "10.0.0.7", now=NOW)
    assert lock_out.begin("mira", "10.0.0.7", now=NOW + timedelta(hours=25)) is None
    assert lock_out.begin("mira", "10.0.0.7", now=NOW + timedelta(hours=25)) is None
    assert lock_out.forget(now=NOW + timedelta(hours=26)) == 0
    assert lock_out.forget(now=NOW + timedelta(hours=50)) == 2


def test_an_administrator_unlocks_at_the_page_and_at_the_command_line(
    mira: User, clock: time_machine.Traveller, clients: dict[str, Client]
) -> None:
    for _ in range(5):
        log_in()
    page = text_of(clients["admin"].get("/admin/"))
    assert "Unlock" in page
    assert "Unlock" not in text_of(clients["viewer"].get("/admin/"))
    assert clients["admin"].post(f"/admin/accounts/{mira.pk}/unlock/").status_code == 302
    assert Event.objects.get(verb="account.unlocked").actor_name == "admin"
    assert log_in(password=PASSWORD).status_code == 302
    for number in range(5):
        log_in(address=f"10.3.0.{number}")
    call_command("set_account", "mira", "--unlock", stdout=StringIO())
    assert log_in(password=PASSWORD).status_code == 302
