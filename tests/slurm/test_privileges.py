"""What each of Slurm's levels lets the desk's user do to jobs of others: docs/privileges.md, seen on a real Slurm.

The desk's user is `daemon`, the job's owner `nobody`. Each call goes through the product's own client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from recovery.core.types import JobState
from recovery.demo.lab import SlurmLab
from recovery.demo.processes import wait_until
from recovery.doctor.calls import WORDS, examine_calls
from recovery.doctor.results import Result, State
from recovery.slurm.base import Operation, SlurmRefused, Submission
from recovery.slurm.cli import CliClient
from tests.factories import ago, make_cluster, make_job, make_run

pytestmark = [pytest.mark.slurm, pytest.mark.accounting]

DESK, OWNER, ACCOUNT = "daemon", "nobody", "privileges"
# As ssh does it: what follows is one line for a shell that belongs to another user.
AS_DESK = f"""runuser -u {DESK} -- sh -c 'eval "$*"' sh"""

JOBS = frozenset(
    {
        *(Operation.REQUEUE, Operation.REQUEUE_HOLD, Operation.SET_EXCLUDED_NODES, Operation.RELEASE),
        *(Operation.HOLD, Operation.CANCEL, Operation.SET_TIME_LIMIT),
    }
)
NODES = frozenset({Operation.DRAIN_NODE, Operation.RESUME_NODE})
# Who → what Slurm 22.05 lets them do to the job of another user.
ALLOWED: dict[str, frozenset[Operation]] = {
    "nobody in particular": frozenset(),
    "coordinator of the job's account": JOBS,
    "operator": JOBS | {Operation.BATCH_SCRIPT},
    "administrator": JOBS | NODES | {Operation.BATCH_SCRIPT, Operation.SET_ADMIN_COMMENT},
}
LEVELS = {"nobody in particular": "None", "operator": "Operator", "administrator": "Administrator"}


@pytest.fixture(scope="module")
def accounts(slurm_lab: SlurmLab) -> Iterator[SlurmLab]:
    slurm_lab.run("sacctmgr", "-i", "add", "account", ACCOUNT)
    slurm_lab.run("sacctmgr", "-i", "add", "user", OWNER, f"account={ACCOUNT}")
    slurm_lab.run("sacctmgr", "-i", "add", "user", DESK, f"account={ACCOUNT}")
    yield slurm_lab
    slurm_lab.run("sacctmgr", "-i", "delete", "user", DESK)
    slurm_lab.run("sacctmgr", "-i", "delete", "user", OWNER)
    slurm_lab.run("sacctmgr", "-i", "delete", "account", ACCOUNT)


@pytest.fixture
def desk(accounts: SlurmLab, request: pytest.FixtureRequest) -> Iterator[CliClient]:
    """The client of a desk that runs as DESK, at the level that the test is given."""
    who: str = request.getfixturevalue("who")
    accounts.run("sacctmgr", "-i", "modify", "user", DESK, "set", f"adminlevel={LEVELS.get(who, 'None')}")
    coordinates = who.startswith("coordinator")
    if coordinates:
        accounts.run("sacctmgr", "-i", "add", "coordinator", f"account={ACCOUNT}", f"names={DESK}")
    yield CliClient(slurm_conf=str(accounts.conf), prefix=AS_DESK, timeout_s=20)
    if coordinates:
        accounts.run("sacctmgr", "-i", "delete", "coordinator", f"account={ACCOUNT}", f"names={DESK}")
    accounts.run("scancel", f"--user={OWNER}")
    accounts.run("scancel", f"--user={DESK}")
    assert wait_until(lambda: not accounts.run("squeue", "-h").strip(), timeout_s=20)


class Job:
    """Jobs of the owner, in each state that a call needs."""

    def __init__(self, lab: SlurmLab, root: CliClient) -> None:
        self.lab, self.root = lab, root

    def _submit(self, *options: str) -> str:
        script = "#!/bin/sh\nexec sleep 300\n"
        options = ("--account=" + ACCOUNT, "--output=/dev/null", "--requeue", *options)
        return self.lab.submit(script, work_dir=Path("/tmp"), user=OWNER, options=options)

    def waiting(self) -> str:
        return self._submit("--hold")

    def running(self) -> str:
        job_id = self._submit()
        assert wait_until(lambda: self.root.job(job_id).state is JobState.RUNNING, timeout_s=20)
        return job_id

    def ended(self) -> None:
        """Only where accounting knows jobs of others does it show whether somebody may see them."""
        job_id, began = self.running(), datetime.now(UTC) - timedelta(minutes=1)
        self.root.cancel(job_id)

        def told() -> bool:
            return any(record.job_id == job_id for record in self.root.ended_between(began, datetime.now(UTC)))

        assert wait_until(told, timeout_s=20)


def calls_of(desk: CliClient, jobs: Job) -> dict[Operation, Callable[[], object]]:
    waiting, running, ended = jobs.waiting(), jobs.running(), jobs.running()
    node = "n4"
    return {
        Operation.BATCH_SCRIPT: lambda: desk.batch_script(running),
        Operation.SET_ADMIN_COMMENT: lambda: desk.set_admin_comment(waiting, "seen by the desk"),
        Operation.SET_EXCLUDED_NODES: lambda: desk.set_excluded_nodes(waiting, (node,)),
        Operation.SET_TIME_LIMIT: lambda: desk.set_time_limit(waiting, 3600),
        Operation.HOLD: lambda: desk.hold(waiting),
        Operation.RELEASE: lambda: desk.release(waiting),
        Operation.REQUEUE_HOLD: lambda: desk.requeue(running, hold=True),
        Operation.REQUEUE: lambda: desk.requeue(ended, hold=False),
        Operation.CANCEL: lambda: desk.cancel(waiting),
        Operation.DRAIN_NODE: lambda: desk.drain_node(node, "privileges"),
        Operation.RESUME_NODE: lambda: desk.resume_node(node),
    }


def may(call: Callable[[], object]) -> bool:
    try:
        call()
    except SlurmRefused:
        return False
    return True


@pytest.mark.parametrize("who", ALLOWED)
def test_each_level_may_do_what_the_guide_says_to_jobs_of_others_and_to_nodes(
    who: str, desk: CliClient, accounts: SlurmLab, slurm_client: CliClient
) -> None:
    calls = calls_of(desk, Job(accounts, slurm_client))
    assert {operation for operation, call in calls.items() if may(call)} == ALLOWED[who]


@pytest.mark.parametrize("who", ["administrator"])
def test_nobody_but_root_submits_for_others(who: str, desk: CliClient, slurm_client: CliClient) -> None:
    submission = Submission(script="#!/bin/sh\ntrue\n", user=OWNER, work_dir="/tmp", account=ACCOUNT, hold=True)
    with pytest.raises(SlurmRefused):
        desk.submit(submission)
    job_id = slurm_client.submit(submission)
    assert slurm_client.job(job_id).user == OWNER
    slurm_client.cancel(job_id)


@pytest.mark.parametrize("who", LEVELS)
@pytest.mark.django_db
def test_what_the_doctor_says_is_what_slurm_does_and_nothing_is_changed(
    who: str, desk: CliClient, accounts: SlurmLab, slurm_client: CliClient
) -> None:
    jobs = Job(accounts, slurm_client)
    jobs.ended()
    running = jobs.running()
    cluster = make_cluster(seen_at=ago(900))
    make_job(run=make_run(cluster=cluster, user=OWNER), job_id=running, first_submitted_at=ago(60))
    before = slurm_client.job(running), slurm_client.nodes()
    found = {result.what: result for result in examine_calls(cluster, desk, clock=lambda: datetime.now(UTC))}
    assert (slurm_client.job(running), slurm_client.nodes()) == before
    calls = calls_of(desk, jobs)
    said = {operation for operation in calls if _promises(found[WORDS[operation]])}
    assert said == ALLOWED[who]
    reads = [operation for operation in Operation if not operation.is_write and operation is not Operation.BATCH_SCRIPT]
    assert [found[WORDS[operation]] for operation in reads if found[WORDS[operation]].state != State.GOOD] == []


def _promises(result: Result) -> bool:
    return result.state is State.GOOD or result.detail == "not tried; by rights it works"


@pytest.mark.parametrize("who", ["nobody in particular"])
def test_a_write_on_a_job_that_can_not_exist_tells_nothing_of_rights(who: str, desk: CliClient) -> None:
    """Why the doctor doesn't try it: those who may not get the same answer as those who may."""
    writes: list[Callable[[], None]] = [
        lambda: desk.requeue("999999", hold=False),
        lambda: desk.set_time_limit("999999", 60),
    ]
    for write in writes:
        with pytest.raises(SlurmRefused, match="Invalid job id"):
            write()
