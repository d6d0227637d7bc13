"""Whatever is killed between the intent and its record, Slurm's own history shows exactly one requeue."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page

from recovery.access import actor_for
from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import Outcome
from recovery.models import Action, Decision, Event, Sample
from recovery.pipeline import decide
from recovery.pipeline.reconcile import utc_now
from tests.e2e.site import Site
from tests.e2e.test_recovery import open_case, press_approve

pytestmark = [pytest.mark.slurm, pytest.mark.accounting, pytest.mark.redis, pytest.mark.timeout(240)]

SCONTROL = """#!/bin/bash
# Slurm's scontrol, which stops for a moment around its first call of one operation.
if [ "$1" = "{operation}" ] && mkdir "{folder}/struck" 2>/dev/null; then
  {before}touch "{folder}/called"
  exec sleep 60
fi
exec {scontrol} "$@"
"""


def commands_that_stop(site: Site, *, operation: str, after: bool) -> tuple[Path, Path]:
    """A folder of Slurm's commands whose scontrol stops before or after `operation`, and the file that says so."""
    folder = site.folder / "bin"
    folder.mkdir()
    for name in ("squeue", "sinfo", "sacct"):
        (folder / name).symlink_to(shutil.which(name) or name)
    scontrol = shutil.which("scontrol") or "scontrol"
    before = f'{scontrol} "$@"\n  ' if after else ""
    script = folder / "scontrol"
    script.write_text(SCONTROL.format(operation=operation, folder=site.folder, before=before, scontrol=scontrol))
    script.chmod(0o755)
    return folder, site.folder / "called"


def approve(site: Site, user: User) -> None:
    row = site.recommendation
    decide.approve(row.pk, shown_hash=row.hash, actor=actor_for(user), now=utc_now())


# The three moments of the most to lose; the others, whose neighbours these are, by `make torture`.
@pytest.mark.parametrize(
    ("operation", "after"),
    [
        pytest.param("requeuehold", False, id="before requeuehold"),
        pytest.param("requeuehold", True, id="after requeuehold"),
        pytest.param("release", True, id="after release"),
        pytest.param("update", False, id="before update", marks=pytest.mark.torture),
        pytest.param("update", True, id="after update", marks=pytest.mark.torture),
        pytest.param("release", False, id="before release", marks=pytest.mark.torture),
    ],
)
def test_a_worker_killed_around_a_call_leaves_exactly_one_requeue(
    site: Site, approver: User, operation: str, after: bool
) -> None:
    folder, called = commands_that_stop(site, operation=operation, after=after)
    site.policy(gpu_hardware="approve")
    site.connect(bin_dir=str(folder))
    site.start("worker", "beat")
    job = site.submit(faults=["kind=ecc,step=15,rank=3,attempt=0"])
    site.wait_for(IncidentState.AWAITING_DECISION)
    approve(site, approver)
    site.wait(called.exists, what=f"scontrol {operation}")
    site.processes["worker"].kill()
    site.start("worker")
    site.wait_for(IncidentState.CLOSED, within=120)
    assert site.incident.outcome == Outcome.RECOVERED
    assert Action.objects.get().state == ActionState.CONVERGED
    assert [attempt.number for attempt in site.history(job)] == [0, 1]
    assert site.record(job).restart_count == 1
    assert Event.objects.filter(verb="action.converged").count() == 1


def tasks_begun(site: Site) -> int:
    return site.processes["worker"].log.read_text(errors="replace").count(" received")


def test_a_worker_killed_again_and_again_in_whatever_it_does_loses_and_doubles_nothing(site: Site) -> None:
    site.policy(gpu_hardware="auto")
    site.connect()
    site.start("worker", "beat")
    job = site.submit(faults=["kind=ecc,step=25,rank=3,attempt=0"])
    for _ in range(6):
        # as soon as it has taken up a few tasks: each kill strikes in the middle of some of them
        site.wait(lambda: tasks_begun(site) > 8, what="a worker at work")
        site.processes["worker"].kill()
        site.start("worker")
    site.wait_for(IncidentState.CLOSED, within=150)
    assert site.incident.outcome == Outcome.RECOVERED
    assert site.record(job).restart_count == 1
    assert len(site.history(job)) == 2
    steps = list(Sample.objects.filter(attempt__number=0).order_by("step").values_list("step", flat=True))
    assert steps == list(range(1, 25))
    moves = Event.objects.filter(subject_kind="incident").values_list("new", flat=True)
    assert list(moves).count("restoring") == list(moves).count("closed") == 1


@pytest.mark.browser
def test_a_web_server_killed_after_the_click_loses_neither_decision_nor_action(
    site: Site, approver: User, log_in: Callable[[User], Page]
) -> None:
    site.policy(gpu_hardware="approve")
    site.connect()
    site.start()
    job = site.submit(faults=["kind=ecc,step=15,rank=3,attempt=0"])
    site.wait_for(IncidentState.AWAITING_DECISION)
    site.processes["worker"].kill()  # nobody carries the intent out while the web server dies
    page = log_in(approver)
    open_case(site, page)
    press_approve(page)
    site.wait(Decision.objects.exists, what="the decision")
    site.processes["web"].kill()
    assert Action.objects.get().state == ActionState.INTENDED
    page.goto("about:blank")
    site.start("worker")
    site.wait_for(IncidentState.CLOSED, within=120)
    assert site.incident.outcome == Outcome.RECOVERED
    assert site.record(job).restart_count == 1
    assert len(site.history(job)) == 2
