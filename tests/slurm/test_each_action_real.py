"""Each action once, from the fault to what a real slurmctld shows afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from recovery.access import Actor, actor_for
from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.policy import DEFAULT_RULES
from recovery.core.types import ActionKind, CheckpointState, JobState
from recovery.demo.lab import SlurmLab
from recovery.demo.lab_conf import LabError
from recovery.demo.processes import wait_until
from recovery.models import Action, Attempt, Checkpoint, Cluster, Incident, PolicyVersion, Recommendation
from recovery.pipeline import decide, propose, reconcile, veto
from recovery.slurm.cli import CliClient

pytestmark = [pytest.mark.slurm, pytest.mark.django_db]

HANGS = "#!/bin/sh\n#SBATCH --output=%x-%j.out\nenv > env.$SLURM_JOB_ID\nsleep 300\n"
FAILS = """#!/bin/sh
[ -n "$SLURM_RESTART_COUNT" ] && sleep 300
echo 'CUDA error: uncorrectable ECC error encountered'
exit 1
"""


class RealDesk:
    """The pipeline in this process, on the lab, in real time."""

    def __init__(self, lab: SlurmLab, client: CliClient, folder: Path, operator: Actor, approver: Actor) -> None:
        self.lab, self.client, self.folder, self.operator, self.approver = lab, client, folder, operator, approver
        now = reconcile.utc_now()
        Cluster.objects.create(name="lab", backend="cli", poll_interval_s=0.3, next_look_at=now)
        rules = {**DEFAULT_RULES, "default": {"mode": "approve"}}
        PolicyVersion.objects.create(number=1, rules=rules, author="admin", reason="test", created_at=now)
        self.tick()

    def tick(self) -> None:
        reconcile.tick(client_for=lambda cluster: self.client, clock=reconcile.utc_now)

    def until(self, done: Callable[[], bool], *, within_s: float = 40) -> None:
        end = time.monotonic() + within_s
        while not done():
            assert time.monotonic() < end, (Incident.objects.values().last(), Action.objects.values().last())
            self.tick()
            time.sleep(0.1)

    def submit(self, script: str, *options: str) -> str:
        comment = '--comment={"recovery": {"run": "llama"}}'
        return self.lab.submit(script, work_dir=self.folder, options=["--exclusive", comment, *options])

    @property
    def incident(self) -> Incident:
        return Incident.objects.latest("pk")

    def until_asked(self) -> None:
        self.until(lambda: Incident.objects.filter(state=IncidentState.AWAITING_DECISION).exists())

    def until_proposable(self) -> None:
        self.until(lambda: Incident.objects.filter(state__in=propose.PROPOSABLE).exists())

    def propose(self, kind: ActionKind, nodes: tuple[str, ...] = (), **parameters: Any) -> Recommendation:
        self.until_proposable()
        return propose.propose(
            self.incident.pk, action=kind, parameters=parameters, exclude_nodes=nodes, reason="test",
            actor=self.operator, client=self.client, now=reconcile.utc_now(),
        )  # fmt: skip

    def carry_out(self, row: Recommendation) -> Action:
        decide.approve(row.pk, shown_hash=row.hash, actor=self.approver, now=reconcile.utc_now())
        self.until(lambda: Action.objects.latest("pk").observed_at is not None)
        action = Action.objects.latest("pk")
        assert action.state == ActionState.CONVERGED, action.detail
        return action

    def do(self, kind: ActionKind, nodes: tuple[str, ...] = (), **parameters: Any) -> Action:
        return self.carry_out(self.propose(kind, nodes, **parameters))

    @contextmanager
    def nothing_starts(self) -> Iterator[None]:
        """A requeued job waits for longer than its delay, however busy this machine is."""
        self.lab.run("scontrol", "update", "PartitionName=main", "State=DOWN")
        try:
            yield
        finally:
            self.lab.run("scontrol", "update", "PartitionName=main", "State=UP")

    def undo(self, action: Action) -> Action:
        rows = Action.objects.filter(pk=action.pk)
        self.until(lambda: propose.undoable(self.incident, rows.all(), now=reconcile.utc_now()) != [])
        made = propose.undo(action.pk, reason="test", actor=self.operator, client=self.client, now=reconcile.utc_now())
        return self.carry_out(made)

    def shown(self, job_id: str, field: str) -> str:
        return self.lab.run("squeue", "-h", "-t", "all", "-j", job_id, "-O", f"{field}:0").strip()

    def node(self, name: str) -> str:
        return self.lab.run("sinfo", "-h", "-N", "-n", name, "-o", "%T %E").strip()


@pytest.fixture
def real(
    slurm_lab: SlurmLab, slurm_client: CliClient, tmp_path: Path, settings: Settings, operator: Any, approver: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[RealDesk]:  # fmt: skip
    tmp_path.chmod(0o755)
    settings.SETTLE_S, settings.TICK_S, settings.HANG_FLOOR_S, settings.HANG_FIRST_STEP_S = 1, 0.3, 3, 3
    settings.LOG_ROOTS = settings.CHECKPOINT_ROOTS = [str(tmp_path)]
    monkeypatch.setattr(veto, "IN_HEALTH", timedelta(0))
    yield RealDesk(slurm_lab, slurm_client, tmp_path, actor_for(operator), actor_for(approver))
    slurm_lab.run("scancel", "--user=root")
    assert wait_until(lambda: _all_resumed(slurm_lab), timeout_s=20)


def _all_resumed(lab: SlurmLab) -> bool:
    drained = [name for name in lab.node_names if "drain" in lab.run("sinfo", "-h", "-N", "-n", name, "-o", "%T")]
    for name in drained:
        with suppress(LabError):  # it is between two states in this moment
            lab.run("scontrol", "update", f"NodeName={name}", "State=RESUME")
    return not drained


def test_a_hung_job_gets_more_time_its_node_is_drained_and_it_is_submitted_again(real: RealDesk) -> None:
    old = real.submit(HANGS, "--time=60", "--job-name=hung", "--nodelist=n2", "--no-requeue")
    real.until_asked()
    extended = real.do(ActionKind.EXTEND_TIME_LIMIT, seconds=7200)
    assert real.shown(old, "TimeLimit") == "2:00:00"
    assert f"recovery-desk:{extended.key}" in real.shown(old, "admin_comment")
    real.until(lambda: real.incident.state == IncidentState.WATCHING)
    real.undo(extended)
    assert real.shown(old, "TimeLimit") == "1:00:00"
    drained = real.do(ActionKind.DRAIN, node="n2")
    assert real.node("n2") == f"draining {drained.calls[0]['command'].split('Reason=')[1].strip(chr(39))}"
    real.undo(drained)
    assert real.node("n2").startswith(("allocated", "mixed", "idle"))
    given = {} if "23.11." in real.lab.run("sbatch", "-V") else {"NCCL_DEBUG": "INFO"}  # whose sbatch takes none
    again = real.do(ActionKind.RESUBMIT, environment=given)
    new = again.calls[0]["answer"]
    assert (real.shown(old, "State"), real.shown(new, "Comment")) == ("CANCELLED", real.shown(old, "Comment"))
    real.until(lambda: real.shown(new, "State") == "RUNNING")
    real.until((real.folder / f"env.{new}").exists)
    told = (real.folder / f"env.{new}").read_text()
    assert all(f"{name}={value}" in told for name, value in given.items())
    assert (real.folder / f"hung-{new}.out").exists(), "its log is where Slurm says that it is"
    real.until(lambda: Incident.objects.filter(attempt__job__job_id=new).exists())  # it hangs, too
    real.until_asked()
    real.do(ActionKind.CANCEL)
    assert real.shown(new, "State") == "CANCELLED"
    assert real.incident.outcome == "stopped_on_purpose"


def test_a_task_of_an_array_is_submitted_again_alone(real: RealDesk, settings: Settings) -> None:
    settings.HANG_FLOOR_S = settings.HANG_FIRST_STEP_S = 600  # the other task sleeps
    script = "#!/bin/sh\n[ $SLURM_ARRAY_TASK_ID = 1 ] && [ ! -e once ] && touch once && sleep 3 && exit 1\nsleep 300\n"
    old = real.submit(script, "--array=0-1", "--no-requeue", "--job-name=swept")
    real.until_asked()
    assert real.incident.attempt.job.job_id == f"{old}_1"
    again = real.do(ActionKind.RESUBMIT)
    new = again.calls[0]["answer"]
    real.until(lambda: real.shown(new, "State") == "RUNNING")
    assert new.endswith("_1")
    assert real.shown(f"{old}_0", "State") == "RUNNING"
    assert real.lab.run("squeue", "-h", "-j", new.partition("_")[0], "-o", "%i").split() == [new]


def test_a_task_of_an_array_is_requeued_alone_without_its_node_and_verified(real: RealDesk, settings: Settings) -> None:
    settings.HANG_FLOOR_S = settings.HANG_FIRST_STEP_S = 600  # the other task sleeps
    script = f"#!/bin/sh\n[ $SLURM_ARRAY_TASK_ID = 0 ] && sleep 300\n{FAILS.partition(chr(10))[2]}"
    job = real.submit(script, "--array=0-1", "--job-name=swept")
    real.until_asked()
    failed = real.incident.attempt
    assert failed.job.job_id == f"{job}_1"
    (node,) = failed.nodes
    action = real.do(ActionKind.REQUEUE_EXCLUDING, (node,))
    assert [call["operation"] for call in action.calls][-2:] == ["set_excluded_nodes", "release"]
    real.until(lambda: real.shown(f"{job}_1", "State") == "RUNNING")
    assert real.shown(f"{job}_1", "RestartCnt") == "1"
    assert real.shown(f"{job}_1", "NodeList") != node
    assert (real.shown(f"{job}_0", "State"), real.shown(f"{job}_0", "RestartCnt")) == ("RUNNING", "0")
    real.until(lambda: real.incident.new_attempt is not None)
    again = real.incident.new_attempt
    assert again is not None
    assert (again.job.job_id, again.number, real.incident.resolved_by_others) == (f"{job}_1", 1, False)


def test_a_job_that_slurm_could_not_launch_is_released(real: RealDesk) -> None:
    flag, prolog = real.folder / "ill", real.folder / "prolog.sh"
    flag.touch()
    prolog.write_text(f"#!/bin/sh\n[ ! -e {flag} ]\n")
    prolog.chmod(0o755)
    conf = real.lab.conf.read_text()
    try:
        real.lab.conf.write_text(f"{conf}Prolog={prolog}\n")
        real.lab.run("scontrol", "reconfigure")
        job = real.submit(HANGS)
        real.until_asked()
        row = Recommendation.objects.get(superseded_at=None)
        assert row.action == ActionKind.RELEASE
        flag.unlink()
        real.carry_out(row)
        real.until(lambda: real.shown(job, "State") == "RUNNING")
        real.until(lambda: real.incident.new_attempt is not None)
    finally:
        real.lab.conf.write_text(conf)
        real.lab.run("scontrol", "reconfigure")


def test_a_failed_job_restores_the_older_checkpoint_is_held_and_released(real: RealDesk) -> None:
    job = real.submit(FAILS)
    real.until_asked()
    ckpt = real.folder / "ckpt"
    (ckpt / "iter_0000010" / "mp_rank_00").mkdir(parents=True)
    (ckpt / "iter_0000010" / "mp_rank_00" / "model_optim_rng.pt").write_bytes(b"weights" * 100)
    tracker = ckpt / "latest_checkpointed_iteration.txt"
    tracker.write_text("20")
    now = reconcile.utc_now()
    Checkpoint.objects.create(
        run=real.incident.run, step=10, path=str(ckpt / "iter_0000010"), state=CheckpointState.COMPLETE,
        first_seen_at=now, completed_at=now, checked_at=now,
    )  # fmt: skip
    restored = real.do(ActionKind.RESTORE_OLDER, step=10)
    with real.nothing_starts():
        assert tracker.read_text() == "10"
        assert real.shown(job, "RestartCnt") == "1"
        assert f"recovery-desk:{restored.key}" in real.shown(job, "admin_comment")
        real.until(lambda: Attempt.objects.filter(number=1, state=JobState.PENDING).exists())
        held = real.do(ActionKind.HOLD)
        assert "JobHeldAdmin" in real.shown(job, "Reason")
        real.undo(held)
        real.undo(restored)
        assert tracker.read_text() == "20"
    real.until(lambda: real.shown(job, "State") == "RUNNING")
