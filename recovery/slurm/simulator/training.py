"""The life of a running attempt: it looks for a checkpoint, steps, saves, and ends."""

from __future__ import annotations

from recovery.core.types import JobState
from recovery.slurm.simulator import ending, faults, lines
from recovery.slurm.simulator.effects import Effect, EffectKind
from recovery.slurm.simulator.stage import Stage
from recovery.slurm.simulator.state import Activity, Checkpoint, End, Job, Training
from recovery.slurm.simulator.trainers import STYLES, Style
from recovery.slurm.simulator.trainers.base import Progress, Save

COMPLETED = End(state=JobState.COMPLETED)


def begin(stage: Stage, job: Job, at: float) -> None:
    """Start the job's processes on its nodes; where Slurm does not know yet that one is dead, nothing comes of it."""
    dead = [name for name in job.nodes if stage.state.nodes[name].crashed]
    if job.nodes[0] not in dead:  # else there is nobody to open the log
        stage.open_log(job)
        stage.write(job, *_greeting(job, dead))
    job.training = Training(
        activity=Activity.SILENT if dead else Activity.STARTING,
        since=at,
        next_at=None if dead else at + job.spec.startup_s,
        total=job.spec.total_steps,
    )


def _greeting(job: Job, dead: list[str]) -> list[str]:
    """What the program says first, and where each of its ranks is."""
    said = [f"torch {lines.TORCH}, world size {job.spec.ranks}, job {job.job_id}, restart {job.restart_count}"]
    for rank in range(job.spec.ranks):
        node = job.nodes[rank // job.spec.gpus_per_node]
        if node not in dead:
            said.append(lines.rank_on_host(rank, node, lines.pid_of(job.job_id, rank)))
    return said


def happens(stage: Stage, job: Job, training: Training, at: float) -> None:
    """What the attempt was doing is over at `at`."""
    match training.activity:
        case Activity.STARTING:
            _look_for_checkpoint(stage, job, training, at)
        case Activity.LOADING:
            stage.write(job, *_style(job).load_done(_save(stage, job, training.step, at, took_s=job.spec.load_s)))
            _start_training(stage, job, training, at)
        case Activity.STEPPING:
            _finish_step(stage, job, training, at)
        case Activity.SAVING:
            _finish_save(stage, job, training, at)
        case Activity.STUCK if training.fault is not None:
            faults.die(stage, job, training, job.spec.faults[training.fault], at)
        case Activity.DYING if training.end is not None:
            ending.end_attempt(stage, job, training.end, at)
        case _:
            raise AssertionError(f"Nothing can be due for a job that is {training.activity}.")


def _look_for_checkpoint(stage: Stage, job: Job, training: Training, at: float) -> None:
    folder = stage.checkpoint_dir(job)
    run = stage.run(stage.run_key(job))
    run.trainer = job.spec.trainer
    found = None if faults.ignores_checkpoint(job) else run.restorable()
    if found is None:
        stage.write(job, *_style(job).fresh_start(folder))
        _start_training(stage, job, training, at)
        return
    if run.tracker != found:
        stage.write(job, f"WARNING: checkpoint at iteration {run.tracker} in {folder} is damaged, taking an older one")
    stage.write(job, *_style(job).load_start(_save(stage, job, found, at)))
    training.step = found
    training.activity, training.since, training.next_at = Activity.LOADING, at, at + job.spec.load_s


def _start_training(stage: Stage, job: Job, training: Training, at: float) -> None:
    training.trains_since = at
    stage.write(job, *_style(job).begin(at, training.step))
    if training.step >= training.total:
        _complete(stage, job, training, at)
        return
    _next_step(stage, job, training, at)


def _next_step(stage: Stage, job: Job, training: Training, at: float) -> None:
    """Begin the next iteration; how long it takes depends on its number only, not on who looks when."""
    jitter = lines.noise(stage.spec.seed, job.number, job.restart_count, training.step + 1)[2]
    training.took_s = job.spec.step_time_s * training.slow * (0.96 + 0.08 * jitter)
    if training.first:
        training.took_s += job.spec.warm_up_s
    training.first = False
    training.activity, training.since, training.next_at = Activity.STEPPING, at, at + training.took_s


def _finish_step(stage: Stage, job: Job, training: Training, at: float) -> None:
    if faults.strike(stage, job, training, at):
        return
    training.step += 1
    training.since = at
    if training.nan:
        training.nans += 1
    if training.step % job.spec.log_interval == 0:
        stage.write(job, *_style(job).progress(_progress(stage, job, training, at)))
    done = training.step >= training.total
    due = job.spec.save_every and (training.step % job.spec.save_every == 0 or done)
    if due and training.saves:
        _begin_save(stage, job, training, at)
    elif done:
        _complete(stage, job, training, at)
    else:
        _next_step(stage, job, training, at)


def _style(job: Job) -> Style:
    return STYLES[job.spec.trainer]


def _save(stage: Stage, job: Job, step: int, at: float, *, took_s: float = 0) -> Save:
    return Save(at=at, step=step, folder=stage.checkpoint_dir(job), shards=job.spec.shards, took_s=took_s)


def _trained_s(training: Training, at: float) -> float:
    return 0.0 if training.trains_since is None else at - training.trains_since


def _progress(stage: Stage, job: Job, training: Training, at: float) -> Progress:
    return Progress(
        at=at,
        step=training.step,
        total=training.total,
        took_s=training.took_s,
        speed=job.spec.step_time_s / training.took_s,
        nans=training.nans,
        nan=training.nan,
        chance=lines.noise(stage.spec.seed, job.number, job.restart_count, training.step),
        trained_s=_trained_s(training, at),
    )


def _begin_save(stage: Stage, job: Job, training: Training, at: float) -> None:
    stage.write(job, *_style(job).save_start(_save(stage, job, training.step, at)))
    _save_effect(stage, job, EffectKind.SAVE_BEGIN, training.step)
    _note(stage, job, training.step, complete=False)
    if training.full and training.fault is not None:
        faults.die(stage, job, training, job.spec.faults[training.fault], at)
        return
    training.activity, training.since, training.next_at = Activity.SAVING, at, at + job.spec.save_s


def _finish_save(stage: Stage, job: Job, training: Training, at: float) -> None:
    torn, training.tear = training.tear, False
    _save_effect(stage, job, EffectKind.SAVE_TORN if torn else EffectKind.SAVE_END, training.step)
    _note(stage, job, training.step, complete=not torn)
    stage.run(stage.run_key(job)).tracker = training.step
    _rotate(stage, job)
    stage.write(job, *_style(job).save_done(_save(stage, job, training.step, at, took_s=job.spec.save_s)))
    if training.step >= training.total:
        _complete(stage, job, training, at)
    else:
        _next_step(stage, job, training, at)


def _save_effect(stage: Stage, job: Job, kind: EffectKind, step: int) -> None:
    folder = stage.run_folder(stage.run_key(job))
    spec = job.spec
    stage.effects.append(Effect(kind=kind, path=folder, step=step, shards=spec.shards, trainer=spec.trainer))


def _note(stage: Stage, job: Job, step: int, *, complete: bool) -> None:
    """The folder of `step` is the newest one, and in this state."""
    run = stage.run(stage.run_key(job))
    run.saved = [c for c in run.saved if c.step != step]
    run.saved.append(Checkpoint(step=step, complete=complete))


def _rotate(stage: Stage, job: Job) -> None:
    key = stage.run_key(job)
    for old in stage.run(key).saved[: -stage.spec.keep_checkpoints]:
        stage.remove_checkpoint(key, old.step)


def _complete(stage: Stage, job: Job, training: Training, at: float) -> None:
    stage.write(job, *_style(job).end(at, training.step, _trained_s(training, at)))
    ending.end_attempt(stage, job, COMPLETED, at)
