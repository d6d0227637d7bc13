"""What to do where Slurm, accounting or our rights don't let us: by what was tried and what it said."""

from __future__ import annotations

import shlex

from recovery.models import Cluster
from recovery.slurm.base import Rights, SlurmError

GUIDE = "docs/privileges.md"
CONTROLLER = "Is slurmctld running (`scontrol ping`)?"
SLURMDBD = (
    "Is slurmdbd running, and does the machine that asks reach it (AccountingStorageHost in slurm.conf)? "
    "slurmdbd's own log says more."
)
# What to look at where a back end gets no answer.
BACK_ENDS = {
    "cli": f"{CONTROLLER} Check that this machine has the cluster's Slurm commands, slurm.conf and munge key, "
    "and reaches it.",
    "rest": f"{CONTROLLER} Check that slurmrestd runs at the address in its options, and the token: "
    "docs/slurmrestd.md.",
    "native": f"{CONTROLLER} Check that pyslurm matches the cluster's release, and slurm.conf and munge: "
    "docs/pyslurm.md.",
    "simulator": "Start the simulator, and check the cluster's option state_dir.",
}
_ACTS = "the commands: "  # recovery/slurm/registry.py: so begin the errors of each half (option acts_by)
_READS = "slurmrestd: "
_DIFFERENT = "speak of different clusters"  # recovery/slurm/together.py
_NOT_ASKED = "read the token"  # recovery/slurm/rest_auth.py
# What httpx says of TLS spoken to a plain port, and of plain HTTP to a TLS port.
_MIXED = {"https": "WRONG_VERSION_NUMBER", "http": "disconnected without sending a response"}
_NO_SLURMDBD = "failed to open slurmdb connection"  # 23.02, to each call in v0.0.39
_PREFIX_SILENT = ("the connection failed", "no answer within", "it did not end within")


def unreachable(cluster: Cluster, error: SlurmError) -> str:
    """For a cluster that gives no answer: which half, which machine, which option."""
    if _DIFFERENT in error.message:
        return (
            "Let both halves lead to the same cluster: url (and the token's user) is slurmrestd's, "
            "slurm_conf, bin_dir and prefix are those of the commands."
        )
    tried = error.tried.removeprefix(_ACTS).removeprefix(_READS)
    prefix = shlex.split(cluster.options.get("prefix", ""))
    if prefix and tried.startswith(shlex.join(prefix)):
        return _by_prefix(prefix, error)
    if cluster.backend == "rest":
        return _by_rest(cluster, tried, error)
    return BACK_ENDS.get(cluster.backend, "")


def _by_rest(cluster: Cluster, tried: str, error: SlurmError) -> str:
    if error.tried.startswith(_ACTS):
        return f"This is the half that acts (option acts_by), slurmrestd is not meant. {BACK_ENDS['cli']}"
    if "scontrol token" in tried:
        return f"slurmrestd's token is made by that command: give token_file instead, or mend it. {BACK_ENDS['cli']}"
    if tried == _NOT_ASKED:
        return "slurmrestd was not asked. How the token is made and renewed: docs/slurmrestd.md."
    if _NO_SLURMDBD in error.message:
        return (
            "slurmrestd of Slurm 23.02 gives nothing without slurmdbd (API v0.0.39), nor for a wrong token. "
            f"{SLURMDBD} Where there is none, let it load openapi/v0.0.38 alone: docs/slurmrestd.md."
        )
    ours = cluster.options.get("url", "").partition(":")[0]
    if ours in _MIXED and _MIXED[ours] in error.message:
        other = "http" if ours == "https" else "https"
        return f"The option url says {ours}: does that port speak {other}? If not: {BACK_ENDS['rest']}"
    return BACK_ENDS["rest"]


def _by_prefix(prefix: list[str], error: SlurmError) -> str:
    if "can't be started" in error.message:
        return (
            f"The option prefix begins with {prefix[0]}: install that program on this machine, or correct the option."
        )
    words = shlex.join(prefix)
    if any(said in error.message for said in _PREFIX_SILENT):
        return (
            f"See that `{words} true` ends at once as the worker's user, without a question, and that on the far "
            f"machine bin_dir and slurm_conf are right and the controller is reached (`{words} scontrol ping`)."
        )
    return (
        f"Look on the far machine, where the prefix leads (`{words} scontrol ping`): is slurmctld running, and are "
        "Slurm's commands (bin_dir), slurm.conf and munge key there?"
    )


def become(level: str, rights: Rights) -> str:
    """The line that gives our user this level. Accounting knows a new user not at all, and `modify` needs one."""
    user = rights.user or "USER"
    add = f"`sacctmgr add user {user} account=root adminlevel={level}`"
    modify = f"`sacctmgr modify user {user} set adminlevel={level}`"
    if "knows no user" in rights.how:  # recovery/slurm/cli_rights.py
        line = add
    elif "gives" in rights.how:
        line = modify
    else:
        line = f"{modify}, or {add} where accounting doesn't know the user yet"
    return f"{line}; {GUIDE} says what that allows."
