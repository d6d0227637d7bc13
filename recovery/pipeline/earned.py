"""Beside the path: what each rule of the policy has earned. Promotion is proposed, demotion is done at once.

Looked at whenever a case is closed, for the rules that judged its run.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from recovery import audit
from recovery.access import EVERYTHING, SYSTEM, Actor, Permission, require
from recovery.core.lifecycle import ActionState
from recovery.core.policy import Promote, promote_of, rule_named
from recovery.core.score import Decided, Move, Scorecard, demotion, promotion, scorecards
from recovery.core.types import DecisionKind, FailureClass, Mode, Outcome, Rejection
from recovery.models import Action, Decision, Incident, PolicyVersion, Promotion, Recommendation
from recovery.pipeline.invalid import Invalid, needs_reason
from recovery.pipeline.policy_versions import add_version
from recovery.pipeline.transition import LostRace
from recovery.selectors import current_policy

MOST = 2000  # decisions that a look takes in, the newest: more make no interval narrower that matters
RACES = 3  # so often a demotion is tried against others who save versions at the same moment
SHAPE = ("name", "classes", "match", "mode", "shadow", "actions")  # what a rule matches and does; a change starts anew


def review(incident: Incident, *, now: datetime) -> None:
    """Look at the rules that judged the incident's run."""
    policy = current_policy()
    if policy is None:
        return
    judged = Recommendation.objects.filter(incident__run=incident.run_id).exclude(rule="")
    for name in judged.order_by("rule").values_list("rule", flat=True).distinct():
        rule = rule_named(policy.rules, name)
        if rule is not None and "name" in rule:
            _review_rule(rule, policy, now=now)


def _review_rule(rule: dict[str, Any], policy: PolicyVersion, *, now: datetime) -> None:
    goes_alone = rule["mode"] == Mode.AUTO and not rule.get("shadow")
    bar = promote_of(rule)
    if not goes_alone and bar is None:
        return
    rows = decided(since=_unchanged_since(rule, policy), rule=rule["name"])
    verdict = demotion(rows, bar or Promote()) if goes_alone else promotion(rows, bar or Promote())
    if verdict.move is Move.DEMOTE:
        _demote(rule, policy, verdict.reason, verdict.figures, now=now)
    elif verdict.move is Move.PROMOTE and not _asked_before(rule["name"], len(rows), bar or Promote()):
        _propose(rule, policy, verdict.reason, verdict.figures | {"rows": len(rows)}, now=now)


def _unchanged_since(rule: dict[str, Any], policy: PolicyVersion) -> datetime:
    """When the rule became what it is; what it did before that is another rule's record."""
    since = policy.created_at
    for version in PolicyVersion.objects.filter(number__lt=policy.number).order_by("-number").iterator():
        before = rule_named(version.rules, rule["name"])
        if before is None or any(before.get(key) != rule.get(key) for key in SHAPE):
            break
        since = version.created_at
    return since


def _asked_before(name: str, rows: int, bar: Promote) -> bool:
    """Whether a proposal is open, or was rejected with not yet as many decisions since as the bar asks for."""
    last = Promotion.objects.filter(rule=name).first()
    if last is None:
        return False
    return last.decided_at is None or rows < last.figures.get("rows", 0) + bar.decided


def _propose(
    rule: dict[str, Any], policy: PolicyVersion, reason: str, figures: dict[str, float], *, now: datetime
) -> None:
    try:
        with transaction.atomic():
            row = Promotion.objects.create(
                rule=rule["name"], policy=policy, reason=reason[:300], figures=figures, proposed_at=now
            )
            audit.record(
                "promotion.proposed", actor=SYSTEM, at=now, subject_kind="promotion", subject_id=row.pk,
                reason=f"{rule['name']}: {reason}",
            )  # fmt: skip
    except IntegrityError:
        return  # another worker proposed it in this moment


def _demote(
    rule: dict[str, Any], policy: PolicyVersion, reason: str, figures: dict[str, float], *, now: datetime
) -> None:
    """Every case of the rule is asked about from now on: a new version says so."""
    said = f"{rule['name']} asks again: {reason}"
    for _ in range(RACES):
        rules = with_mode(policy.rules, rule["name"], Mode.APPROVE)
        try:
            add_version(
                rules, base=policy.number, reason=said, actor=SYSTEM, now=now, verb="policy.demoted",
                rule=rule["name"], figures=figures,
            )  # fmt: skip
        except Invalid:  # somebody saved a version in this moment: the demotion goes on top of it
            policy = PolicyVersion.objects.latest("number")
            now_says = rule_named(policy.rules, rule["name"])
            if now_says is None or now_says["mode"] != Mode.AUTO:
                return  # that one says so already
        else:
            return
    raise LostRace(f"Rule {rule['name']} could not be demoted: versions are saved all the time.")


def with_mode(rules: dict[str, Any], name: str, mode: Mode) -> dict[str, Any]:
    """The document with one rule in another mode, and out of shadow."""
    changed = copy.deepcopy(rules)
    for rule in changed["rules"]:
        if rule["name"] == name:
            rule["mode"] = str(mode)
            rule.pop("shadow", None)
    return changed


