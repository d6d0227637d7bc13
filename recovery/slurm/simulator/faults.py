"""Which fault strikes when, and what it does to a running attempt."""

from __future__ import annotations

from recovery.slurm.simulator import ending, last_words, lines, nodes
from recovery.slurm.simulator.spec import Fault, FaultKind
from recovery.slurm.simulator.stage import Stage
from recovery.slurm.simulator.state import Activity, Job, Training

DYING_S = 1.0  # from the last words to the end of the job, as srun ends the other tasks
NCCL_SILENCE_S = 10.0  # stands for the time-out of ten minutes or more

AT_START = frozenset({FaultKind.IGNORE_CHECKPOINT})


def strike(stage: Stage, job: Job, training: Training, at: float) -> bool:
    """Let every fault strike that is due in the iteration under way. True where the iteration is never finished."""
    for number, fault in enumerate(job.spec.faults):
        if fault.kind in AT_START or fault.step > training.step + 1 or not _is_armed(job, number, fault):
            continue
        job.fired[str(number)] = job.restart_count
        if _strike(stage, job, training, number, at):
            return True
    return False


def ignores_checkpoint(job: Job) -> bool:
    """Whether the attempt that is starting does so from scratch, because of a fault."""
    for number, fault in enumerate(job.spec.faults):
        if fault.kind is FaultKind.IGNORE_CHECKPOINT and _is_armed(job, number, fault):
            if fault.attempt is None and job.restart_count == 0:
                continue  # the first start has nothing to ignore
            job.fired[str(number)] = job.restart_count
            return True
    return False


def _is_armed(job: Job, number: int, fault: Fault) -> bool:
    last = job.fired.get(str(number))
    if last is not None and (not fault.repeat or last >= job.restart_count):
        return False
    if fault.attempt not in (None, job.restart_count) or fault.task not in (None, job.task):
        return False
    return not fault.node or fault.node in job.nodes


def _strike(stage: Stage, job: Job, training: Training, number: int, at: float) -> bool:
    fault = job.spec.faults[number]
    match fault.kind:
        case FaultKind.USER_CANCEL:
            ending.cancel(stage, job, job.spec.user, at)
        case FaultKind.NODE_DOWN:
            node = stage.state.nodes[_place(job, fault)[1]]
            nodes.crash(stage, node, at, back_after_s=fault.seconds)
        case FaultKind.HANG:
            training.activity, training.next_at, training.since = Activity.SILENT, None, at
        case FaultKind.NCCL_TIMEOUT:
            training.activity, training.fault, training.since = Activity.STUCK, number, at
            training.next_at = at + (fault.seconds or NCCL_SILENCE_S)
        case FaultKind.DISK_FULL:
            training.full, training.fault = True, number
        case FaultKind.GARBAGE:
            stage.write(job, "\udc80\udcff\x00\x07" * 200, "x" * 1_000_000)
        case kind if last_words.is_fatal(kind):
            die(stage, job, training, fault, at)
        case _:
            _change(training, fault)
    return training.activity is not Activity.STEPPING or job.training is None


def _change(training: Training, fault: Fault) -> None:
    """It trains on, but differently."""
    match fault.kind:
        case FaultKind.SLOW:
            training.slow = fault.factor
        case FaultKind.NAN:
            training.nan = True
        case FaultKind.TEAR:
            training.tear = True
        case FaultKind.STOP_SAVING:
            training.saves = False


def die(stage: Stage, job: Job, training: Training, fault: Fault, at: float) -> None:
    """Write the last words; the attempt ends a moment later."""
    rank, node = _place(job, fault)
    scene = last_words.Scene(
        fault=fault,
        job_id=job.job_id,
        user=job.spec.user,
        nodes=job.nodes,
        ranks=job.spec.ranks,
        gpus_per_node=job.spec.gpus_per_node,
        rank=rank,
        node=node,
        step=training.step + (0 if training.full else 1),
        at=at,
        folder=stage.checkpoint_dir(job),
    )
    words, training.end = last_words.speak(scene)
    stage.write(job, *words)
    training.activity, training.since = Activity.DYING, at
    training.next_at = at + DYING_S * (0.5 + lines.noise("dying", job.job_id, at)[0])


def _place(job: Job, fault: Fault) -> tuple[int, str]:
    """The rank that the fault hits, and its node."""
    per_node = job.spec.gpus_per_node
    if fault.node in job.nodes:
        local = (fault.rank if fault.rank is not None else 3) % per_node
        return job.nodes.index(fault.node) * per_node + local, fault.node
    rank = (job.spec.ranks - 1 if fault.rank is None else fault.rank) % job.spec.ranks
    return rank, job.nodes[rank // per_node]
