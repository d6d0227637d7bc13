"""What is put into a simulated cluster: frozen values, checked when they are made.

Durations are seconds, steps are the trainer's own iteration numbers. Defaults of the cluster are those that were
measured on Slurm 22.05 with a short requeue delay.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

MOST_SHARDS = 4096
_FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")  # a run's key names its checkpoint folder


class Trainer(StrEnum):
    """Whose log lines and checkpoint layout a job writes (recovery/slurm/simulator/trainers/)."""

    MEGATRON = "megatron"
    HF = "hf"  # Hugging Face's Trainer
    LIGHTNING = "lightning"  # PyTorch Lightning
    NEMO = "nemo"  # NeMo 2: Lightning with NeMo's own progress line and checkpoint names
    TORCHTITAN = "torchtitan"


class Preempt(StrEnum):
    """What happens to a partition's running jobs when one of a higher tier needs their nodes (PreemptMode)."""

    OFF = "off"
    REQUEUE = "requeue"
    CANCEL = "cancel"


class FaultKind(StrEnum):
    """What can go wrong with a job. All but the last group end the attempt."""

    TRACEBACK = "traceback"
    SEGFAULT = "segfault"
    EXIT = "exit"  # ends with the exit code, without a word
    ECC = "ecc"  # uncorrectable error of a GPU's memory; the log names the node
    XID79 = "xid79"  # a GPU falls off the bus
    NCCL_TIMEOUT = "nccl_timeout"  # the log stops, then every rank but one reports the collective's time-out
    HOST_OOM = "host_oom"
    GPU_OOM = "gpu_oom"
    DISK_FULL = "disk_full"  # at the next save: leaves a torn folder
    USER_CANCEL = "user_cancel"  # the job's own user cancels it
    NODE_DOWN = "node_down"  # a node loses power; Slurm notices later

    HANG = "hang"  # the log stops, the job keeps running
    SLOW = "slow"
    NAN = "nan"  # Megatron leaves the loss out of its line
    TEAR = "tear"  # the next save looks finished, but a shard is empty
    STOP_SAVING = "stop_saving"
    IGNORE_CHECKPOINT = "ignore_checkpoint"  # starts from scratch although there is a checkpoint
    GARBAGE = "garbage"  # bytes that are no text, and one line of a megabyte


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """One thing that goes wrong, once.

    It strikes in iteration `step`, so the last one reported is `step - 1`; where an attempt resumes behind `step`, at
    its first iteration. It waits for the attempt, the task and the node that it names.
    """

    kind: FaultKind
    step: int = 0
    attempt: int | None = None  # None: whichever attempt comes to the step first
    task: int | None = None  # of an array; None: whichever
    node: str = ""  # strikes only while the job runs there; "" with `rank` None: the last rank's node
    rank: int | None = None
    repeat: bool = False  # strikes again in every later attempt: a broken GPU, a bug in the code
    factor: float = 2.5  # SLOW: how many times longer a step takes
    # NODE_DOWN: the node is back so long after it was noticed (0: never). NCCL_TIMEOUT: silence before the report.
    seconds: float = 0
    exit_code: int = 1  # EXIT and TRACEBACK

    def __post_init__(self) -> None:
        if self.step < 0 or self.seconds < 0 or self.factor <= 0:
            raise ValueError(f"A fault needs step >= 0, seconds >= 0 and factor > 0, not {self}.")


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSpec:
    """A batch job that trains: what its user hands to sbatch, and what will happen to it."""

    name: str
    user: str = "ada"
    account: str = "research"
    partition: str = ""  # "": the cluster's first
    nodes: int = 1
    gpus_per_node: int = 8
    requeueable: bool = True
    time_limit_s: float | None = None
    excluded_nodes: tuple[str, ...] = ()
    required_nodes: tuple[str, ...] = ()
    features: str = ""  # the constraint: "h100" or "h100&ib"
    qos: str = "normal"
    reservation: str = ""
    array: tuple[int, ...] = ()  # task numbers; (): no array
    array_limit: int = 0  # so many tasks at a time; 0: any number
    hold: bool = False
    admin_comment: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    script: str = ""  # as it was handed in; "": one that says the same (recovery/slurm/simulator/scripts.py)
    work_dir: str = ""  # "": the state directory
    append: bool = False  # --open-mode=append; else each start empties the log, which is Slurm's default
    stdout: str = "logs/%x-%j.out"  # with Slurm's patterns; below the state directory, else nothing is written

    trainer: Trainer = Trainer.MEGATRON
    run: str = ""  # key of the run and name of its checkpoint folder; "": the job's name
    mode: str = ""  # what the comment asks of Recovery Desk; "": nothing
    max_restarts: int | None = None
    comment: str | None = None  # None: the JSON that names run, checkpoint_dir and log

    step_time_s: float = 1.0
    total_steps: int = 1000
    log_interval: int = 1
    save_every: int = 20  # 0: never saves
    save_s: float = 1.5
    shards: int = 2  # of a checkpoint: its model-parallel ranks, mp_rank_00 …
    startup_s: float = 2.0  # until it looks for a checkpoint
    load_s: float = 1.0
    warm_up_s: float = 1.0  # what the first step takes longer
    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        if not _FOLDER_NAME.fullmatch(self.run_key):
            raise ValueError(f"The run {self.run_key!r} is no folder name: letters, digits, '.', '_' and '-' only.")
        if self.nodes < 1 or self.gpus_per_node < 1 or min(self.total_steps, self.log_interval, self.shards) < 1:
            raise ValueError(
                "A job needs at least one node, one GPU per node, one step, one shard and a log interval of one."
            )
        if self.shards > MOST_SHARDS:
            raise ValueError(f"A checkpoint has at most {MOST_SHARDS} shards: each is a file.")
        if len(set(self.array)) < len(self.array) or min(self.array, default=0) < 0 or self.array_limit < 0:
            raise ValueError("An array has each task number once, and none below 0.")
        if self.step_time_s <= 0 or min(self.save_s, self.startup_s, self.load_s, self.warm_up_s, self.save_every) < 0:
            raise ValueError("A step takes some time, and no duration is negative.")

    @property
    def run_key(self) -> str:
        return self.run or self.name

    @property
    def ranks(self) -> int:
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeSpec:
    name: str
    gpus: int = 8
    features: tuple[str, ...] = ()
    rack: str = ""  # nodes of one rack can fail together


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionSpec:
    """Jobs of a higher tier start first, and may take the nodes of jobs in partitions that can be preempted."""

    name: str
    nodes: tuple[str, ...]
    up: bool = True  # False: takes jobs but starts none (DOWN)
    time_limit_s: float | None = None  # MaxTime; also what a job gets that asks for none
    tier: int = 1
    preempt: Preempt = Preempt.OFF


