"""What Slurm lets our user do: told by who slurmctld runs as, and by the user's admin level in accounting."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from recovery.slurm.base import Rights, RightsLevel, SlurmError
from recovery.slurm.cli_scontrol import slurm_user
from recovery.slurm.names import check_word

# sacctmgr(1), AdminLevel
_LEVELS = {"Administrator": RightsLevel.FULL, "Operator": RightsLevel.OPERATOR, "None": RightsLevel.OWN}


def question(user: str) -> tuple[str, ...]:
    check_word(user, kind="user", tried="ask for our rights")
    return ("sacctmgr", "--noheader", "--parsable2", "show", "user", user, "format=AdminLevel")


def rights_of(user: str, settings: Mapping[str, str], *, ask: Callable[[], str]) -> Rights:
    """`ask` gives sacctmgr's answer to the question."""
    if user in ("root", slurm_user(settings)):
        return Rights(user=user, level=RightsLevel.FULL, how=f"{user} is root or the user that slurmctld runs as")
    if not settings.get("AccountingStorageType", "").endswith("slurmdbd"):
        how = "without accounting only root and the user that slurmctld runs as have rights over others"
        return Rights(user=user, level=RightsLevel.OWN, how=how)
    try:
        words = ask().split()
    except SlurmError as error:
        return Rights(user=user, level=RightsLevel.UNKNOWN, how=f"accounting does not tell: {error}")
    if not words:
        return Rights(user=user, level=RightsLevel.OWN, how=f"accounting knows no user {user}")
    level = _LEVELS.get(words[0], RightsLevel.UNKNOWN) if len(set(words)) == 1 else RightsLevel.UNKNOWN
    return Rights(user=user, level=level, how=f"accounting gives {user} the admin level {words[0][:50]}")