# --- people ----------------------------------------------------------------------------------------------------------
def accept(promotion_id: int, *, reason: str, actor: Actor, now: datetime) -> PolicyVersion:
    """Let the rule go by itself: a new version. Raises Forbidden, Invalid or Promotion.DoesNotExist."""
    require(actor, Permission.POLICY_EDIT, EVERYTHING)
    with transaction.atomic():
        row = _open(promotion_id, reason)
        held = current_policy()
        rule = rule_named(held.rules, row.rule) if held else None
        was = rule_named(row.policy.rules, row.rule)
        if held is None or rule is None or was is None or any(rule.get(key) != was.get(key) for key in SHAPE):
            raise Invalid([f"Rule {row.rule} was changed since: its figures are those of another rule. Reject this."])
        rules = with_mode(held.rules, row.rule, Mode.AUTO)
        said = f"{row.rule} goes by itself: {reason.strip()}"
        made = add_version(
            rules, base=held.number, reason=said, actor=actor, now=now, verb="policy.promoted", rule=row.rule
        )
        _end(row, actor=actor, reason=reason, now=now, made=made)
    return made


def reject(promotion_id: int, *, reason: str, actor: Actor, now: datetime) -> Promotion:
    """Leave the rule as it is, until as many decisions more as its bar asks for were made. Raises as `accept` does."""
    require(actor, Permission.POLICY_EDIT, EVERYTHING)
    with transaction.atomic():
        row = _open(promotion_id, reason)
        _end(row, actor=actor, reason=reason, now=now, made=None)
        audit.record(
            "promotion.rejected", actor=actor, at=now, subject_kind="promotion", subject_id=row.pk, reason=reason
        )
    return row


def _open(promotion_id: int, reason: str) -> Promotion:
    row = Promotion.objects.select_for_update().select_related("policy").get(pk=promotion_id)
    needs_reason(reason)
    if row.decided_at is not None:
        raise Invalid([f"{row.decided_by} decided on it already."])
    return row


def _end(row: Promotion, *, actor: Actor, reason: str, now: datetime, made: PolicyVersion | None) -> None:
    row.decided_at, row.decided_by, row.decision_reason, row.made = now, actor.name, reason.strip()[:300], made
    row.save(update_fields=["decided_at", "decided_by", "decision_reason", "made"])


# --- what was recorded -----------------------------------------------------------------------------------------------
def cards(*, since: datetime, only: QuerySet[Any, Any] | None = None) -> list[Scorecard]:
    """The scorecards of all rules over a window. `only`: keys of the incidents that count; None: all."""
    return scorecards(decided(since=since, only=only))


def decided(*, since: datetime, rule: str | None = None, only: QuerySet[Any, Any] | None = None) -> list[Decided]:
    """Decisions since then, of one rule or of all, oldest first, with what came of them. Three queries.

    Of what the product itself recommended: a person's own proposal says nothing of a rule.
    """
    rows = Decision.objects.filter(at__gte=since, recommendation__proposed_by="")
    if rule is not None:
        rows = rows.filter(recommendation__rule=rule)
    if only is not None:
        rows = rows.filter(recommendation__incident__in=only)
    found = list(rows.select_related("recommendation__incident").order_by("-at", "-pk")[:MOST])
    incidents = {row.recommendation.incident_id for row in found}
    acted = _last_acted(incidents)
    undone = _undone(acted.values())
    return [_as_decided(row, acted, undone) for row in reversed(found)]


def _last_acted(incidents: Iterable[int]) -> dict[int, int]:
    """By recommendation: its action, where it is the last of its incident that the scheduler was called for."""
    rows = Action.objects.filter(incident__in=incidents).exclude(called_at=None).order_by("called_at", "pk")
    last = {incident: (recommendation, pk) for incident, recommendation, pk in
            rows.values_list("incident_id", "recommendation_id", "pk")}  # fmt: skip
    return dict(last.values())


def _undone(actions: Iterable[int]) -> set[int]:
    """Those of the actions that a later one has undone."""
    later = Action.objects.filter(state=ActionState.CONVERGED, parameters__has_key="undoes")
    return set(later.values_list("parameters__undoes", flat=True)) & set(actions)


def _as_decided(row: Decision, acted: dict[int, int], undone: set[int]) -> Decided:
    asked, incident = row.recommendation, row.recommendation.incident
    action = acted.get(asked.pk)
    return Decided(
        incident=incident.pk, at=row.at, rule=asked.rule,
        failure_class=FailureClass(incident.failure_class or FailureClass.UNKNOWN), kind=DecisionKind(row.kind),
        rejection=Rejection(row.rejection) if row.rejection else None, amended=row.kind == DecisionKind.AMEND,
        as_automatic=asked.shadow, acted=action is not None, undone=action in undone,
        outcome=Outcome(incident.outcome) if incident.outcome else None,
        waited=max(row.at - asked.created_at, timedelta(0)), gpus=asked.gpus_idle,
    )  # fmt: skip


def open_promotions() -> Sequence[Promotion]:
    return list(Promotion.objects.filter(decided_at=None).select_related("policy"))
