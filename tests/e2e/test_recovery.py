"""From a failure to the next checkpoint on a real Slurm, through a real browser."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from recovery.core.lifecycle import IncidentState
from recovery.core.types import ActionKind, FailureClass, JobState, Outcome
from recovery.models import Action, Decision, Incident
from tests.e2e.site import Site

pytestmark = [
    pytest.mark.slurm, pytest.mark.accounting, pytest.mark.redis, pytest.mark.browser, pytest.mark.timeout(240),
]  # fmt: skip
LogIn = Callable[[User], Page]


def open_case(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/incidents/{site.incident.pk}/")


def press_approve(page: Page) -> None:
    """Open the confirmation, which writes the effect out, and confirm."""
    page.locator("summary", has_text="Approve:").click()
    page.get_by_role("button", name="Approve:").click()


@pytest.mark.usefixtures("figures")
def test_a_rank_that_dies_of_ecc_is_recovered_on_other_nodes_after_a_click(
    site: Site, approver: User, log_in: LogIn
) -> None:
    site.policy(gpu_hardware="approve")
    site.connect()
    site.start()
    page = log_in(approver)
    job = site.submit(faults=["kind=ecc,step=25,rank=3,attempt=0"])
    site.wait_for(IncidentState.AWAITING_DECISION)
    failed_on = site.attempt.nodes
    assert site.incident.failure_class == FailureClass.GPU_HARDWARE
    assert site.recommendation.exclude_nodes == [failed_on[1]]
    assert site.recommendation.restore_step == 20
    assert site.record(job).restart_count == 0

    open_case(site, page)
    expect(page.get_by_text("uncorrectable").first).to_be_visible()
    press_approve(page)

    site.wait_for(IncidentState.CLOSED)
    assert site.incident.outcome == Outcome.RECOVERED
    assert site.incident.restored_step == 20
    assert site.incident.next_checkpoint_step == 30
    record = site.record(job)
    assert record.state is JobState.RUNNING
    assert failed_on[1] not in record.nodes
    assert len(site.history(job)) == 2
    # the page followed by itself
    expect(page.get_by_text("checkpoint 30 is complete").first).to_be_visible()


@pytest.mark.usefixtures("figures")
def test_a_node_that_loses_power_is_recovered_without_a_click(site: Site, viewer: User, log_in: LogIn) -> None:
    site.policy(node_fault="auto")
    site.connect()
    site.start()
    page = log_in(viewer)
    # without GPUs: Slurm 22.05 loses count of them when a node dies under a job that is being requeued
    job = site.submit(gpus_per_node=0)
    site.wait(lambda: site.has_reached(25), what="step 25")
    site.lab.crash_node(site.attempt.nodes[1])
    site.wait_for(IncidentState.CLOSED, within=120)
    assert site.incident.failure_class == FailureClass.NODE_FAULT
    assert site.incident.outcome == Outcome.RECOVERED
    assert site.incident.restored_step is not None
    assert site.incident.restored_step >= 20
    assert not Decision.objects.filter(kind="approve").exists()
    # Accounting may show one row for both attempts: where the node dies while the job is being put back, Slurm keeps
    # the submit time, which is accounting's key. The controller's own count can't be fooled.
    assert site.record(job).restart_count == 1
    open_case(site, page)
    expect(page.get_by_text("Recovered").first).to_be_visible()


@pytest.mark.usefixtures("figures")
def test_a_hang_of_all_ranks_is_detected_approved_and_recovered(site: Site, approver: User, log_in: LogIn) -> None:
    site.policy(hang_silent="approve", hang_collective="approve")
    site.connect()
    site.start()
    page = log_in(approver)
    job = site.submit(faults=["kind=hang,step=25,attempt=0"])
    site.wait_for(IncidentState.AWAITING_DECISION)
    assert site.record(job).state is JobState.RUNNING
    assert site.recommendation.action == ActionKind.REQUEUE
    open_case(site, page)
    press_approve(page)
    site.wait_for(IncidentState.CLOSED)
    assert site.incident.outcome == Outcome.RECOVERED
    assert site.incident.restored_step == 20
    assert len(site.history(job)) == 2


def test_a_traceback_is_not_restarted(site: Site, approver: User, log_in: LogIn) -> None:
    site.policy(user_code="auto")
    site.connect()
    site.start()
    page = log_in(approver)
    job = site.submit(faults=["kind=traceback,step=15,rank=1"])
    site.wait_for(IncidentState.WATCHING)
    assert site.incident.failure_class == FailureClass.USER_CODE
    assert site.recommendation.action == ActionKind.NOTHING
    open_case(site, page)
    expect(page.get_by_text("Do not restart").first).to_be_visible()
    expect(page.locator("summary", has_text="Approve:")).to_have_count(0)
    assert site.record(job).restart_count == 0
    assert not Action.objects.exists()


def test_a_job_cancelled_by_its_user_is_left_alone(site: Site, approver: User, log_in: LogIn) -> None:
    site.policy(external_cancel="auto", unknown="auto")
    site.connect()
    site.start()
    page = log_in(approver)
    job = site.submit()
    site.wait(lambda: site.has_reached(1), what="a first step")
    site.lab.run("scancel", job)
    site.wait_for(IncidentState.CLOSED)
    assert site.incident.outcome == Outcome.STOPPED_ON_PURPOSE
    assert not site.incident.recommendations.exists()
    open_case(site, page)
    expect(page.locator("summary", has_text="Approve:")).to_have_count(0)
    assert site.record(job).state is JobState.CANCELLED


@pytest.mark.usefixtures("figures")
def test_a_restart_that_ignores_its_checkpoint_stays_open_and_says_why(
    site: Site, approver: User, log_in: LogIn
) -> None:
    site.policy(gpu_hardware="approve")
    site.connect()
    site.start()
    page = log_in(approver)
    site.submit(faults=["kind=ecc,step=25,rank=3,attempt=0", "kind=ignore_checkpoint,attempt=1"])
    site.wait_for(IncidentState.AWAITING_DECISION)
    open_case(site, page)
    press_approve(page)
    site.wait_for(IncidentState.NEEDS_PERSON)
    expect(page.get_by_text("Restarted from scratch").first).to_be_visible()
    # even when it saves again, beyond the step that was expected
    site.wait(lambda: site.has_reached(32, attempt=1), what="step 32 of the new attempt")
    assert site.incident.state == IncidentState.NEEDS_PERSON


def test_two_approvers_who_click_at_once_make_one_decision_and_one_requeue(
    site: Site, approver: User, admin: User, log_in: LogIn
) -> None:
    site.policy(gpu_hardware="approve")
    site.connect()
    site.start()
    job = site.submit(faults=["kind=ecc,step=15,rank=3,attempt=0"])
    site.wait_for(IncidentState.AWAITING_DECISION)
    pages = [log_in(approver), log_in(admin)]
    for page in pages:
        open_case(site, page)
        page.locator("summary", has_text="Approve:").click()
    for page in pages:  # both requests are on their way before either is answered
        page.evaluate(
            'document.querySelectorAll(\'form[hx-post*="approve"], form[action*="approve"]\')'
            ".forEach(form => form.requestSubmit())"
        )
    site.wait_for(IncidentState.CLOSED)
    assert Decision.objects.count() == Action.objects.count() == 1
    assert Incident.objects.count() == 1
    assert len(site.history(job)) == 2
