"""The configuration files of a lab: a Slurm of several nodes on one host, on loopback only, in one folder.

Settings that differ from Slurm's defaults are here for one of four reasons: everything stays in the folder, everything
stays on loopback, many slurmd share one host, or a fault shows within seconds instead of minutes.
"""

from __future__ import annotations

import dataclasses
import json
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

PORTS = 400  # a lab uses base_port … base_port + PORTS - 1
MAX_NODES = 180
_CONTROLLER, _ACCOUNTING, _REST, _FIRST_NODE, _FIRST_SRUN = 0, 1, 2, 10, 200

# Slurm reads '#', blanks, commas and '%' in a path as its own syntax; a unix socket's path ends at 107 bytes.
_SAFE_PATH = re.compile(r"/[A-Za-z0-9._/-]{1,80}")


class LabError(Exception):
    """A lab that can't do what it was asked to; the message says what to do about it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LabSpec:
    """What a lab looks like. Stored in its folder, so that a later process finds it as it is."""

    nodes: int = 4
    base_port: int = 17000
    cluster: str = "lab"  # ClusterName
    accounting: bool = False
    accounts_in: str = ""  # the folder of another lab, with accounting, whose slurmdbd keeps this one's accounts too
    rest: bool = False  # slurmrestd, on a unix socket and with JWT on a port
    gpus_per_node: int = 0  # counted only: no device files, nothing is bound
    nodes_per_switch: int = 0  # as Slurm is told: leaf1 has n1, n2, …, and core all leaves; 0: no topology
    cpus_per_node: int = 8
    # How long a requeued job waits: cred_expire plus 1. Slurm's default is 120, its least value 5 (job_mgr.c).
    cred_expire_s: int = 5
    min_job_age_s: int = 300  # how long an ended job stays known
    # After how long a silent node is lost, with its jobs. More than a busy machine ever starves a slurmd, where no test
    # lets one fall silent.
    slurmd_timeout_s: int = 3

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= MAX_NODES:
            raise LabError(f"A lab of {self.nodes} nodes: give 1 to {MAX_NODES}.")
        if not 1024 <= self.base_port <= 65_535 - PORTS:
            raise LabError(f"Base port {self.base_port}: give 1024 to {65_535 - PORTS}; {PORTS} ports are used.")

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple(f"n{number}" for number in range(1, self.nodes + 1))

    @property
    def switches(self) -> dict[str, tuple[str, ...]]:
        """The nodes of each leaf."""
        size = self.nodes_per_switch
        starts = range(0, self.nodes, size) if size else ()
        return {f"leaf{number}": self.node_names[at : at + size] for number, at in enumerate(starts, start=1)}

    @property
    def listening_ports(self) -> tuple[int, ...]:
        """The ports of the daemons; srun takes more as it needs them."""
        offsets = (_CONTROLLER, _ACCOUNTING, _REST, *range(_FIRST_NODE, _FIRST_NODE + self.nodes))
        return tuple(self.base_port + offset for offset in offsets)

    @property
    def rest_url(self) -> str:
        """Where slurmrestd takes JWT."""
        return f"http://127.0.0.1:{self.base_port + _REST}"

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> LabSpec:
        return cls(**json.loads(text))


def check_folder(root: Path) -> None:
    """Raise LabError where Slurm could not live in this folder."""
    if not _SAFE_PATH.fullmatch(str(root)):
        raise LabError(
            f"The lab's folder {root} won't do: Slurm needs an absolute path of at most 80 plain characters "
            "(letters, digits, dot, dash, underscore). Name another folder, for example below /tmp."
        )


def slurm_conf(spec: LabSpec, *, root: Path, host: str) -> str:
    """slurm.conf for Slurm 22.05 and newer."""
    first_srun = spec.base_port + _FIRST_SRUN
    # The ping of a lost node takes about this long, so it decides how fast NODE_FAIL comes; 10 is Slurm's default.
    message_timeout_s = min(10, spec.slurmd_timeout_s)
    lines = [
        f"ClusterName={spec.cluster}",
        f"SlurmctldHost={host}(127.0.0.1)",
        f"SlurmctldPort={spec.base_port + _CONTROLLER}",
        f"SrunPortRange={first_srun}-{spec.base_port + PORTS - 1}",
        # Without these two the daemons listen on every address.
        "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny",
        "SlurmUser=root",
        "SlurmdUser=root",
        *_auth(spec, root),
        f"StateSaveLocation={root}/state",
        f"SlurmdSpoolDir={root}/spool/%n",
        f"SlurmctldPidFile={root}/run/slurmctld.own",
        f"SlurmdPidFile={root}/run/slurmd.%n.own",
        f"SlurmctldLogFile={root}/log/slurmctld.log",
        f"SlurmdLogFile={root}/log/slurmd.%n.log",
        "SlurmctldDebug=verbose",
        "SlurmdDebug=verbose",
        "LogTimeFormat=iso8601_ms",
        f"PlugStackConfig={root}/etc/plugstack.conf",  # empty: keeps the host's own out
        "MpiDefault=none",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "SwitchType=switch/none",
        *(["TopologyPlugin=topology/tree"] if spec.nodes_per_switch else []),
        "JobAcctGatherType=jobacct_gather/none",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core",
        "SlurmdParameters=config_overrides",  # more CPUs than the host has
        "PriorityType=priority/basic",
        "SchedulerType=sched/backfill",
        "SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0,batch_sched_delay=0",
        "SlurmctldTimeout=10",
        f"SlurmdTimeout={spec.slurmd_timeout_s}",
        f"BatchStartTimeout={max(10, spec.slurmd_timeout_s)}",
        f"MessageTimeout={message_timeout_s}",
        "KillWait=2",
        f"UnkillableStepTimeout={5 * message_timeout_s}",  # newer releases complain below this
        "CompleteWait=0",
        "InactiveLimit=0",
        f"MinJobAge={spec.min_job_age_s}",
        "OverTimeLimit=0",
        "HealthCheckInterval=0",
        "ReturnToService=1",  # 2 would undo within a second what an admin set down
        "JobRequeue=1",
        *_accounting(spec, root),
        *_nodes(spec, host),
        f"PartitionName=main Nodes={','.join(spec.node_names)} Default=YES MaxTime=INFINITE State=UP",
    ]
    return "\n".join(lines) + "\n"


def _auth(spec: LabSpec, root: Path) -> list[str]:
    munge = f"AuthInfo=socket={root}/run/munge.socket,cred_expire={spec.cred_expire_s}"
    jwt = ["AuthAltTypes=auth/jwt", f"AuthAltParameters=jwt_key={jwt_key(root)}"] if spec.rest else []
    return ["AuthType=auth/munge", munge, *jwt]


def jwt_key(root: Path) -> Path:
    return root / "etc" / "jwt.key"


def _accounting(spec: LabSpec, root: Path) -> list[str]:
    if not spec.accounting:
        return ["AccountingStorageType=accounting_storage/none"]
    return [
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=localhost",
        f"AccountingStoragePort={accounting_port(spec)}",
        f"AccountingStoragePass={root}/run/munge.socket",  # else sacct looks for the host's own munge
        "AccountingStoreFlags=job_comment,job_script",
        *(["AccountingStorageTRES=gres/gpu"] if spec.gpus_per_node else []),
    ]


def accounting_port(spec: LabSpec) -> int:
    """Where the lab's slurmdbd listens, or that of the lab whose accounting it shares. Raises LabError."""
    if not spec.accounts_in:
        return spec.base_port + _ACCOUNTING
    try:
        keeper = LabSpec.from_json((Path(spec.accounts_in) / "lab.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError) as error:
        raise LabError(f"{spec.accounts_in} holds no lab whose accounting could be shared: {error}") from error
    return accounting_port(keeper)


def _nodes(spec: LabSpec, host: str) -> list[str]:
    gres = f" Gres=gpu:{spec.gpus_per_node}" if spec.gpus_per_node else ""
    lines = ["GresTypes=gpu"] if spec.gpus_per_node else []
    for place, name in enumerate(spec.node_names):
        lines.append(
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={spec.base_port + _FIRST_NODE + place} "
            f"CPUs={spec.cpus_per_node} RealMemory=4000{gres} State=UNKNOWN"
        )
    return lines


def gpu_files(spec: LabSpec, *, root: Path) -> list[Path]:
    """Plain files that stand in for GPU devices: slurmd drops a GPU without a file, and binds none of them here."""
    return [root / "dev" / f"gpu{number}" for number in range(spec.gpus_per_node)]


def gres_conf(spec: LabSpec, *, root: Path) -> str:
    nodes = ",".join(spec.node_names)
    return "".join(f"NodeName={nodes} Name=gpu File={file}\n" for file in gpu_files(spec, root=root))


def topology_conf(spec: LabSpec) -> str:
    leaves = "".join(f"SwitchName={name} Nodes={','.join(nodes)}\n" for name, nodes in spec.switches.items())
    return f"{leaves}SwitchName=core Switches={','.join(spec.switches)}\n"


def slurmdbd_conf(spec: LabSpec, *, root: Path) -> str:
    """slurmdbd.conf: it reaches MariaDB through a unix socket (MYSQL_UNIX_PORT in its environment)."""
    lines = [
        "DbdHost=localhost",
        "DbdAddr=127.0.0.1",
        f"DbdPort={spec.base_port + _ACCOUNTING}",
        "CommunicationParameters=NoInAddrAny",
        "SlurmUser=root",
        *_auth(spec, root),
        "StorageType=accounting_storage/mysql",
        "StorageHost=localhost",
        "StorageUser=root",
        "StorageLoc=slurm_lab",
        f"LogFile={root}/log/slurmdbd.log",
        f"PidFile={root}/run/slurmdbd.own",
        "DebugLevel=verbose",
        "LogTimeFormat=iso8601_ms",
    ]
    return "\n".join(lines) + "\n"


def cgroup_plugin(release: tuple[int, int]) -> str:
    """From 23.11 on one starts, whatever ProctrackType says; from 24.05 on it can be left out. "": none starts."""
    if release < (23, 11):
        return ""
    return "disabled" if release >= (24, 5) else "cgroup/v1"


def write_files(spec: LabSpec, *, root: Path, host: str, release: tuple[int, int]) -> None:
    """Make the lab's folders and configuration files; keys are made once and kept."""
    for folder in ("etc", "run", "log", "state", "spool", "dev", *(f"spool/{name}" for name in spec.node_names)):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for public in (root, root / "run", root / "etc"):
        public.chmod(0o755)  # other users submit too: they read slurm.conf and use munge's socket
    for file in gpu_files(spec, root=root):
        file.touch()
    etc = root / "etc"
    _write(root / "lab.json", spec.to_json())
    _write(etc / "slurm.conf", slurm_conf(spec, root=root, host=host))
    _write(etc / "gres.conf", gres_conf(spec, root=root))
    _write(etc / "plugstack.conf", "")
    if spec.nodes_per_switch:
        _write(etc / "topology.conf", topology_conf(spec))
    if plugin := cgroup_plugin(release):
        _write(etc / "cgroup.conf", f"CgroupPlugin={plugin}\n")
    if spec.accounting and not spec.accounts_in:
        _write(etc / "slurmdbd.conf", slurmdbd_conf(spec, root=root), mode=0o600)
    if spec.accounts_in:  # daemons of one slurmdbd have to trust each other
        _write(etc / "munge.key", (Path(spec.accounts_in) / "etc" / "munge.key").read_text(), mode=0o600)
    elif not (etc / "munge.key").exists():
        _write(etc / "munge.key", secrets.token_hex(64), mode=0o600)
    if spec.rest and not jwt_key(root).exists():
        _write(jwt_key(root), secrets.token_hex(32), mode=0o600)


def _write(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Whole or not at all, and not readable by others before its mode says so."""
    draft = path.with_name(path.name + ".new")
    draft.touch(mode=0o600)
    draft.write_text(text, encoding="utf-8")
    draft.chmod(mode)
    draft.replace(path)