@dataclass(frozen=True, kw_only=True, slots=True)
class ReservationSpec:
    """Nodes set aside from `starts_s` to `ends_s` after the world began, for jobs that name the reservation."""

    name: str
    nodes: tuple[str, ...]
    starts_s: float
    ends_s: float
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    maintenance: bool = False

    def __post_init__(self) -> None:
        if not self.nodes or self.ends_s <= self.starts_s:
            raise ValueError(f"Reservation {self.name} needs nodes, and an end after its start.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stream:
    """Jobs of one kind that follow each other: when one has gone for good, the next is submitted."""

    template: JobSpec  # the first job
    later: JobSpec | None = None  # what follows it; None: the same, with faults of its own
    faults: tuple[FaultKind, ...] = ()  # what may happen to a later job
    mean_steps_to_fault: int = 1200


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """Keeps a cluster busy: people who submit the next job, and lose patience with one that stands still."""

    streams: tuple[Stream, ...]
    look_every_s: float = 10
    after_end_s: float = 60  # the next job follows one that finished or was cancelled so long after its end
    after_failure_s: float = 900  # … and one that failed so long: time to decide about it
    patience_s: float = 1800  # a job that hangs is cancelled by its user after so long


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterSpec:
    """One simulated cluster. The same spec, jobs and clock give the same logs to the byte."""

    seed: int
    nodes: tuple[NodeSpec, ...]
    partitions: tuple[PartitionSpec, ...] = ()  # (): one, "main", with all nodes
    reservations: tuple[ReservationSpec, ...] = ()
    release: str = "22.05.8"
    accounting: bool = True
    accounting_lag_s: float = 0  # accounting learns of a start or an end so much later
    requeue_delay_s: float = 6  # Slurm: cred_expire + 1; its default would be 121
    latency_s: float = 0.6  # sbatch, or any other reason to run, until a job starts on an idle cluster
    completing_s: float = 1.0
    min_job_age_s: float = 300  # how long the controller knows an ended job
    limit_check_s: float = 30  # Slurm looks at time limits only so often
    node_timeout_s: float = 11  # a dead node is noticed so much later
    first_job_id: int = 4101
    max_job_id: int = 67_043_328  # Slurm's default; the next id after it is the first one again
    keep_checkpoints: int = 6  # of each run, the newest ones
    keep_records_s: float | None = None  # then accounting, log and checkpoints of an ended job go; None: never
    # A world that nobody looked at for longer stands still meanwhile; None: it goes on, however long that was.
    pause_after_s: float | None = None
    workload: Workload | None = None

    def __post_init__(self) -> None:
        names = [node.name for node in self.nodes]
        if not names or len(set(names)) != len(names):
            raise ValueError("A cluster needs at least one node, and each name once.")
        if not self.partitions:
            object.__setattr__(self, "partitions", (PartitionSpec(name="main", nodes=tuple(names)),))
        if not 1 <= self.first_job_id <= self.max_job_id:
            raise ValueError("first_job_id is at least 1, and max_job_id not below it.")
        named = [(p.name, p.nodes) for p in self.partitions] + [(r.name, r.nodes) for r in self.reservations]
        for name, nodes in named:
            if strange := set(nodes) - set(names):
                raise ValueError(f"{name} names unknown nodes: {', '.join(sorted(strange))}.")

    def partition(self, name: str) -> PartitionSpec | None:
        """The partition of that name, the default one for ""."""
        wanted = name or self.partitions[0].name
        return next((p for p in self.partitions if p.name == wanted), None)

    def partitions_of(self, node: str) -> tuple[str, ...]:
        return tuple(p.name for p in self.partitions if node in p.nodes)


def make_nodes(
    count: int, *, prefix: str = "gpu-", gpus: int = 8, features: tuple[str, ...] = (), per_rack: int = 0
) -> tuple[NodeSpec, ...]:
    """gpu-01 … gpu-NN, as sites name them; with `per_rack`, so many of them in each of rack-1, rack-2, …"""
    width = max(2, len(str(count)))
    return tuple(
        NodeSpec(
            name=f"{prefix}{number:0{width}d}",
            gpus=gpus,
            features=features,
            rack=f"rack-{(number - 1) // per_rack + 1}" if per_rack else "",
        )
        for number in range(1, count + 1)
    )
