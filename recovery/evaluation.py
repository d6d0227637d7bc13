"""Verdicts on log files alone, and the score of verdicts on labelled cases. No database, no scheduler.

A case is a folder with the job's log files (*.log, *.out, *.err) and a case.toml; docs/diagnose.md has the shape.
"""

from __future__ import annotations

import json
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recovery.core.detectors import Limits, detect
from recovery.core.diagnose import diagnose, healthy, speaks_of_failure
from recovery.core.types import AttemptFacts, Diagnosis, Exclude, FailureClass, Finding, FindingKind, JobState, Restart
from recovery.offline.facts import facts_of
from recovery.offline.logs import TextLog, log_files
from recovery.offline.record import JobRecordError, OfflineJob

CASE_FILE = "case.toml"
MEGABYTE = 1_000_000  # bytes
_ORDER = {failure_class: number for number, failure_class in enumerate(FailureClass)}


class CaseError(ValueError):
    """A case can't be read; the message names the file and the field."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """What a case's label accepts. The first of each is the label, the others are also right."""

    classes: tuple[FailureClass, ...]
    restarts: tuple[Restart, ...]
    excludes: tuple[Exclude, ...]
    nodes: frozenset[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    name: str  # its folder, relative to the folder that is scored
    title: str
    job: OfflineJob
    logs: tuple[Path, ...]
    expected: Expected


@dataclass(kw_only=True)
class Score:
    """The outcome over many cases; `as_json` is what `manage.py evaluate --json` prints."""

    cases: int = 0
    classes_right: int = 0
    restarts_right: int = 0
    excludes_right: int = 0
    wrongful_restarts: list[str] = field(default_factory=list)
    wrongful_exclusions: list[str] = field(default_factory=list)
    wrong: list[dict[str, Any]] = field(default_factory=list)
    confusion: Counter[tuple[str, str]] = field(default_factory=Counter)  # (label, got); what is also right as label
    log_bytes: int = 0
    seconds: float = 0.0  # that reading the logs and judging took

    def add(self, case: Case, got: Diagnosis) -> None:
        expected = case.expected
        right_class = got.failure_class in expected.classes
        right_restart = got.restart in expected.restarts
        right_exclude = got.exclude in expected.excludes and (
            got.exclude is not Exclude.NODES or set(got.nodes) == expected.nodes
        )
        self.cases += 1
        self.classes_right += right_class
        self.restarts_right += right_restart
        self.excludes_right += right_exclude
        if is_wrongful_restart(expected, got):
            self.wrongful_restarts.append(case.name)
        if is_wrongful_exclusion(expected, got):
            self.wrongful_exclusions.append(case.name)
        label = expected.classes[0]
        self.confusion[label, label if right_class else got.failure_class] += 1
        if not (right_class and right_restart and right_exclude):
            self.wrong.append({"case": case.name, "expected": _expected_json(expected), "got": _got_json(got)})

    def as_json(self) -> dict[str, Any]:
        share = max(1, self.cases)
        return {
            "cases": self.cases,
            "class_accuracy": round(self.classes_right / share, 4),
            "restart_accuracy": round(self.restarts_right / share, 4),
            "exclude_accuracy": round(self.excludes_right / share, 4),
            "wrongful_restarts": self.wrongful_restarts,
            "wrongful_exclusions": self.wrongful_exclusions,
            "wrong": self.wrong,
            "confusion": self.table(),
            "megabytes": round(self.log_bytes / MEGABYTE, 3),
            "seconds_per_megabyte": round(self.seconds * MEGABYTE / max(1, self.log_bytes), 3),
        }

    def table(self) -> dict[str, dict[str, int]]:
        """Label → verdict → number of cases, in the order of the classes; pairs that never came up are left out."""
        rows: dict[str, dict[str, int]] = {}
        for label, got in sorted(self.confusion, key=lambda pair: [_ORDER[FailureClass(word)] for word in pair]):
            rows.setdefault(str(label), {})[str(got)] = self.confusion[label, got]
        return rows


def is_wrongful_restart(expected: Expected, got: Diagnosis) -> bool:
    """`yes` where the label says `no` or `after_change`, or any restart of a job that a person cancelled."""
    if FailureClass.EXTERNAL_CANCEL in expected.classes[:1] and got.restart in (Restart.YES, Restart.ONCE):
        return True
    may = set(expected.restarts) & {Restart.YES, Restart.ONCE}
    return got.restart is Restart.YES and not may


def is_wrongful_exclusion(expected: Expected, got: Diagnosis) -> bool:
    """`nodes` where the label expects none, or a node that is not expected."""
    return got.exclude is Exclude.NODES and (
        Exclude.NODES not in expected.excludes or not set(got.nodes) <= expected.nodes
    )


def _expected_json(expected: Expected) -> dict[str, Any]:
    return {
        "class": list(expected.classes),
        "restart": list(expected.restarts),
        "exclude": list(expected.excludes),
        "nodes": sorted(expected.nodes),
    }


def _got_json(got: Diagnosis) -> dict[str, Any]:
    return {
        "class": got.failure_class,
        "restart": got.restart,
        "exclude": got.exclude,
        "nodes": list(got.nodes),
        "confidence": got.confidence,
        "reason": got.reason,
    }


# --- judging ----------------------------------------------------------------------------------------------------------


def verdict_on(job: OfflineJob, logs: Sequence[Path | TextLog], limits: Limits) -> Diagnosis:
    """The verdict on a job's log files and what else is known of it, by the same core as the product's.

    Raises OSError where a log can't be read.
    """
    facts = facts_of(job, logs, limits)
    findings = detect(facts, limits)
    if not findings and facts.state is JobState.UNKNOWN and speaks_of_failure(facts):
        findings = [_told_by_log(facts)]
    return diagnose(facts, findings[0]) if findings else healthy(facts)


def _told_by_log(facts: AttemptFacts) -> Finding:
    """Without a scheduler's record nothing says that the job ended but its log."""
    text = "No record of the job was given; its log speaks of a failure."
    return Finding(kind=FindingKind.CRASH, since=facts.now, reason=text, confidence=0.7)


def evaluate(folder: Path, limits: Limits) -> Score:
    """Score every case below `folder`. Raises CaseError, OSError."""
    score = Score()
    for case in cases_below(folder):
        begun = time.perf_counter()
        verdict = verdict_on(case.job, case.logs, limits)
        score.seconds += time.perf_counter() - begun
        score.log_bytes += sum(log.stat().st_size for log in case.logs)
        score.add(case, verdict)
    return score


def verdict_json(got: Diagnosis) -> dict[str, Any]:
    """The verdict in the shape that DESIGN fixes for `manage.py diagnose --json`."""
    first = got.first_failure
    return {
        "class": got.failure_class,
        "restart": got.restart,
        "exclude": {"verdict": got.exclude, "nodes": list(got.nodes)},
        "confidence": got.confidence,
        "first_failure": first
        and {
            "time": first.at.isoformat() if first.at else None,
            "file": first.source,
            "line": first.line,
            "rank": first.rank,
            "node": first.node or None,
        },
        "evidence": [
            {"file": e.source, "line": e.line, "text": e.text, "rule": e.rule, "role": e.role} for e in got.evidence
        ],
        "reason": got.reason,
        "coverage": got.coverage,
    }


# --- reading cases ----------------------------------------------------------------------------------------------------


def cases_below(folder: Path) -> Iterator[Case]:
    """Every case below `folder`, by name. Raises CaseError for a wrong one, and where there is none at all."""
    found = False
    for file in sorted(folder.rglob(CASE_FILE)):
        found = True
        yield read_case(file.parent, name=str(file.parent.relative_to(folder)))
    if not found:
        raise CaseError(f"{folder}: no {CASE_FILE} below this folder.")


def read_case(folder: Path, *, name: str) -> Case:
    """One case. Raises CaseError."""
    file = folder / CASE_FILE
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        job = OfflineJob.read(
            table.get("job", {}), node_events=table.get("node_event", []), checkpoints=table.get("checkpoint", [])
        )
        expected = _expected(table.get("expect", {}))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, JobRecordError, ValueError) as error:
        raise CaseError(f"{file}: {error}") from None
    logs = log_files([folder])
    return Case(name=name, title=str(table.get("title", "")), job=job, logs=tuple(logs), expected=expected)


