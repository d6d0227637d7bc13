"""What slurmrestd answers: whether it worked, and its entries in our words.

An error can stand in a 200, in an array's list of results, or be a bare text with a status. A refusal is only what
Slurm's own error number calls one; everything else that went wrong is no answer, and after a write of unknown effect.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from recovery.slurm import json_values as values
from recovery.slurm.base import (
    JobNotFound,
    PartitionRecord,
    ReservationRecord,
    SlurmError,
    SlurmRefused,
    SlurmUnreachable,
)
from recovery.slurm.json_values import BadAnswer
from recovery.slurm.rest_http import HttpAnswer

JSON = "application/json"

# Numbers of slurm_errno.h, the same in 22.05 and 26.05.
UNKNOWN_JOB = 2017
NOTHING_FOUND = 9003  # of accounting: an empty list, which newer releases give without an error
_NO_SLURMDBD = 7000
_NO_AUTHENTICATION = 1007  # a token that is wrong or has ended (26.05; 22.05 has no word for it)
_REFUSED_FOR_NOW = 2020  # "Job can not be altered now, try again later"
_REFUSALS = frozenset(
    {
        *(2002, 2010),  # not permitted: "Access/permission denied", "Invalid user id"
        *(2018, 2028, 2180),  # no such node, not from its state to this one
        *(2021, 2084),  # ended already
        *(2024, 2073, 2085, 2086),  # pending, not pending, not running
        *(2037, 2039, 2107, 2108),  # requeue disabled, not a batch job, not the leader or not all of a het job
        *(
            2050,
            2051,
            2105,
            2127,
            2166,
        ),  # accounting policy, time limit, submissions disabled, no environment, no such user
    }
)

_NOT_ACCEPTED = (
    "the token or the user name was refused: see that the token is that user's own, has not ended, and was made with "
    "slurmctld's JWT key"
)


class NoSuchCall(SlurmUnreachable):
    """slurmrestd has nothing at this path: another version than thought, or a part of it that isn't loaded."""


class TokenRefused(SlurmRefused):
    """slurmrestd or slurmctld does not accept who we say that we are."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trouble:
    """One thing that slurmrestd complains about. `number` is Slurm's own, None where it gives none."""

    number: int | None
    words: str


def check_access(answer: HttpAnswer) -> None:
    """Raises TokenRefused and NoSuchCall, which slurmrestd tells by a status before anything is looked at."""
    if answer.status == 511 or (answer.status == 401 and answer.content_type != JSON):
        raise TokenRefused(_NOT_ACCEPTED, tried=answer.tried, permanent=True)
    if answer.status in (404, 405) and answer.content_type != JSON:
        words = " ".join(values.clean(answer.body[:1000].decode(errors="replace")).split())[:200]
        raise NoSuchCall(f"slurmrestd has no such call ({words})", tried=answer.tried)


def check_slurmrestd(answer: HttpAnswer) -> None:
    """Raises SlurmUnreachable where something else answers. Its controller may be down."""
    if not _mapping(_object(answer), "meta"):
        raise SlurmUnreachable("it is no slurmrestd that answers there", tried=answer.tried, permanent=True)


def lacks_slurmdbd(answer: HttpAnswer) -> bool:
    """Whether it fails because slurmrestd does not reach slurmdbd: in 23.02's v0.0.39 every call does then."""
    if answer.status != 500 or answer.content_type != JSON:
        return False
    return any(trouble.number == _NO_SLURMDBD for trouble in _troubles(_object(answer)))


def whole(answer: HttpAnswer, *, ignore: frozenset[int] = frozenset()) -> dict[str, Any]:
    """The JSON object of an answer without errors; SlurmError otherwise. `ignore`: numbers that are none here."""
    data = _object(answer)
    found = list(_troubles(data))
    troubles = [trouble for trouble in found if trouble.number not in ignore]
    if troubles:
        raise _error(troubles, answer)
    if not found and not 200 <= answer.status < 300:
        raise SlurmUnreachable(f"it answers with status {answer.status} and no word", tried=answer.tried)
    return data


def check_write(answer: HttpAnswer) -> dict[str, Any]:
    """As `whole`, for a write: every part of it must have been understood and done.

    SlurmUnreachable where it was done for some tasks of an array only; SlurmRefused where slurmrestd did not know what
    was asked of it ("Ignoring unknown field" comes as a warning in an answer that says all is well).
    """
    data = whole(answer)
    _check_understood(data, answer)
    parts = list(_parts(data))
    failed = [part for part in parts if part.number]
    if failed and len(failed) < len(parts):
        message = f"done for a part of the array only: {failed[0].words}"
        raise SlurmUnreachable(message, tried=answer.tried)
    if failed:
        raise _error(failed, answer)
    return data


def _check_understood(data: Mapping[str, Any], answer: HttpAnswer) -> None:
    misread = [words for source, words in _warnings(data) if source.startswith("#/")]
    if misread:
        raise SlurmRefused(f"slurmrestd did not understand it: {misread[0]}", tried=answer.tried, permanent=True)


