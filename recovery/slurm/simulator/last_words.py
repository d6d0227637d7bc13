"""What a job's log says when something fatal strikes, and how its attempt then ends.

The shapes are those that PyTorch, NCCL, the CUDA runtime, the kernel and Slurm print; the programs and names in them
are invented. Where a real failure floods the log, only as many ranks speak here as a reader needs to see the pattern.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from recovery.core.types import JobState
from recovery.slurm.simulator import lines
from recovery.slurm.simulator.spec import Fault, FaultKind
from recovery.slurm.simulator.state import End

VICTIMS = 8  # ranks that report a collective's time-out


@dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """Where and when it strikes."""

    fault: Fault
    job_id: str
    user: str
    nodes: tuple[str, ...]
    ranks: int
    gpus_per_node: int
    rank: int
    node: str
    step: int
    at: float
    folder: str  # the checkpoint directory

    @property
    def gpu(self) -> int:
        return self.rank % self.gpus_per_node

    @property
    def pid(self) -> int:
        return lines.pid_of(self.job_id, self.rank)

    def by_rank(self, *texts: str) -> list[str]:
        return [f"[rank{self.rank}]: {text}" for text in texts]


Ending = tuple[list[str], End]


def speak(scene: Scene) -> Ending:
    """The last lines of an attempt and how Slurm sees its end. Raises KeyError for a fault that ends nothing."""
    return _ENDINGS[scene.fault.kind](scene)


def is_fatal(kind: FaultKind) -> bool:
    return kind in _ENDINGS


def _failed(code: int) -> End:
    return End(state=JobState.FAILED, reason="NonZeroExitCode", exit_code=code, step_exit_codes=(code,))


def _exits(scene: Scene, words: list[str], code: int = 1) -> Ending:
    """The rank ends with `code`, srun reports it and ends the others."""
    report = lines.task_exit(scene.job_id, scene.node, scene.rank, f"Exited with exit code {code}")
    return words + report, _failed(code)


def _python(scene: Scene, where: str, source: str, error: str) -> list[str]:
    """A traceback; `where` is "file.py", line and function in one."""
    home = f"/home/{scene.user}/train"
    return scene.by_rank(
        "Traceback (most recent call last):",
        f'  File "{home}/pretrain_gpt.py", line 284, in <module>',
        "    pretrain(datasets_provider, model_provider, ModelType.encoder_or_decoder, forward_step)",
        f'  File "{home}/{where}',
        f"    {source}",
        *error.split("\n"),
    )


def _cuda(message: str) -> str:
    return (
        f"RuntimeError: CUDA error: {message}\n"
        "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be"
        " incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1"
    )


def _traceback(scene: Scene) -> Ending:
    words = _python(scene, 'mixture.py", line 118, in weight_of', "return self.weights[name]", "KeyError: 'code-v3'")
    return _exits(scene, words, scene.fault.exit_code)


def _segfault(scene: Scene) -> Ending:
    words = [
        f"[{scene.node}:{scene.pid}] *** Process received signal ***",
        f"[{scene.node}:{scene.pid}] Signal: Segmentation fault (11)",
    ]
    report = lines.task_exit(scene.job_id, scene.node, scene.rank, "Segmentation fault (core dumped)")
    return words + report, _failed(139)


def _exit(scene: Scene) -> Ending:
    return [], _failed(scene.fault.exit_code)


def _ecc(scene: Scene) -> Ending:
    nccl = f"{scene.node}:{scene.pid}:{scene.pid + 412} [{scene.gpu}]"
    words = [f"{nccl} enqueue.cc:1556 NCCL WARN Cuda failure 'uncorrectable ECC error encountered'"]
    where = 'schedules.py", line 611, in forward_backward'
    words += _python(
        scene, where, "torch.cuda.current_stream().synchronize()", _cuda("uncorrectable ECC error encountered")
    )
    return _exits(scene, words)


def _xid79(scene: Scene) -> Ending:
    bus = f"0000:{0x1B + 0x20 * scene.gpu:02x}:00"
    kernel = (
        f"{lines.slurm_time(scene.at)} {scene.node} kernel: NVRM: Xid (PCI:{bus}): 79, pid={scene.pid}, name=python,"
        " GPU has fallen off the bus."
    )
    where = 'optimizer.py", line 402, in step'
    return _exits(scene, [kernel, *_python(scene, where, "self.grad_norm.item()", _cuda("unspecified launch failure"))])


def _nccl_timeout(scene: Scene) -> Ending:
    """The culprit is silent; whoever waits for it reports."""
    words = []
    ran_ms = 600_000
    work = (
        f"WorkNCCL(SeqNum={8 * scene.step}, OpType=ALLREDUCE, NumelIn=4194304, NumelOut=4194304, Timeout(ms)={ran_ms})"
    )
    victims = [rank for rank in range(scene.ranks) if rank != scene.rank or scene.ranks == 1][:VICTIMS]
    for rank in victims:
        head = f"[rank{rank}]:[E{lines.glog_time(scene.at)} ProcessGroupNCCL.cpp:632] [Rank {rank}]"
        words.append(
            f"{head} Watchdog caught collective operation timeout: {work} ran for {ran_ms + 17 + rank} milliseconds"
            " before timing out."
        )
    first = victims[0]
    node = scene.nodes[first // scene.gpus_per_node]
    words.append(
        f"[rank{first}]:[E{lines.glog_time(scene.at)} ProcessGroupNCCL.cpp:684] [Rank {first}] Some NCCL operations"
        " have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run"
        " on corrupted/incomplete data. To avoid data inconsistency, we are taking the entire process down."
    )
    return words + lines.task_exit(scene.job_id, node, first, "Aborted (core dumped)"), _failed(134)


def _host_oom(scene: Scene) -> Ending:
    words = [
        f"slurmstepd: error: Detected 1 oom_kill event in StepId={scene.job_id}.0. Some of the step tasks have been OOM"
        " Killed."
    ]
    end = End(state=JobState.OUT_OF_MEMORY, reason="OutOfMemory", exit_signal=125, step_exit_codes=(137,))
    return words + lines.task_exit(scene.job_id, scene.node, scene.rank, "Out Of Memory"), end


def _gpu_oom(scene: Scene) -> Ending:
    error = (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU {scene.gpu} has a total capacity"
        " of 79.15 GiB of which 1.02 GiB is free. Including non-PyTorch memory, this process has 78.12 GiB in use."
    )
    return _exits(scene, _python(scene, 'attention.py", line 233, in forward', "scores = query @ key", error))


def _disk_full(scene: Scene) -> Ending:
    name = f"{scene.folder}/iter_{scene.step:07d}/mp_rank_00/model_optim_rng.pt"
    error = f"OSError: [Errno 28] No space left on device: '{name}'"
    return _exits(scene, _python(scene, 'checkpointing.py", line 469, in save', "torch.save(state, name)", error))


_ENDINGS: dict[FaultKind, Callable[[Scene], Ending]] = {
    FaultKind.TRACEBACK: _traceback,
    FaultKind.SEGFAULT: _segfault,
    FaultKind.EXIT: _exit,
    FaultKind.ECC: _ecc,
    FaultKind.XID79: _xid79,
    FaultKind.NCCL_TIMEOUT: _nccl_timeout,
    FaultKind.HOST_OOM: _host_oom,
    FaultKind.GPU_OOM: _gpu_oom,
    FaultKind.DISK_FULL: _disk_full,
}
