"""What scontrol says as text: configuration, partitions, reservations, topology, and the nodes of a job that is ending.

All but the last is written by administrators; in a job's record users write, so of that only the part behind the job's
name, which is known, and before anything else of theirs is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from recovery.slurm import hostlist
from recovery.slurm.base import Health, PartitionRecord, ReservationRecord
from recovery.slurm.cli_squeue import Row
from recovery.slurm.json_values import BadAnswer, clean, time_of

DEFAULT_CRED_EXPIRE_S = 120  # slurm.conf(5), AuthInfo
NO_JOBS = "No jobs in the system"
NO_TOPOLOGY = "No topology information available"  # 22.05; later releases say nothing
_NO_RESERVATIONS = "No reservations in the system"

_CONFIG = re.compile(r"^(\w+)\s*= ?(.*)$", re.MULTILINE)
_AS_OF = re.compile(r"Configuration data as of (\S{19})$", re.MULTILINE)
_FIELD = re.compile(r"(?:^| )([A-Za-z/]+)=(\S*)")
_TIME_LIMIT = re.compile(r"(?:(\d{1,7})-)?(\d{1,2}):(\d{2}):(\d{2})")
_NOTHING = frozenset({"", "(null)", "N/A", "None", "Unknown"})
_BEHIND_NAME = re.compile(r"(   SLUID=\S*\n)?   UserId=")
_LEAVES = frozenset({"SwitchName", "BlockName", "RingName"})  # what a line of a topology begins with
_DETAIL = re.compile(r"^     Nodes=(\S+) CPU_IDs=", re.MULTILINE)


# --- configuration ---------------------------------------------------------------------------------------------------


def settings_of(answer: str) -> dict[str, str]:
    """slurm.conf as the controller has it. Raises BadAnswer where it is no whole answer."""
    found = {name: value.strip() for name, value in _CONFIG.findall(answer)}
    if not found.get("SLURM_VERSION"):
        raise BadAnswer("it names no SLURM_VERSION")
    return found


def health(answer: str, *, latency_s: float) -> Health:
    """The controller writes the answer's time itself, when it gives it."""
    settings = settings_of(answer)
    as_of = _AS_OF.search(answer)
    return Health(
        release=settings["SLURM_VERSION"],
        accounting=settings.get("AccountingStorageType", "").endswith("slurmdbd"),
        requeue_delay_s=_cred_expire_s(settings.get("AuthInfo", "")) + 1.0,
        latency_s=latency_s,
        min_job_age_s=_seconds(settings.get("MinJobAge", "")),
        store_flags=_list(settings.get("AccountingStoreFlags", "")),
        controller_time=_time(as_of[1]) if as_of else None,
        cluster_name="" if settings.get("ClusterName", "") in _NOTHING else clean(settings["ClusterName"]),
    )


def slurm_user(settings: Mapping[str, str]) -> str:
    """ "slurm(64030)" without its number; "" where it isn't told."""
    return settings.get("SlurmUser", "").partition("(")[0]


def _cred_expire_s(auth_info: str) -> int:
    """A requeued job waits until the old job's credential has expired (slurmctld's job_mgr.c)."""
    found = re.search(r"cred_expire=(\d{1,6})", auth_info)
    return int(found[1]) if found else DEFAULT_CRED_EXPIRE_S


def _seconds(text: str) -> float | None:
    found = re.fullmatch(r"(\d{1,9}) sec", text)
    return float(found[1]) if found else None


# --- partitions and reservations -------------------------------------------------------------------------------------


def partitions(answer: str) -> list[PartitionRecord]:
    """Every partition of `scontrol --oneliner --all show partition`. Raises BadAnswer, as for none at all."""
    found = [_partition(_fields(line, "PartitionName")) for line in _lines(answer)]
    if not found:
        raise BadAnswer("it names no partition")
    return found


def _partition(fields: Mapping[str, str]) -> PartitionRecord:
    missing = [key for key in ("State", "Nodes", "MaxTime") if key not in fields]
    if missing:
        raise BadAnswer(f"partition {fields['PartitionName']} has no {', '.join(missing)}")
    return PartitionRecord(
        name=fields["PartitionName"],
        up=fields["State"] == "UP",
        nodes=_nodes(fields["Nodes"]),
        default=fields.get("Default") == "YES",
        time_limit_s=_limit_s(fields["MaxTime"]),
    )


