"""What every back end promises of the calls that change a job or a node, and of submitting."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from recovery.core.types import JobState, NodeState
from recovery.slurm.base import (
    JobNotFound,
    NodeRecord,
    NotSupported,
    Operation,
    SlurmError,
    SlurmRefused,
    Submission,
)
from tests.slurm.contract import (
    HARMLESS,
    JOB_CALLS,
    NODE_CALLS,
    SCRIPT,
    UNKNOWN_NODE,
    assert_denied,
    needs,
    running,
    truth_becomes,
    wait_for,
    waiting,
)
from tests.slurm.harness import Harness, wait_until

HOSTILE_TEXT = '+held "by" ada\'; JobId=1 Comment=x | $(id) `id` %j ü'


def node(harness: Harness, name: str) -> NodeRecord:
    return next(found for found in harness.client.nodes() if found.name == name)


@pytest.mark.parametrize("operation", Operation)
def test_what_can_be_asked_for_is_there_and_the_rest_says_why_not(harness: Harness, operation: Operation) -> None:
    if not harness.client.can(operation):
        assert_denied(harness.client, operation)
        return
    refusal: SlurmError | None = None
    try:
        HARMLESS[operation](harness.client)
    except SlurmError as error:
        refusal = error
    assert not isinstance(refusal, NotSupported)


@pytest.mark.parametrize("operation", [operation for operation in JOB_CALLS | NODE_CALLS if operation.is_write])
def test_a_preview_shows_its_subject_and_changes_nothing(harness: Harness, operation: Operation) -> None:
    subject = harness.client.nodes()[0].name if operation in NODE_CALLS else "4711"
    value = "3600" if operation is Operation.SET_TIME_LIMIT else HOSTILE_TEXT
    if not harness.client.can(operation):
        with pytest.raises(NotSupported):
            harness.client.preview(operation, subject, value=value)
        return
    assert subject in harness.client.preview(operation, subject, value=value)
    assert node(harness, harness.client.nodes()[0].name).state is NodeState.UP


# --- jobs ------------------------------------------------------------------------------------------------------------


@needs(Operation.HOLD, Operation.RELEASE)
def test_a_held_job_is_held_by_an_administrator_until_it_is_released(harness: Harness) -> None:
    job_id = waiting(harness)
    harness.client.hold(job_id)
    truth = harness.job_truth(job_id)
    assert truth is not None
    assert truth.held
    held = harness.client.job(job_id)
    assert (held.state, held.held, held.state_reason) == (JobState.PENDING, True, "JobHeldAdmin")
    harness.client.release(job_id)
    assert not harness.client.job(job_id).held


@needs(Operation.CANCEL)
def test_a_cancelled_job_ends_and_is_not_cancelled_again(harness: Harness) -> None:
    job = running(harness)
    harness.client.cancel(job.job_id)
    truth_becomes(harness, job.job_id, "CANCELLED")
    wait_for(harness, job.job_id, JobState.CANCELLED)
    with pytest.raises(SlurmRefused) as caught:
        harness.client.cancel(job.job_id)
    assert not isinstance(caught.value, JobNotFound)


@needs(Operation.SET_TIME_LIMIT)
def test_a_time_limit_is_rounded_up_to_minutes(harness: Harness) -> None:
    job = running(harness)
    for seconds, limit_s in ((5401.0, 5460.0), (60.0 * 600, 36_000.0)):
        harness.client.set_time_limit(job.job_id, seconds)
        truth = harness.job_truth(job.job_id)
        assert truth is not None
        assert truth.time_limit_s == harness.client.job(job.job_id).time_limit_s == limit_s
    for no_limit in (0.0, -60.0, float("nan"), float("inf")):
        with pytest.raises(SlurmRefused):
            harness.client.set_time_limit(job.job_id, no_limit)
    assert harness.client.job(job.job_id).time_limit_s == 36_000.0


@needs(Operation.SET_ADMIN_COMMENT)
def test_an_admin_comment_is_one_line_as_it_was_written(harness: Harness) -> None:
    job = running(harness, comment="the user's own")
    for text, line in ((HOSTILE_TEXT, HOSTILE_TEXT), ("first\nJobId=2", "first JobId=2"), ("", "")):
        harness.client.set_admin_comment(job.job_id, text)
        truth = harness.job_truth(job.job_id)
        assert truth is not None
        assert (truth.admin_comment, truth.comment) == (line, "the user's own")
        assert harness.client.job(job.job_id).admin_comment == line
    harness.client.set_admin_comment(job.job_id, "x" * 2000)
    assert len(harness.client.job(job.job_id).admin_comment) <= 1000


# --- nodes -----------------------------------------------------------------------------------------------------------


@needs(Operation.DRAIN_NODE, Operation.RESUME_NODE)
def test_a_drained_node_keeps_its_jobs_and_takes_no_new_one_until_it_is_resumed(harness: Harness) -> None:
    job = running(harness)
    (name,) = job.nodes
    harness.client.drain_node(name, HOSTILE_TEXT)
    truth = harness.node_truth(name)
    assert (truth.drained, truth.reason) == (True, HOSTILE_TEXT)
    drained = node(harness, name)
    assert (drained.state, drained.reason, drained.jobs_on_it) == (NodeState.DRAINING, HOSTILE_TEXT, True)
    assert harness.client.job(job.job_id).state is JobState.RUNNING
    harness.client.resume_node(name)
    assert not harness.node_truth(name).drained
    wait_until(harness, lambda: node(harness, name).state is NodeState.UP)  # Slurm pings it first


@needs(Operation.RESUME_NODE)
def test_where_there_is_nothing_to_resume_nothing_is(harness: Harness) -> None:
    with pytest.raises(SlurmRefused):
        harness.client.resume_node(harness.client.nodes()[0].name)


@pytest.mark.parametrize("name", [UNKNOWN_NODE, "n1,n2", "n[1-2]", "", "-n", "ALL", "all", "n1 State=DOWN"])
def test_what_is_no_node_is_refused(harness: Harness, name: str) -> None:
    for operation, call in NODE_CALLS.items():
        if not harness.client.can(operation):
            assert_denied(harness.client, operation)
            continue
        with pytest.raises(SlurmRefused):
            call(harness.client, name)
    assert {found.state for found in harness.client.nodes()} == {NodeState.UP}


@needs(Operation.DRAIN_NODE)
def test_no_node_is_drained_without_a_reason(harness: Harness) -> None:
    name = harness.client.nodes()[0].name
    with pytest.raises(SlurmRefused):
        harness.client.drain_node(name, " \n")
    assert not harness.node_truth(name).drained


# --- submit ----------------------------------------------------------------------------------------------------------


@needs(Operation.SUBMIT)
def test_a_submission_arrives_whole_and_brings_nothing_of_ours(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOVERY_SECRET_KEY", "ours")
    monkeypatch.setenv("SBATCH_JOB_NAME", "ours")
    given = {"RECOVERY_RUN": "llama", "ODD": "a \"b\", c='d'\n$HOME"}
    submission = Submission(
        script=SCRIPT,
        user=harness.user,
        work_dir=str(tmp_path),
        name="llama 70b",
        comment='{"recovery": {"run": "llama", "note": "it\'s"}}',
        time_limit_s=61,
        hold=True,
        environment=given,
    )
    if harness.client.health().release.startswith("23.11."):  # whose sbatch alone has no --export-file
        with pytest.raises(SlurmRefused, match="takes no variables"):
            harness.client.submit(submission)
        submission, given = replace(submission, environment={}), {}
    job_id = harness.client.submit(submission)
    truth = harness.job_truth(job_id)
    assert truth is not None
    assert (truth.state, truth.held, truth.time_limit_s) == ("PENDING", True, 120)
    assert (truth.name, truth.user, truth.work_dir) == (submission.name, harness.user, str(tmp_path))
    assert truth.comment == submission.comment
    assert harness.script_of(job_id) == SCRIPT
    environment = harness.environment_of(job_id)
    assert {name: environment.get(name) for name in given} == given
    assert "ours" not in environment.values()
    assert not {"RECOVERY_SECRET_KEY", "DJANGO_SETTINGS_MODULE", "TZ", "LC_ALL"} & set(environment)
    assert harness.client.job(job_id).name == submission.name


@needs(Operation.SUBMIT)
def test_a_submission_runs_on_none_of_the_excluded_nodes_and_keeps_its_admin_comment(
    harness: Harness, tmp_path: Path
) -> None:
    *others, last = (found.name for found in harness.client.nodes())
    submission = Submission(
        script=SCRIPT,
        user=harness.user,
        work_dir=str(tmp_path),
        excluded_nodes=tuple(others),
        admin_comment="sent again after 4711",
    )
    job = wait_for(harness, harness.client.submit(submission), JobState.RUNNING)
    assert (job.nodes, job.excluded_nodes, job.user) == ((last,), tuple(others), harness.user)
    truth = harness.job_truth(job.job_id)
    assert truth is not None
    assert truth.admin_comment == job.admin_comment == "sent again after 4711"


@needs(Operation.SUBMIT)
def test_what_can_not_be_submitted_is_refused_and_leaves_no_job(harness: Harness, tmp_path: Path) -> None:
    fine = Submission(script=SCRIPT, user=harness.user, work_dir=str(tmp_path))
    before = {job.job_id for job in harness.client.jobs()}
    for wrong in (
        replace(fine, script="echo no interpreter"),
        replace(fine, script="#!/bin/sh\n\0"),
        replace(fine, user="no such user"),
        replace(fine, user="--help"),
        replace(fine, work_dir="relative"),
        replace(fine, excluded_nodes=("n1,n2",)),
        replace(fine, excluded_nodes=(UNKNOWN_NODE,)),
        replace(fine, partition="no-such-partition"),
        replace(fine, account="two words"),
        replace(fine, time_limit_s=-1),
        replace(fine, environment={"NOT A NAME": "x"}),
        replace(fine, environment={"A": "half\0"}),
    ):
        with pytest.raises(SlurmRefused):
            harness.client.submit(wrong)
    assert {job.job_id for job in harness.client.jobs()} == before