def entries(data: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """The list of objects under `key`. Raises BadAnswer."""
    found = data.get(key)
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise BadAnswer(f"it has no list of {key}")
    return found


def release_and_cluster(data: Mapping[str, Any]) -> tuple[str, str]:
    """("26.05.5", "lab") of any answer; "" for what it doesn't say (22.05 names no cluster). Raises BadAnswer."""
    meta = _mapping(data, "meta")
    slurm = _mapping(meta, "slurm") or _mapping(meta, "Slurm")
    return values.text(slurm, "release"), values.text(slurm, "cluster")


def says_unchanged(data: Mapping[str, Any]) -> bool:
    """Whether a list of jobs is empty only because none has changed since the date that was asked with (23.02)."""
    return any(words.startswith("No job changes since") for _, words in _warnings(data))


def partition_record(entry: Mapping[str, Any]) -> PartitionRecord:
    """One partition in the newest version's shape. Raises BadAnswer."""
    name = values.text(entry, "name")
    states = values.words(_mapping(entry, "partition"), "state")
    if not name or not states:
        raise BadAnswer(f"a partition has no usable name or state ({values.clean(str(entry))[:200]})")
    limit = values.number(_mapping(entry, "maximums"), "time")
    return PartitionRecord(
        name=name,
        up=states == ["UP"],
        nodes=values.nodes(_mapping(entry, "nodes"), "configured"),
        default="DEFAULT" in values.words(entry, "flags"),
        time_limit_s=None if limit is None else limit * 60.0,
    )


def reservation_record(entry: Mapping[str, Any]) -> ReservationRecord:
    """One reservation. Raises BadAnswer."""
    name, starts, ends = values.text(entry, "name"), values.time(entry, "start_time"), values.time(entry, "end_time")
    if not name or starts is None or ends is None:
        raise BadAnswer(f"a reservation has no usable name or time ({values.clean(str(entry))[:200]})")
    return ReservationRecord(
        name=name,
        nodes=values.nodes(entry, "node_list"),
        starts_at=starts,
        ends_at=ends,
        users=_names(entry, "users"),
        accounts=_names(entry, "accounts"),
        maintenance="MAINT" in values.words(entry, "flags"),
    )


def _names(entry: Mapping[str, Any], key: str) -> tuple[str, ...]:
    return tuple(name for name in values.text(entry, key).split(",") if name)


# --- errors ----------------------------------------------------------------------------------------------------------


def _object(answer: HttpAnswer) -> dict[str, Any]:
    """Bare texts have a status of their own; a page of a proxy or of another program is no answer."""
    text = answer.body.decode(errors="replace")
    if answer.content_type != JSON:
        words = " ".join(values.clean(text[:1000]).split())[:200]
        message = f"status {answer.status} and {answer.content_type or 'no type'} instead of JSON: {words}"
        raise SlurmUnreachable(message, tried=answer.tried)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SlurmUnreachable(f"the answer is no whole JSON document ({error})", tried=answer.tried) from error
    if not isinstance(data, dict):
        raise SlurmUnreachable("the answer is not a JSON object", tried=answer.tried)
    return data


def _error(troubles: list[Trouble], answer: HttpAnswer) -> SlurmError:
    """By Slurm's own number, never by the status: a controller that is down is a 403 to a cancel in 26.05."""
    numbers = {trouble.number for trouble in troubles}
    message = "; ".join(dict.fromkeys(trouble.words for trouble in troubles))[:500]
    if _NO_AUTHENTICATION in numbers:
        return TokenRefused(f"{_NOT_ACCEPTED} ({message})", tried=answer.tried, permanent=True)
    if UNKNOWN_JOB in numbers:
        return JobNotFound(message, tried=answer.tried, permanent=True)
    if numbers & _REFUSALS:
        return SlurmRefused(message, tried=answer.tried, permanent=True)
    if _REFUSED_FOR_NOW in numbers:
        return SlurmRefused(message, tried=answer.tried)
    return SlurmUnreachable(message, tried=answer.tried)


def _troubles(data: Mapping[str, Any]) -> Iterator[Trouble]:
    errors = data.get("errors") or []
    for entry in errors if isinstance(errors, list) else [errors]:
        fields = entry if isinstance(entry, dict) else {"error": str(entry)}
        number = next((fields[key] for key in ("error_number", "error_code", "errno") if key in fields), None)
        words = [str(fields[key]) for key in ("description", "error") if fields.get(key)]
        text = values.clean("; ".join(dict.fromkeys(words)))[:300] or "an error without words"
        yield Trouble(number=number if isinstance(number, int) else None, words=text)


def _parts(data: Mapping[str, Any]) -> Iterator[Trouble]:
    """What became of each task of an array: "results" of an update, "status" of a cancel and of a requeue."""
    for key in ("results", "status"):
        found = data.get(key)
        for part in found if isinstance(found, list) else []:
            fields = part if isinstance(part, dict) else {}
            inner = fields.get("error")
            number = inner.get("code") if isinstance(inner, dict) else fields.get("error_code")
            words = inner.get("string") if isinstance(inner, dict) else inner
            # Not to be read is not to be trusted: a part without a number counts as failed.
            code = number if isinstance(number, int) and not isinstance(number, bool) else -1
            yield Trouble(number=code, words=values.clean(str(words or "an error without words"))[:300])


def _warnings(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    found = data.get("warnings")
    for entry in found if isinstance(found, list) else []:
        if isinstance(entry, dict):
            yield str(entry.get("source") or ""), values.clean(str(entry.get("description") or ""))[:300]


def _mapping(entry: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = entry.get(key)
    return value if isinstance(value, dict) else {}
