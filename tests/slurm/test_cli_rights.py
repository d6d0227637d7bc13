from __future__ import annotations

import pytest

from recovery.slurm import cli_rights
from recovery.slurm.base import RightsLevel, SlurmUnreachable

ACCOUNTED = {"SlurmUser": "slurm(64030)", "AccountingStorageType": "accounting_storage/slurmdbd"}


@pytest.mark.parametrize(
    ("user", "answer", "level"),
    [
        ("root", "", RightsLevel.FULL),
        ("slurm", "", RightsLevel.FULL),
        ("desk", "Administrator\n", RightsLevel.FULL),
        ("desk", "Operator\n", RightsLevel.OPERATOR),
        ("desk", "None\n", RightsLevel.OWN),
        ("desk", "", RightsLevel.OWN),  # accounting knows no such user
        ("desk", "Emperor\n", RightsLevel.UNKNOWN),
        ("desk", "None\nOperator\n", RightsLevel.UNKNOWN),
    ],
)
def test_rights_follow_from_who_we_are_and_what_accounting_says(user: str, answer: str, level: RightsLevel) -> None:
    rights = cli_rights.rights_of(user, ACCOUNTED, ask=lambda: answer)
    assert (rights.user, rights.level) == (user, level)
    assert user in rights.how


def test_rights_that_accounting_does_not_tell_are_unknown() -> None:
    def ask() -> str:
        raise SlurmUnreachable("Connection refused", tried="sacctmgr show user desk")

    rights = cli_rights.rights_of("desk", ACCOUNTED, ask=ask)
    assert rights.level is RightsLevel.UNKNOWN
    assert "Connection refused" in rights.how


def test_without_accounting_others_have_only_their_own_jobs() -> None:
    settings = {"SlurmUser": "slurm(64030)", "AccountingStorageType": "accounting_storage/none"}
    assert cli_rights.rights_of("desk", settings, ask=lambda: "Operator").level is RightsLevel.OWN
