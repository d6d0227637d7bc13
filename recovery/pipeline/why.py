"""Beside the path: which rule of the policy would decide about a job, and why not the ones before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from recovery.core.policy import PassedOver, Question, Traits, rule_for
from recovery.core.policy.match import name_of
from recovery.core.types import FailureClass, Mode
from recovery.models import Job
from recovery.pipeline.ruling import traits_of_job


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """For one class: the rule that decides (or the default), and those passed over before it."""

    failure_class: FailureClass
    rule: str
    mode: Mode
    shadow: bool
    passed_over: tuple[PassedOver, ...]


def why(rules: Mapping[str, Any], question: Question) -> Answer:
    rule, passed = rule_for(rules, question)
    return Answer(
        failure_class=question.failure_class, rule=name_of(rule), mode=Mode(rule["mode"]),
        shadow=bool(rule.get("shadow")), passed_over=passed,
    )  # fmt: skip


def why_each(rules: Mapping[str, Any], question: Question) -> list[Answer]:
    """The answer for every failure class."""
    return [why(rules, replace(question, failure_class=each)) for each in FailureClass]


def traits_of_newest(job: Job) -> Traits:
    """What rules can match of a job as it ran last."""
    attempt = job.attempts.order_by("-number").first()
    return traits_of_job(job, cluster=job.cluster.name, attempt=attempt)
