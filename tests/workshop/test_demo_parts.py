"""What the demo starts with, and that it stays apart from everything else on the machine."""

from __future__ import annotations

import json
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User

from recovery.access import Permission, actor_for
from recovery.core.policy import check_rules
from recovery.core.types import FailureClass
from recovery.demo import environment, seed
from recovery.demo.console import Console
from recovery.demo.scenes import Stage
from recovery.models import Cluster, PolicyVersion

NOW = datetime(2026, 1, 11, 9, 20, tzinfo=UTC)


def test_a_shell_gets_the_settings_of_the_demo_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOVERY_DATA_DIR", "/a folder/it's")
    monkeypatch.setenv(environment.MARK, "/a folder")
    monkeypatch.setenv("OTHER", "x")
    path = environment.for_a_shell(tmp_path, broker_url="redis+socket://x")
    script = f". {path}; echo $RECOVERY_DATA_DIR; echo $REDIS_URL; echo none $OTHER${environment.MARK}"
    told = subprocess.run(["/bin/sh", "-c", script], env={}, capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == ["/a folder/it's", "redis+socket://x", "none"]


@pytest.mark.django_db
def test_a_second_start_keeps_the_passwords(tmp_path: Path) -> None:
    store = tmp_path / "accounts.json"
    first = seed.accounts(store)
    assert list(first) == ["viewer", "operator", "approver", "admin"]
    assert seed.accounts(store) == first
    assert authenticate(username="approver", password=first["approver"])


@pytest.mark.django_db
def test_passwords_are_random_and_their_owners_alone_may_read_them(tmp_path: Path) -> None:
    passwords = seed.accounts(tmp_path / "accounts.json")
    assert len(set(passwords.values())) == 4
    assert all(len(password) >= 14 for password in passwords.values())
    assert stat.S_IMODE((tmp_path / "accounts.json").stat().st_mode) == 0o600
    assert json.loads((tmp_path / "accounts.json").read_text()) == passwords


@pytest.mark.django_db
@pytest.mark.parametrize("text", ["", "[1]", "{"])
def test_a_broken_store_is_written_anew(tmp_path: Path, text: str) -> None:
    store = tmp_path / "accounts.json"
    store.write_text(text)
    passwords = seed.accounts(store)
    assert json.loads(store.read_text()) == passwords


@pytest.mark.django_db
def test_each_account_has_the_role_that_it_is_named_after(tmp_path: Path) -> None:
    seed.accounts(tmp_path / "accounts.json")
    may_decide = {user.username for user in User.objects.all() if actor_for(user).can(Permission.DECIDE)}
    assert may_decide == {"approver", "admin"}


def test_the_policy_of_the_demo_is_a_good_one_and_knows_every_class_it_names() -> None:
    assert check_rules(seed.DEMO_RULES) == []
    named = [name for rule in seed.DEMO_RULES["rules"] for name in rule["classes"]]
    assert set(named) <= set(FailureClass)
    assert len(named) == len(set(named))


@pytest.mark.django_db
def test_a_policy_that_somebody_wrote_is_kept(tmp_path: Path) -> None:
    seed.accounts(tmp_path / "accounts.json")
    first = seed.policy(NOW)
    assert first.author == "admin"
    assert seed.policy(NOW + timedelta(days=1)) == first
    assert PolicyVersion.objects.count() == 1


@pytest.mark.django_db
def test_the_cluster_is_made_once_and_looked_at_at_once(tmp_path: Path) -> None:
    stage = Stage(name="sim", backend="simulator", options={"state_dir": str(tmp_path)})
    cluster = seed.cluster(stage, now=NOW, poll_interval_s=2)
    Cluster.objects.filter(pk=cluster.pk).update(seen_at=NOW, leased_until=NOW + timedelta(hours=1))
    seed.end_leases()
    again = seed.cluster(stage, now=NOW + timedelta(minutes=1), poll_interval_s=2)
    assert again.pk == cluster.pk
    assert again.seen_at == NOW
    assert list(Cluster.due(NOW + timedelta(minutes=1))) == [again]


def test_a_production_database_in_the_environment_never_reaches_the_demo(tmp_path: Path) -> None:
    inherited = {
        "DATABASE_URL": "postgres://prod/x",
        "REDIS_URL_FILE": "/run/secrets/redis",
        "RECOVERY_DEBUG": "false",
        "HOME": "/home/me",
    }
    made = environment.environment(tmp_path / "demo", inherited)
    assert made["HOME"] == "/home/me"
    assert not {"DATABASE_URL", "REDIS_URL_FILE", "RECOVERY_DEBUG"} & set(made)
    assert made["RECOVERY_DATA_DIR"] == str(tmp_path / "demo")


def test_the_demo_has_a_secret_key_of_its_own_and_keeps_it(tmp_path: Path) -> None:
    key = Path(environment.environment(tmp_path, {})["RECOVERY_SECRET_KEY_FILE"])
    first = key.read_text()
    assert len(first) >= 50
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    environment.environment(tmp_path, {})
    assert key.read_text() == first


def test_a_step_says_what_was_done_and_a_failed_one_that_it_was_not() -> None:
    out = StringIO()
    console = Console(out)
    with console.step("database") as found:
        found.append("3 tables")
    with pytest.raises(ValueError, match="no"), console.step("cluster"):
        raise ValueError("no")
    done, failed = out.getvalue().splitlines()
    assert done.startswith("  ✓ database, 3 tables (")
    assert failed.startswith("  ✕ cluster (")


def test_the_box_holds_its_longest_line() -> None:
    out = StringIO()
    Console(out).box(["short", "the longest of these lines"])
    assert len({len(line) for line in out.getvalue().splitlines()}) == 1