def _expected(table: Mapping[str, Any]) -> Expected:
    if not isinstance(table, dict) or not {"class", "restart", "exclude"} <= set(table):
        raise ValueError("[expect] needs class, restart and exclude")
    nodes = table.get("nodes", [])
    if not isinstance(nodes, list) or not all(isinstance(n, str) for n in nodes):
        raise ValueError("expect.nodes must be a list of names")
    return Expected(
        classes=tuple(FailureClass(word) for word in (table["class"], *table.get("or_class", []))),
        restarts=tuple(Restart(word) for word in (table["restart"], *table.get("or_restart", []))),
        excludes=tuple(Exclude(word) for word in (table["exclude"], *table.get("or_exclude", []))),
        nodes=frozenset(nodes),
    )


def read_job_file(path: Path) -> OfflineJob:
    """The file of `manage.py diagnose --job`: the fields of a case's [job], with node_events and checkpoints as lists.

    Raises CaseError, OSError.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(data, dict):
            raise JobRecordError("must be a JSON object")
        events, checkpoints = data.pop("node_events", []), data.pop("checkpoints", [])
        return OfflineJob.read(data.get("job", data), node_events=events, checkpoints=checkpoints)
    except (ValueError, UnicodeDecodeError) as error:
        raise CaseError(f"{path}: {error}") from None
