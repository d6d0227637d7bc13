"""The cluster of `make demo`: small, believable, and never quiet for long.

Twelve nodes of eight GPUs and seven teams. What happens in the first three minutes is written down here, so that a
newcomer sees every kind of trouble soon; after that the teams submit their next jobs, and faults come by chance
(seeded), about one in three minutes.

It lives for hours and stays small: jobs end and are followed by others, each run keeps its six newest checkpoints,
and two hours after the controller has forgotten a job its records, log and checkpoints go too. It stands still while
nobody looks for more than a minute (recovery/slurm/simulator/pause.py): a start after hours goes on where the last
one stopped, with the teams' jobs still training and what waited for a decision still waiting.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from recovery.slurm.simulator.cluster import SimulatedCluster
from recovery.slurm.simulator.spec import ClusterSpec, Fault, FaultKind, JobSpec, Stream, Workload, make_nodes
from recovery.slurm.simulator.workload import draw_faults
from recovery.slurm.simulator.world import World

NODES = 12  # one more than the teams need: there is a place to move to
BEFORE_S = 90.0  # so long the jobs have run when the demo starts: detectors know their usual pace
STEPS_OF_A_JOB = 2400  # about 40 minutes
SAVE_EVERY_S = 15.0  # a newcomer who approves sees the next checkpoint within half a minute

HARDWARE = (FaultKind.ECC, FaultKind.XID79, FaultKind.NODE_DOWN, FaultKind.NCCL_TIMEOUT, FaultKind.HANG)
CODE = (FaultKind.TRACEBACK, FaultKind.GPU_OOM, FaultKind.HOST_OOM, FaultKind.SLOW, FaultKind.USER_CANCEL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Team:
    """One team, its job when the demo starts, and what befalls that job `at_s` seconds later (None: nothing)."""

    name: str
    user: str
    resumed_at: int  # about the step from which its job went on
    later: tuple[FaultKind, ...]  # what may befall its later jobs
    nodes: int = 1
    step_time_s: float = 1.0
    at_s: float = 0
    fault: Fault | None = None


# In the order in which they get their nodes: gpu-01 … gpu-03, gpu-04 and gpu-05, gpu-06, …
TEAMS = (
    # the GPU stays broken: only an exclusion helps
    Team(name="llama-70b", user="ada", nodes=3, resumed_at=12_400, later=HARDWARE, at_s=30,
         fault=Fault(kind=FaultKind.ECC, node="gpu-02", repeat=True)),
    Team(name="vision-vit-h", user="lin", nodes=2, resumed_at=5_200, later=HARDWARE + CODE, at_s=55,
         fault=Fault(kind=FaultKind.HANG)),
    # a bug: it comes back at the same step, however often somebody restarts
    Team(name="rlhf-ppo", user="maya", step_time_s=1.2, resumed_at=840, later=CODE, at_s=70,
         fault=Fault(kind=FaultKind.TRACEBACK, repeat=True)),
    Team(name="speech-conformer", user="noor", step_time_s=0.7, resumed_at=7_700, later=CODE, at_s=40,
         fault=Fault(kind=FaultKind.SLOW, factor=2.6)),
    Team(name="embed-finetune", user="tomas", step_time_s=0.6, resumed_at=1_500, later=CODE, at_s=48,
         fault=Fault(kind=FaultKind.USER_CANCEL)),
    # later than the others: several crashes within two minutes would look like an incident of the whole cluster
    Team(name="moe-8x22b", user="ines", nodes=2, step_time_s=1.1, resumed_at=9_100, later=HARDWARE, at_s=155,
         fault=Fault(kind=FaultKind.NODE_DOWN, seconds=150)),
    # all is well with this one: there is always a healthy job to compare with
    Team(name="protein-fold", user="kofi", step_time_s=0.9, resumed_at=3_000, later=()),
)  # fmt: skip


def seed_demo(state_dir: Path, now: datetime, seed: int) -> None:
    """Make the demo's cluster in `state_dir` as it is at `now`. One that is there already is left as it is."""
    start = now - timedelta(seconds=BEFORE_S)

    def fill(world: World) -> None:
        for team in TEAMS:
            _put_checkpoints(world, team)
        for part in (0.5, 1.0):  # in steps that are shorter than what would count as a pause
            world.advance(start.timestamp() + part * BEFORE_S)

    SimulatedCluster(state_dir, clock=lambda: start).create(demo_spec(seed), fill=fill)


def demo_spec(seed: int) -> ClusterSpec:
    streams = tuple(_stream(team, key=(seed, number, 0)) for number, team in enumerate(TEAMS))
    return ClusterSpec(
        seed=seed,
        nodes=make_nodes(NODES),
        requeue_delay_s=6,
        node_timeout_s=6,
        min_job_age_s=3600,  # an approval may come late
        keep_records_s=7200,
        pause_after_s=60,
        workload=Workload(streams=streams, after_failure_s=600, patience_s=1800),
    )


def _stream(team: Team, *, key: tuple[int, int, int]) -> Stream:
    """The team's jobs: the first resumes from a checkpoint of before and has the fault that is written down above."""
    first = _job(team, _resumed_at(team))
    stream = Stream(template=first, later=_job(team, 0), faults=team.later, mean_steps_to_fault=1200)
    step = _resumed_at(team) + _steps_within(first, BEFORE_S + team.at_s)
    written = () if team.fault is None else (replace(team.fault, step=step),)
    faults = written + draw_faults(stream, first, key=key, after_step=step)
    return replace(stream, template=replace(first, faults=faults))


def _job(team: Team, resumes_at: int) -> JobSpec:
    return JobSpec(
        name=team.name,
        user=team.user,
        account="research",
        nodes=team.nodes,
        step_time_s=team.step_time_s,
        save_every=_save_every(team),
        shards=4,
        total_steps=resumes_at + STEPS_OF_A_JOB,
    )


def _steps_within(spec: JobSpec, seconds: float) -> int:
    """About how many steps a job has made so long after it was submitted."""
    training_s = seconds - spec.startup_s - spec.load_s - spec.warm_up_s
    return int(training_s / (spec.step_time_s + spec.save_s / spec.save_every))


def _save_every(team: Team) -> int:
    return round(SAVE_EVERY_S / team.step_time_s)


def _resumed_at(team: Team) -> int:
    """A step at which the team's job saved."""
    return team.resumed_at - team.resumed_at % _save_every(team)


def _put_checkpoints(world: World, team: Team) -> None:
    """From before: no run seems to have begun a minute ago."""
    for back in (2, 1, 0):
        world.put_checkpoint(team.name, _resumed_at(team) - back * _save_every(team), shards=4)
