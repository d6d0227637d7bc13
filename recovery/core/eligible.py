"""On which nodes could the scheduler start a job? Known, or not known with the reason: nothing is guessed.

An exclusion rests on this count, so a doubt always leads to fewer nodes or to "not known", never to more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from recovery.core.speech import listed
from recovery.core.types import NodeState

LONGEST_CONSTRAINT = 300  # what the tables hold: a longer one may be cut


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """What a job asks of its nodes; texts as it was submitted: "a,b" for partitions, "h100&(ib|roce)" for features."""

    partition: str = ""  # "": the default one
    features: str = ""
    reservation: str = ""
    required_nodes: tuple[str, ...] = ()
    excluded_nodes: tuple[str, ...] = ()
    time_limit_s: float | None = None  # None: unlimited


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeOffer:
    name: str
    state: NodeState
    features: tuple[str, ...] = ()  # those active now


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionOffer:
    name: str
    up: bool
    nodes: tuple[str, ...]
    default: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ReservationOffer:
    name: str
    nodes: tuple[str, ...]
    starts_at: datetime
    ends_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Eligible:
    """`nodes` is None where it is not known; `reason` says why, or why there are none."""

    nodes: tuple[str, ...] | None
    reason: str = ""


class _NotKnown(Exception):
    """Carries the reason, in words."""


def eligible(
    job: Needs,
    nodes: Sequence[NodeOffer],
    partitions: Sequence[PartitionOffer],
    reservations: Sequence[ReservationOffer],
    now: datetime,
) -> Eligible:
    """The nodes on which the job could start, in the order of `nodes`.

    They are in a partition of the job's that takes jobs, up and not drained, have its features, are not excluded, and
    no reservation of others begins on them before the job would end. Only its own reservation's, where it names one.
    """
    try:
        inside = _of_partitions(job, partitions)
        allowed = _of_reservation(job, reservations, now)
        suits = _constraint(job.features)
    except _NotKnown as why:
        return Eligible(nodes=None, reason=str(why))
    if not inside:
        return Eligible(nodes=(), reason=f"Partition {job.partition or '(default)'} takes no jobs now.")
    taken = _reserved_for_others(job, reservations, now)
    found = tuple(
        node.name
        for node in nodes
        if node.name in inside
        and node.state is NodeState.UP
        and node.name not in job.excluded_nodes
        and node.name not in taken
        and (allowed is None or node.name in allowed)
        and suits(frozenset(node.features))
    )
    lacking = [name for name in job.required_nodes if name not in found]
    if lacking:
        return Eligible(nodes=(), reason=f"The job was submitted for {listed(lacking)} by name, which can't take it.")
    return Eligible(nodes=found)


def _of_partitions(job: Needs, partitions: Sequence[PartitionOffer]) -> frozenset[str]:
    by_name = {partition.name: partition for partition in partitions}
    default = next((partition.name for partition in partitions if partition.default), "")
    names = [name for name in job.partition.split(",") if name] or [default]
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise _NotKnown(f"The nodes of partition {unknown[0] or '(default)'} are not known.")
    return frozenset(node for name in names if by_name[name].up for node in by_name[name].nodes)


# --- reservations -----------------------------------------------------------------------------------------------------


def _of_reservation(job: Needs, reservations: Sequence[ReservationOffer], now: datetime) -> frozenset[str] | None:
    """The nodes of the job's own reservation; None where it names none."""
    if not job.reservation:
        return None
    named = job.reservation.split(",")
    own = [reservation for reservation in reservations if reservation.name in named]
    if len(own) < len(named):
        raise _NotKnown(f"Reservation {job.reservation} of the job is not known.")
    return frozenset(node for reservation in own if reservation.ends_at > now for node in reservation.nodes)


def _reserved_for_others(job: Needs, reservations: Sequence[ReservationOffer], now: datetime) -> frozenset[str]:
    """Slurm starts no job on a node where a reservation (maintenance is one) begins before the job must have ended."""
    own = job.reservation.split(",")
    until = None if job.time_limit_s is None else now + timedelta(seconds=job.time_limit_s)
    return frozenset(
        node
        for reservation in reservations
        if reservation.name not in own and reservation.ends_at > now
        if until is None or reservation.starts_at < until
        for node in reservation.nodes
    )


# --- features ---------------------------------------------------------------------------------------------------------

Suits = Callable[[frozenset[str]], bool]

_TOKEN = re.compile(r"[()&|]|[A-Za-z0-9_.:=/-]+")
_DEEPEST = 10


def _constraint(text: str) -> Suits:
    """Whether a set of features satisfies `text`. Counts (*), brackets, commas and XOR are not understood."""
    if not text:
        return lambda features: True
    tokens = _TOKEN.findall(text)
    if len(text) >= LONGEST_CONSTRAINT or "".join(tokens) != text.replace(" ", ""):
        raise _not_understood(text)
    suits = _group(tokens, text, depth=0)
    if tokens:
        raise _not_understood(text)
    return suits


def _group(tokens: list[str], text: str, *, depth: int) -> Suits:
    """One level of parentheses, taken off `tokens`. Slurm gives no precedence, so & and | in one level are a doubt."""
    parts = [_operand(tokens, text, depth=depth)]
    operators = set()
    while tokens and tokens[0] in "&|":
        operators.add(tokens.pop(0))
        parts.append(_operand(tokens, text, depth=depth))
    if len(operators) > 1:
        raise _not_understood(text)
    combine = any if operators == {"|"} else all
    return lambda features: combine(part(features) for part in parts)


def _operand(tokens: list[str], text: str, *, depth: int) -> Suits:
    word = tokens.pop(0) if tokens else ""
    if word == "(" and depth < _DEEPEST:
        inner = _group(tokens, text, depth=depth + 1)
        if not tokens or tokens.pop(0) != ")":
            raise _not_understood(text)
        return inner
    if word in ("", "(", ")", "&", "|"):
        raise _not_understood(text)
    return lambda features: word in features


def _not_understood(text: str) -> _NotKnown:
    return _NotKnown(f"Which nodes satisfy the constraint {text[:100]} is not known.")
