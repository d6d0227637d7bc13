"""Which remedy belongs to which silence: the right half, the right machine, the right option."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from recovery.doctor import remedies
from recovery.models import Cluster
from recovery.slurm import cli_rights
from recovery.slurm.base import Health, Rights, RightsLevel, SlurmError, SlurmUnreachable
from recovery.slurm.registry import client_for
from recovery.slurm.together import Half, TogetherClient
from tests.workshop.scripted import Scripted

ACCOUNTING = {"AccountingStorageType": "accounting_storage/slurmdbd"}


def remedy(backend: str, error: SlurmError, **options: str) -> str:
    return remedies.unreachable(Cluster(name="gpu", backend=backend, options=options), error)


def caught(look: Callable[[], Health]) -> SlurmError:
    with pytest.raises(SlurmError) as error:
        look()
    return error.value


def together(acts: dict[str, str]) -> TogetherClient:
    commands = client_for("cli", acts, timeout_s=5)
    return TogetherClient(
        reads=Half(name="slurmrestd", client=Scripted()), acts=Half(name="the commands", client=commands)
    )


@pytest.mark.parametrize("backend", ["cli", "rest", "native"])
def test_a_controller_that_is_down_is_asked_for_first(backend: str) -> None:
    words = remedy(backend, SlurmUnreachable("Unspecified error", tried="ping"))
    assert words.startswith("Is slurmctld running (`scontrol ping`)?")


def test_the_half_that_acts_is_not_mended_at_slurmrestd(tmp_path: Path) -> None:
    options = {"slurm_conf": str(tmp_path / "missing.conf")}
    error = caught(together(options).health)
    words = remedy("rest", error, url="https://slurm.example:6820", acts_by="cli", **options)
    assert "the half that acts" in words
    assert "slurm.conf and munge" in words
    assert "docs/slurmrestd.md" not in words


def test_halves_of_different_clusters_lead_to_the_options() -> None:
    one, other = Scripted(), Scripted()
    other.node_table.popitem()
    client = TogetherClient(reads=Half(name="slurmrestd", client=one), acts=Half(name="the commands", client=other))
    words = remedy("rest", caught(client.health), url="https://slurm.example:6820", acts_by="cli")
    assert words.startswith("Let both halves lead to the same cluster")


def test_the_reading_half_keeps_its_own_remedy() -> None:
    error = SlurmUnreachable("Connection refused", tried="slurmrestd: GET /slurm/v0.0.38/ping")
    assert "docs/slurmrestd.md" in remedy("rest", error, url="http://slurm.example:6820", acts_by="cli")


def test_23_02s_slurmrestd_without_slurmdbd_leads_to_slurmdbd_and_to_the_token() -> None:
    """Its words to every call in v0.0.39 while slurmdbd is down, and to a wrong token."""
    message = "openapi_get_db_conn() failed to open slurmdb connection; Unable to connect to database"
    words = remedy("rest", SlurmUnreachable(message, tried="GET /slurm/v0.0.39/diag"), url="http://slurm.example:6820")
    assert all(part in words for part in ("Is slurmdbd running", "a wrong token", "openapi/v0.0.38"))


def test_a_token_that_can_not_be_made_leads_to_the_command() -> None:
    error = SlurmUnreachable("can't be started", tried="scontrol token lifespan=1800")
    assert "made by that command" in remedy("rest", error, url="http://slurm.example:6820")


def test_a_token_that_can_not_be_used_leads_to_its_making(tmp_path: Path) -> None:
    options = {"url": "http://127.0.0.1:9", "token_file": str(tmp_path / "missing")}
    words = remedy("rest", caught(client_for("rest", options, timeout_s=5).health), **options)
    assert words.startswith("slurmrestd was not asked")


@pytest.mark.parametrize(
    ("prefix", "said"),
    [
        ("no-such-program -o 'a b' login1", "install that program on this machine"),
        ("sh -c 'exit 255'", "ends at once as the worker's user"),
        ("sh -c 'exit 127'", "Look on the far machine"),
    ],
)
def test_trouble_behind_a_prefix_speaks_of_the_prefix(prefix: str, said: str) -> None:
    error = caught(client_for("cli", {"prefix": prefix}, timeout_s=5).health)
    assert said in remedy("cli", error, prefix=prefix)
    assert "this machine has" not in remedy("cli", error, prefix=prefix)


def test_a_far_machine_that_hangs_is_told_from_a_controller_that_is_down() -> None:
    error = caught(client_for("cli", {"prefix": "sh -c 'sleep 9'"}, timeout_s=0.2).health)
    assert "without a question" in remedy("cli", error, prefix="sh -c 'sleep 9'")


@pytest.mark.parametrize(
    ("url", "message", "said"),
    [
        (
            "https://a:1",
            "no whole answer ([SSL: WRONG_VERSION_NUMBER] wrong version number)",
            "does that port speak http?",
        ),
        (
            "http://a:1",
            "no whole answer (Server disconnected without sending a response.)",
            "does that port speak https?",
        ),
    ],
)
def test_http_taken_for_https_is_said_in_words(url: str, message: str, said: str) -> None:
    assert said in remedy("rest", SlurmUnreachable(message, tried="GET ping"), url=url)


@pytest.mark.parametrize(
    ("answer", "line"),
    [("", "sacctmgr add user desk account=root adminlevel=operator"), ("None\n", "sacctmgr modify user desk set")],
    ids=["unknown to accounting", "known without a level"],
)
def test_a_user_that_accounting_does_not_know_is_added_not_modified(answer: str, line: str) -> None:
    words = remedies.become("operator", cli_rights.rights_of("desk", ACCOUNTING, ask=lambda: answer))
    assert words.startswith(f"`{line}")
    assert " or `sacctmgr" not in words


def test_where_it_is_not_known_whether_accounting_knows_us_both_lines_are_given() -> None:
    rights = Rights(user="desk", level=RightsLevel.OWN, how="accounting: AdminLevel None")
    words = remedies.become("operator", rights)
    assert "sacctmgr modify user desk" in words
    assert "sacctmgr add user desk account=root" in words
