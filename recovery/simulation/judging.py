"""Whether a scenario came out as expected: every difference in one sentence."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import fields

from recovery.simulation.scenario import Expectation, ExpectedIncident, ExpectedJob, ExpectedOutbreak
from recovery.simulation.telling import IncidentResult, JobResult, Story


def differences(expect: Expectation, story: Story) -> list[str]:
    """[] where the expectation held. A look of the desk that failed is always a difference."""
    found = [f"the desk failed: {failure}" for failure in story.failures]
    found += _refusals(expect, story)
    found += _incidents(expect, story)
    for job in expect.jobs:
        found += _job(job, story)
    found += _outbreaks(expect, story)
    if expect.suspects is not None and set(expect.suspects) != set(story.suspects):
        found.append(f"suspects: {_said(expect.suspects)} expected, {_said(story.suspects)} seen")
    if expect.actions is not None and expect.actions != story.actions:
        found.append(f"actions: {expect.actions} expected, {story.actions} done")
    return found


def _refusals(expect: Expectation, story: Story) -> list[str]:
    wanted = {job.name for job in expect.jobs if job.refused}
    found = [f"job {r.job}: not accepted: {r.reason}" for r in story.refusals if r.job not in wanted]
    there = {refusal.job for refusal in story.refusals}
    return found + [f"job {name}: a refusal was expected; it was accepted" for name in sorted(wanted - there)]


def _incidents(expect: Expectation, story: Story) -> list[str]:
    """Those of each run side by side, in the order of their detection."""
    wanted: dict[str, list[ExpectedIncident]] = defaultdict(list)
    there: dict[str, list[IncidentResult]] = defaultdict(list)
    for expected in expect.incidents:
        wanted[expected.run].append(expected)
    for incident in story.incidents:
        there[incident.run].append(incident)
    found = []
    for run in [*wanted, *(run for run in there if run not in wanted)]:
        if len(wanted[run]) != len(there[run]):
            seen = ", ".join(f"{i.failure_class or i.kind} ({i.state})" for i in there[run]) or "none"
            found.append(f"incidents of {run}: {len(wanted[run])} expected, {len(there[run])} seen: {seen}")
        for number, (expected, incident) in enumerate(zip(wanted[run], there[run], strict=False)):
            found += _incident(expected, incident, f"incident {number + 1} of {run}")
    return found


def _incident(expected: ExpectedIncident, incident: IncidentResult, where: str) -> list[str]:
    found = []
    for name in (field.name for field in fields(ExpectedIncident)):
        wanted, there = getattr(expected, name), getattr(incident, name)
        if name in ("run", "alarm", "danger") or wanted is None or wanted == there:
            continue
        shown = "class" if name == "failure_class" else name
        found.append(f"{where}: {shown}: {_said(wanted)} expected, {_said(there)} seen")
    for name in ("alarm", "danger"):
        part, text = getattr(expected, name), getattr(incident, name)
        if part not in text:
            found.append(f"{where}: {name}: {part!r} expected in {text!r}")
    return found


def _outbreaks(expect: Expectation, story: Story) -> list[str]:
    if len(expect.outbreaks) != len(story.outbreaks):
        seen = "; ".join(outbreak.headline for outbreak in story.outbreaks) or "none"
        return [f"outbreaks: {len(expect.outbreaks)} expected, {len(story.outbreaks)} seen: {seen}"]
    return [
        f"outbreak {number}: {name}: {_said(wanted)} expected, {_said(there)} seen"
        for number, (expected, outbreak) in enumerate(zip(expect.outbreaks, story.outbreaks, strict=True), start=1)
        for name in (field.name for field in fields(ExpectedOutbreak))
        if (wanted := getattr(expected, name)) is not None and wanted != (there := getattr(outbreak, name))
    ]


def _job(expected: ExpectedJob, story: Story) -> list[str]:
    if expected.refused:
        return []
    named = [j for j in story.jobs if j.name == expected.name and expected.job_id in ("", j.job_id)]
    if not named:
        return [f"job {expected.name}: there is none"]
    return [difference for job in named for difference in _one_job(expected, job)]


def _one_job(expected: ExpectedJob, job: JobResult) -> list[str]:
    where = f"job {job.name} ({job.job_id})"
    found = []
    for name in ("state", "requeues", "shown", "blind"):
        wanted, there = getattr(expected, name), getattr(job, name)
        if wanted is not None and wanted != there:
            found.append(f"{where}: {name}: {_said(wanted)} expected, {_said(there)} seen")
    if on := sorted(set(expected.not_on) & set(job.nodes)):
        found.append(f"{where}: it runs on {', '.join(on)}")
    return found


def _said(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value) if value not in ("", None) else "none"
