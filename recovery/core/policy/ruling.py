"""How far the product may go: the rule that decides, and what lowers it.

Whatever a rule says, only a requeue (with or without an exclusion), the release of a job that Slurm holds after a
failed launch, and an extension of the time limit go without a person; other actions never do (recovery/core/plans/).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

from recovery.core import budget
from recovery.core.plans import RULES
from recovery.core.policy.check import APPROVER_ROLES
from recovery.core.policy.document import (
    Approval,
    Budget,
    Escalate,
    Freeze,
    OnExpiry,
    approval_of,
    budget_of,
    escalate_of,
    expires_after,
    freezes_of,
    limits_of,
)
from recovery.core.policy.match import PassedOver, Question, Traits, deciding_rule, name_of, without_labels
from recovery.core.types import ActionKind, Diagnosis, FailureClass, Mode, PastFailure, Proposal, Restart

ASK_ONE = Approval()
_ORDER = {mode: place for place, mode in enumerate(Mode)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Acted:
    """One automatic action of the last 24 hours on the whole cluster."""

    at: datetime
    rule: str
    interrupted: bool  # it ended a job that ran


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """What the product has done and sees on the whole cluster, now."""

    actions_last_hour: int
    excluded_nodes: int  # distinct nodes that our exclusions and drains hold
    total_nodes: int
    failures_in_window: int  # incidents of other runs that began within the fleet window, this one included
    paused: bool
    paused_reason: str
    acted: tuple[Acted, ...] = ()
    interrupts: bool = False  # whether the job in question still runs


@dataclass(frozen=True, kw_only=True, slots=True)
class Ruling:
    """`reason` is shown: which rule, and what lowered it. `not_before`: an automatic action waits until then."""

    mode: Mode
    rule: str  # name of the rule that decided, or DEFAULT
    reason: str
    passed_over: tuple[PassedOver, ...] = ()
    approval: Approval = ASK_ONE
    expires_after: timedelta = timedelta(hours=12)
    on_expiry: OnExpiry = OnExpiry.WATCH
    escalate: Escalate | None = None
    freeze: Freeze | None = None
    shadow: bool = False  # it would have gone by itself; the rule is in shadow, so a person is asked
    not_before: datetime | None = None
    tripped: str = ""  # why the breaker lowered it; "" where it did not


@dataclass(frozen=True, kw_only=True, slots=True)
class _Case:
    """All that lowers a mode: one question with its surroundings."""

    rule: Mapping[str, Any]
    diagnosis: Diagnosis
    proposal: Proposal
    history: Sequence[PastFailure]
    load: Load
    budget: Budget
    failed_step: int | None
    log_interval: int | None
    now: datetime


def rule_on(
    rules: Mapping[str, Any],
    *,
    diagnosis: Diagnosis,
    proposal: Proposal,
    comment_mode: Mode | None,
    comment_max_restarts: int | None,
    history: Sequence[PastFailure],
    load: Load,
    failed_step: int | None,
    now: datetime,
    log_interval: int | None = None,
    traits: Traits | None = None,
) -> Ruling:
    """How far the product may go with `proposal`. `rules` must have passed check_rules.

    A job's comment can ask for less, never for more. Nothing here can raise the mode.
    """
    question = Question(
        traits=traits or Traits(), failure_class=diagnosis.failure_class, confidence=diagnosis.confidence, at=now
    )
    rule, passed = rule_for(rules, question)
    ruling = Ruling(
        mode=Mode(rule["mode"]), rule=name_of(rule), reason=_said(rule, diagnosis.failure_class), passed_over=passed,
        approval=approval_of(rule), expires_after=expires_after(rules, rule), escalate=escalate_of(rule),
        on_expiry=OnExpiry(rule.get("on_expiry", OnExpiry.WATCH)),
        freeze=frozen_by(rules, cluster=question.traits.cluster, now=now),
    )  # fmt: skip
    if proposal.action is ActionKind.NOTHING:
        return replace(ruling, mode=Mode.OBSERVE, reason=f"{ruling.reason}; nothing is proposed.")
    if comment_mode is not None and lower(comment_mode, ruling.mode) is not ruling.mode:
        said = f"{ruling.reason}; the job's comment asks for {comment_mode} only"
        ruling = replace(ruling, mode=comment_mode, reason=said)
    if ruling.mode is not Mode.AUTO:
        return replace(ruling, reason=f"{ruling.reason}.")
    allowed = budget_of(rule)
    if comment_max_restarts is not None:
        allowed = replace(allowed, max_restarts=min(allowed.max_restarts, max(0, comment_max_restarts)))
    case = _Case(
        rule=rule, diagnosis=diagnosis, proposal=proposal, history=history, load=load, budget=allowed,
        failed_step=failed_step, log_interval=log_interval, now=now,
    )  # fmt: skip
    return _automatic(ruling, case, breaker=rules["breaker"])


def _automatic(ruling: Ruling, case: _Case, *, breaker: Mapping[str, Any]) -> Ruling:
    """The ruling of an automatic rule: what makes it ask a person after all, or wait."""
    why, tripped = _spent(case) or _not_automatic(case) or _frozen(ruling.freeze) or _paused(case.load), ""
    if not why:
        why = tripped = _breaker(breaker, case)
    if why := why or _over(case):
        said = f"{ruling.reason}; a person must approve: {why}"
        return replace(ruling, mode=Mode.APPROVE, reason=said, tripped=tripped)
    if case.rule.get("shadow"):
        said = f"{ruling.reason}, in shadow: it would go by itself now, and a person is asked."
        return replace(ruling, mode=Mode.APPROVE, shadow=True, reason=said)
    ready = budget.ready_at(case.history, backoff=case.budget.backoff)
    if ready is not None and ready > case.now and _restarts(case.proposal):
        said = f"{ruling.reason}, not before {ready:%H:%M:%S} UTC: restarts of one run keep their distance."
        return replace(ruling, not_before=ready, reason=said)
    return replace(ruling, reason=f"{ruling.reason}.")


def rule_for(rules: Mapping[str, Any], question: Question) -> tuple[Mapping[str, Any], tuple[PassedOver, ...]]:
    """The rule that decides. One that is matched by labels of the comment decides only where it goes less far."""
    found, passed = deciding_rule(rules, question)
    if not question.traits.labels:
        return found, passed
    plain, passed_plain = deciding_rule(rules, without_labels(question))
    if found != plain and _ORDER[Mode(found["mode"])] < _ORDER[Mode(plain["mode"])]:
        return found, passed
    return plain, passed_plain


def lower(one: Mode, other: Mode) -> Mode:
    """The mode that goes less far."""
    return min(one, other, key=_ORDER.__getitem__)


def frozen_by(rules: Mapping[str, Any], *, cluster: str, now: datetime) -> Freeze | None:
    """The freeze that holds for that cluster at this moment; of several the one that takes the most to override."""
    holding = [
        freeze
        for freeze in freezes_of(rules)
        if freeze.begins <= now < freeze.ends and any(fnmatchcase(cluster, name) for name in freeze.clusters)
    ]
    return max(holding, key=lambda freeze: (APPROVER_ROLES.index(freeze.override), freeze.ends), default=None)


def _said(rule: Mapping[str, Any], failure_class: FailureClass) -> str:
    if "name" in rule:
        return f"Rule {rule['name']} says {rule['mode']} for {failure_class}"
    return f"No rule matches {failure_class}; the default is {rule['mode']}"


# --- what lowers auto, each as a sentence; "" where nothing does -----------------------------------------------------


def _spent(case: _Case) -> str:
    return budget.stop_reason(
        case.history,
        failed_step=case.failed_step,
        max_restarts=case.budget.max_restarts,
        now=case.now,
        log_interval=case.log_interval,
    ) or budget.class_spent(
        case.history, case.diagnosis.failure_class, most=case.budget.per_class, window=case.budget.window, now=case.now
    )


def _restarts(proposal: Proposal) -> bool:
    return proposal.action in (ActionKind.REQUEUE, ActionKind.REQUEUE_EXCLUDING)


def _not_automatic(case: _Case) -> str:
    """Why this very proposal is no automatic one, whatever the rule says."""
    proposal, diagnosis = case.proposal, case.diagnosis
    if not RULES[proposal.action].automatic:
        return f"{proposal.action.replace('_', ' ')} always needs one."
    allowed = case.rule.get("actions")
    if allowed is not None and proposal.action not in allowed:
        return f"the rule lets {_listed(allowed)} go by itself, not {proposal.action.replace('_', ' ')}."
    if diagnosis.failure_class is FailureClass.UNKNOWN:
        return "the cause is unknown."
    if proposal.action is ActionKind.EXTEND_TIME_LIMIT:
        return ""  # nothing is restarted by it
    if proposal.action is ActionKind.RELEASE:
        again = any(past.acted and past.failure_class is diagnosis.failure_class for past in case.history)
        return "it could not be launched before, either." if again else ""
    if diagnosis.restart not in (Restart.YES, Restart.ONCE):
        return f"the diagnosis says restart {diagnosis.restart}."
    if proposal.restore_step is None:
        return "no complete checkpoint is known, the job would start from scratch."
    return ""


def _listed(actions: Sequence[str]) -> str:
    return " and ".join(action.replace("_", " ") for action in actions) or "nothing"


def _frozen(freeze: Freeze | None) -> str:
    return f"{freeze.name} is a freeze until {freeze.ends:%Y-%m-%d %H:%M} UTC." if freeze else ""


def _paused(load: Load) -> str:
    if not load.paused:
        return ""
    return f"automation is paused ({load.paused_reason})." if load.paused_reason else "automation is paused."


def _breaker(breaker: Mapping[str, Any], case: _Case) -> str:
    """Why the blast radius stops it."""
    load = case.load
    if load.failures_in_window >= breaker["fleet_failures"]:
        return (
            f"{load.failures_in_window} failures within {breaker['fleet_window_s']:g} s look like an incident of "
            "the fabric or the storage, not of each job."
        )
    if load.actions_last_hour >= breaker["max_actions_per_hour"]:
        return f"{load.actions_last_hour} actions in the last hour, {breaker['max_actions_per_hour']} are allowed."
    return _exclusion_cap(breaker, len(case.proposal.exclude_nodes), load)


def _exclusion_cap(breaker: Mapping[str, Any], new: int, load: Load) -> str:
    if not new:
        return ""
    after = load.excluded_nodes + new
    if after > breaker["max_excluded_nodes"]:
        return f"{after} nodes would be excluded, {breaker['max_excluded_nodes']} are allowed."
    if load.total_nodes <= 0 or 100 * after / load.total_nodes > breaker["max_excluded_percent"]:
        return (
            f"{after} of {load.total_nodes} nodes would be excluded, "
            f"{breaker['max_excluded_percent']:g} percent are allowed."
        )
    return ""


def room_for_exclusions(breaker: Mapping[str, Any], *, excluded: int, total: int) -> int:
    """How many more nodes may be excluded before a cap is reached, of `total` of which `excluded` already are."""
    by_percent = int(breaker["max_excluded_percent"] * total / 100)
    return max(0, min(int(breaker["max_excluded_nodes"]), by_percent) - excluded)


def _over(case: _Case) -> str:
    """Which limit of the rule itself is reached."""
    limits, load = limits_of(case.rule), case.load
    nodes = len(case.proposal.exclude_nodes)
    if limits.max_nodes is not None and nodes > limits.max_nodes:
        return f"{nodes} nodes would be excluded at once, the rule allows {limits.max_nodes}."
    recent = [acted for acted in load.acted if acted.rule == name_of(case.rule) and case.now - acted.at < limits.window]
    span = f"within {limits.window.total_seconds():g} s"
    if limits.max_actions is not None and len(recent) >= limits.max_actions:
        return f"the rule has acted {len(recent)} times {span}, {limits.max_actions} are allowed."
    ended = sum(acted.interrupted for acted in recent)
    if load.interrupts and limits.max_interrupted is not None and ended >= limits.max_interrupted:
        return f"the rule has ended {ended} running jobs {span}, {limits.max_interrupted} are allowed."
    return ""