def reservations(answer: str) -> list[ReservationRecord]:
    """Every reservation of `scontrol --oneliner show reservation`. Raises BadAnswer."""
    if answer.strip() == _NO_RESERVATIONS:
        return []
    found = [_reservation(_fields(line, "ReservationName")) for line in _lines(answer)]
    if not found:
        raise BadAnswer("it neither names a reservation nor says that there is none")
    return found


def _reservation(fields: Mapping[str, str]) -> ReservationRecord:
    starts, ends = _time(fields.get("StartTime", "")), _time(fields.get("EndTime", ""))
    if starts is None or ends is None or "Nodes" not in fields:
        raise BadAnswer(f"reservation {fields['ReservationName']} has no nodes or no times")
    return ReservationRecord(
        name=fields["ReservationName"],
        nodes=_nodes(fields["Nodes"]),
        starts_at=starts,
        ends_at=ends,
        users=_list(fields.get("Users", "")),
        accounts=_list(fields.get("Accounts", "")),
        maintenance="MAINT" in _list(fields.get("Flags", "")),
    )


def topology(answer: str) -> dict[str, str]:
    """The leaf of each node in `scontrol show topology`; {} where Slurm has none. Raises BadAnswer.

    Switches above others list the nodes of all of them, and are passed over; so is what is no switch (a torus, a block
    of blocks), and what later releases may have besides. Of a node below several leaves the first one counts.
    """
    found: dict[str, str] = {}
    named = 0
    for line in _lines(answer):
        kind, equals, _ = line.strip().partition("=")
        if not equals or not kind.isalpha():
            raise BadAnswer(f"a line is no record: {line[:100]!r}")
        fields = _fields(line, kind) if kind in _LEAVES else {}
        if fields.get("Level", "0") == "0" and "Nodes" in fields:
            nodes = _nodes(fields["Nodes"])
            named += len(nodes)
            if named > hostlist.MAX_NODES:
                raise BadAnswer(f"it names more than {hostlist.MAX_NODES} nodes")
            for node in nodes:
                found.setdefault(node, fields[kind])
    return found


def _lines(answer: str) -> list[str]:
    if answer and not answer.endswith("\n"):
        raise BadAnswer("it ends in the middle of a line")
    return [line for line in clean(answer).split("\n") if line.strip()]


def _fields(line: str, first: str) -> dict[str, str]:
    """The fields of one line that begins with `first`; of a name that comes twice, the first."""
    if not line.startswith(f"{first}="):
        raise BadAnswer(f"a line does not begin with {first}: {line[:100]!r}")
    fields: dict[str, str] = {}
    for name, value in _FIELD.findall(line):
        fields.setdefault(name, value)
    if not fields.get(first):
        raise BadAnswer(f"a line has no {first}")
    return fields


# --- nodes of a job that is ending -----------------------------------------------------------------------------------


def allocated_nodes(answer: str, row: Row) -> tuple[str, ...]:
    """All nodes that the job had, out of `scontrol --details show job`; () where they can't be told for certain.

    Its name is the only text of a user before the details, and is known; behind it the record goes on in our terms, as
    long as it is still the same job.
    """
    head, found, rest = answer.partition(f"JobName={row.name}\n")
    if not found or "\n" in head or f"JobId={row.raw_id}" not in head.split() or not _BEHIND_NAME.match(rest):
        return ()
    details = rest.partition("\n   MinCPUsNode=")[0]
    try:
        return hostlist.expand(",".join(_DETAIL.findall(details)))
    except hostlist.BadHostlist:
        return ()


# --- single values ---------------------------------------------------------------------------------------------------


def _nodes(text: str) -> tuple[str, ...]:
    try:
        return hostlist.expand(text)
    except hostlist.BadHostlist as error:
        raise BadAnswer(str(error)) from error


def _list(text: str) -> tuple[str, ...]:
    return () if text in _NOTHING else tuple(part for part in text.split(",") if part)


def _time(text: str) -> datetime | None:
    return None if text in _NOTHING else time_of(text)


def _limit_s(text: str) -> float | None:
    if text == "UNLIMITED":
        return None
    match = _TIME_LIMIT.fullmatch(text)
    if match is None:
        raise BadAnswer(f"{text[:50]!r} is no time limit")
    days, hours, minutes, seconds = (int(number or 0) for number in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
