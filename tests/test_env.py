"""Environment variables: each form is read as it is meant; a wrong one stops the start, naming variable and remedy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from recovery.core.opinion import ProviderSettings
from recovery.env import (
    QUICK_RETRY,
    broker,
    database,
    env_bool,
    env_float,
    env_list,
    env_rate,
    env_str,
    env_zone,
    mail_server,
    provider,
)

NAME = "RECOVERY_THING"
SQLITE = Path("/data/recovery.sqlite3")


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAME, raising=False)
    monkeypatch.delenv(f"{NAME}_FILE", raising=False)


# --- text


def test_a_variable_that_is_not_set_has_its_default() -> None:
    assert env_str(NAME, "default") == "default"
    assert env_bool(NAME, True) is True
    assert env_float(NAME, 2.5) == 2.5
    assert env_list(NAME, ["a"]) == ["a"]
    assert env_rate(NAME, "5/min") == "5/min"


def test_text_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, " as it is ")
    assert env_str(NAME, "default") == " as it is "


def test_a_secret_can_lie_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hidden\n")
    monkeypatch.setenv(f"{NAME}_FILE", str(tmp_path / "secret"))
    assert env_str(NAME) == "hidden"


def test_a_value_and_a_file_contradict_each_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(NAME, "here")
    monkeypatch.setenv(f"{NAME}_FILE", str(tmp_path / "secret"))
    with pytest.raises(ImproperlyConfigured, match=f"{NAME} and {NAME}_FILE are both set: keep one"):
        env_str(NAME)


def test_a_file_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(f"{NAME}_FILE", str(tmp_path / "absent"))
    with pytest.raises(ImproperlyConfigured, match=rf"{NAME}_FILE=.*absent can't be read .*readable file"):
        env_str(NAME)


# --- yes or no


@pytest.mark.parametrize("value", ["1", "true", "TRUE", "yes", "on"])
def test_yes(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(NAME, value)
    assert env_bool(NAME, False) is True


@pytest.mark.parametrize("value", ["0", "false", "False", "no", "off"])
def test_no(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(NAME, value)
    assert env_bool(NAME, True) is False


def test_an_empty_yes_or_no_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "")
    assert env_bool(NAME, True) is True


def test_perhaps_is_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "perhaps")
    with pytest.raises(ImproperlyConfigured, match=f"{NAME}='perhaps' is not a yes or no: use true or false"):
        env_bool(NAME, True)


# --- numbers, rates, lists


@pytest.mark.parametrize(("value", "expected"), [("3", 3.0), ("0.5", 0.5), ("1e3", 1000.0), ("", 7.0)])
def test_a_number_is_read(monkeypatch: pytest.MonkeyPatch, value: str, expected: float) -> None:
    monkeypatch.setenv(NAME, value)
    assert env_float(NAME, 7) == expected


def test_a_word_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "ten")
    with pytest.raises(ImproperlyConfigured, match=f"{NAME}='ten' is not a number: give one, 2 or more"):
        env_float(NAME, 7, least=2)


@pytest.mark.parametrize("value", ["1.9", "-5", "nan", "inf", "1e999"])
def test_a_number_out_of_range_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(NAME, value)
    with pytest.raises(ImproperlyConfigured, match=f"{NAME}='{value}' is out of range: give a number, 2 or more"):
        env_float(NAME, 7, least=2)


@pytest.mark.parametrize(("value", "expected"), [("60/min", "60/min"), ("2/S", "2/s"), ("none", ""), ("", "")])
def test_a_rate_is_read(monkeypatch: pytest.MonkeyPatch, value: str, expected: str) -> None:
    monkeypatch.setenv(NAME, value)
    assert env_rate(NAME, "1200/min") == expected


@pytest.mark.parametrize("value", ["60", "0/min", "-1/min", "60/fortnight", "60 / min", "many"])
def test_what_is_no_rate_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(NAME, value)
    with pytest.raises(ImproperlyConfigured, match=f"{NAME}='{value}' is no rate: use one such as 1200/min"):
        env_rate(NAME, "1200/min")


def test_a_list_is_split_at_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, " /logs , /scratch/logs,,")
    assert env_list(NAME, []) == ["/logs", "/scratch/logs"]


def test_a_time_zone_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert env_zone(NAME, "UTC") == "UTC"
    monkeypatch.setenv(NAME, "Europe/Paris")
    assert env_zone(NAME, "UTC") == "Europe/Paris"


def test_what_is_no_time_zone_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "Paris")
    with pytest.raises(ImproperlyConfigured, match=f"{NAME}='Paris' is not a time zone: give an IANA name"):
        env_zone(NAME, "UTC")


# --- the database


def test_no_url_is_sqlite_among_the_data() -> None:
    found = database("", sqlite_path=SQLITE)
    assert (found["ENGINE"], found["NAME"]) == ("django.db.backends.sqlite3", str(SQLITE))
    assert found["OPTIONS"]["transaction_mode"] == "IMMEDIATE"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("sqlite:////srv/desk.sqlite3", "/srv/desk.sqlite3"),
        ("sqlite:///desk.sqlite3", "desk.sqlite3"),
        ("sqlite:////srv/a%20b.sqlite3", "/srv/a b.sqlite3"),
        ("sqlite://", str(SQLITE)),
        ("sqlite:///", str(SQLITE)),
    ],
)
def test_sqlite_can_be_named(url: str, name: str) -> None:
    assert database(url, sqlite_path=SQLITE)["NAME"] == name


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_postgresql_is_read_whole(scheme: str) -> None:
    found = database(f"{scheme}://desk:s%40cret%2F@db.example.org:5433/recovery", sqlite_path=SQLITE)
    assert found["ENGINE"] == "django.db.backends.postgresql"
    assert (found["USER"], found["PASSWORD"]) == ("desk", "s@cret/")
    assert (found["HOST"], found["PORT"], found["NAME"]) == ("db.example.org", "5433", "recovery")


def test_postgresql_on_a_unix_socket() -> None:
    found = database("postgres://desk@/recovery?host=%2Frun%2Fpostgresql", sqlite_path=SQLITE)
    assert (found["HOST"], found["PORT"], found["NAME"]) == ("/run/postgresql", "", "recovery")


def test_another_database_is_refused() -> None:
    with pytest.raises(
        ImproperlyConfigured, match=r"DATABASE_URL starts with 'mysql': use postgres://… or sqlite:///…"
    ):
        database("mysql://desk@db/recovery", sqlite_path=SQLITE)


# --- the broker


@pytest.mark.parametrize(
    "url", ["redis://127.0.0.1:6379/0", "rediss://desk:secret@redis:6379/0", "redis+socket:///run/redis.sock"]
)
def test_redis_is_passed_on(url: str) -> None:
    assert broker(url) == (url, QUICK_RETRY)


def test_a_folder_can_be_the_broker() -> None:
    url, options = broker("filesystem:///srv/a%20b")
    assert url == "filesystem://"
    assert options["data_folder_in"] == options["data_folder_out"] == "/srv/a b"


@pytest.mark.parametrize("url", ["amqp://guest@rabbit", "filesystem://", "", "127.0.0.1:6379"])
def test_another_broker_is_refused(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"REDIS_URL starts with .*: use redis://…"):
        broker(url)


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("smtp://localhost:25", ("localhost", 25, "", "", False, False)),
        ("smtp://mail.example.org", ("mail.example.org", 25, "", "", False, False)),
        ("smtp+tls://me%40x:p%2Fw@mail.example.org", ("mail.example.org", 587, "me@x", "p/w", True, False)),
        ("smtps://mail.example.org:4650", ("mail.example.org", 4650, "", "", False, True)),
    ],
)
def test_a_mail_server_is_named_with_how_it_is_spoken_to(url: str, found: tuple[object, ...]) -> None:
    assert mail_server(url) == found


@pytest.mark.parametrize("url", ["", "mail.example.org:25", "http://mail.example.org", "smtp://", "smtp://mail:99999"])
def test_any_other_mail_server_stops_the_start(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="RECOVERY_MAIL_URL must be like"):
        mail_server(url)


GIVEN = ProviderSettings(kind="http", url="https://judge.example:8443/v1", timeout_s=30)


def test_a_diagnostic_service_is_one_on_a_host_that_is_named() -> None:
    assert provider(GIVEN, hosts=["judge.example"], lease_s=90) is GIVEN
    assert provider(ProviderSettings(kind="", url=""), hosts=[], lease_s=90) is None


@pytest.mark.parametrize(
    ("given", "hosts", "said"),
    [
        (replace(GIVEN, kind="gpt"), ["judge.example"], "none of http, nvrx"),
        (GIVEN, [], "RECOVERY_PROVIDER_HOSTS"),
        (GIVEN, ["example"], "RECOVERY_PROVIDER_HOSTS"),
        (replace(GIVEN, url="ftp://judge.example"), ["judge.example"], "RECOVERY_PROVIDER_URL"),
        (replace(GIVEN, url="http://me:word@judge.example"), ["judge.example"], "RECOVERY_PROVIDER_URL"),
        (replace(GIVEN, url=""), [], "RECOVERY_PROVIDER_URL"),
        (replace(GIVEN, timeout_s=31), ["judge.example"], "a third of RECOVERY_LEASE_S, 30"),
    ],
)
def test_any_other_diagnostic_service_stops_the_start(given: ProviderSettings, hosts: list[str], said: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=said):
        provider(given, hosts=hosts, lease_s=90)
