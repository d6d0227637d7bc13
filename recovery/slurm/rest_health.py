"""What is known of a cluster through its slurmrestd: its controller, and what we may do there."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from recovery.slurm import json_values as values
from recovery.slurm import rest_json, rest_versions
from recovery.slurm.base import Health, Operation, Rights, RightsLevel, SlurmError
from recovery.slurm.json_values import BadAnswer
from recovery.slurm.rest_door import RestDoor
from recovery.slurm.rest_http import Request, path_of

DEFAULT_REQUEUE_DELAY_S = 121.0  # Slurm's default cred_expire plus 1; only v0.0.45 tells the site's own


def health(door: RestDoor) -> Health:
    request = Request(method="GET", path=door.path("diag"))
    started = time.monotonic()
    diag = door.read(request)
    latency_s = time.monotonic() - started
    return door.parsed(lambda: _health(door, diag, latency_s), tried=str(request))


def _health(door: RestDoor, diag: Mapping[str, Any], latency_s: float) -> Health:
    release, cluster = rest_json.release_and_cluster(diag)
    statistics = diag.get("statistics")
    if not release or not isinstance(statistics, dict):
        raise BadAnswer("it names no release or has no statistics")
    conf = _configuration(door)
    expire = re.search(r"cred_expire=(\d{1,6})", values.text(conf, "AuthInfo"))
    age, flags = values.number(conf, "MinJobAge"), conf.get("AccountingStoreFlags")
    return Health(
        release=release,
        accounting=_keeps_accounts(door),
        requeue_delay_s=int(expire[1]) + 1.0 if expire else DEFAULT_REQUEUE_DELAY_S,
        latency_s=latency_s,
        min_job_age_s=None if age is None else float(age),
        store_flags=tuple(str(flag) for flag in flags) if isinstance(flags, list) else (),
        controller_time=values.time(statistics, "req_time"),
        cluster_name=cluster,
    )


def _configuration(door: RestDoor) -> Mapping[str, Any]:
    """slurmctld's configuration, which v0.0.45 is the first to give; {} before."""
    if not rest_versions.is_at_least(door.version(), "v0.0.45"):
        return {}
    conf = door.read(Request(method="GET", path=door.path("conf"))).get("slurm_conf")
    return conf if isinstance(conf, dict) else {}


def _keeps_accounts(door: RestDoor) -> bool:
    """Whether slurmdbd answers through this slurmrestd, and attempts can be had of it."""
    if Operation.ATTEMPTS not in rest_versions.operations(door.version()):
        return False
    try:
        # Not its statistics, which are for operators: anybody may ask for a user.
        user = Request(method="GET", path=path_of("slurmdb", door.version(), "user", door.me() or "root"))
        rest_json.whole(door.send(user), ignore=frozenset({rest_json.NOTHING_FOUND}))
    except SlurmError:  # not loaded, or no database behind it: the controller has answered all the same
        return False
    return True


def rights(door: RestDoor) -> Rights:
    """By accounting's word on our user; root needs none."""
    user = door.me()
    if user == "root":
        return Rights(user=user, level=RightsLevel.FULL, how="root may do everything")
    try:
        answer = door.send(Request(method="GET", path=path_of("slurmdb", door.version(), "user", user)))
        data = rest_json.whole(answer, ignore=frozenset({rest_json.NOTHING_FOUND}))
        users = rest_json.entries(data, "users")
        level = [word for entry in users for word in values.words(entry, "administrator_level")]
    except (SlurmError, BadAnswer) as error:
        return Rights(user=user, level=RightsLevel.UNKNOWN, how=f"accounting gave no word on {user} ({error})")
    known = {"ADMINISTRATOR": RightsLevel.FULL, "OPERATOR": RightsLevel.OPERATOR}
    found = next((known[word] for word in level if word in known), RightsLevel.OWN)
    return Rights(user=user, level=found, how=f"accounting: AdminLevel {', '.join(level) or 'None'}")
