"""What a lab needs to know of its host: packages, ports, and which processes belong to which of its nodes."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from recovery.demo.lab_conf import PORTS, LabError, LabSpec

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OWN_SLURM = "RECOVERY_LAB_SLURM"  # in the environment: where another Slurm is installed (bin, sbin, lib/slurm below it)
_PROGRAMS = {"munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client"}
_ACCOUNTING_PROGRAMS = {"slurmdbd": "slurmdbd", "mariadbd": "mariadb-server", "mariadb-install-db": "mariadb-server"}
_NEVER_SLURMS = frozenset({"munged", *_ACCOUNTING_PROGRAMS}) - {"slurmdbd"}
_MYSQL_PLUGIN = "accounting_storage_mysql.so"
_JWT_PLUGIN = "auth_jwt.so"


def own_slurm() -> Path | None:
    """The Slurm that labs are made of instead of the host's; None: the host's."""
    named = os.environ.get(OWN_SLURM)
    return Path(named).absolute() if named else None


def search_path() -> str:
    """Where a lab's programs are looked for."""
    own = own_slurm()
    return f"{own}/sbin:{own}/bin:{SEARCH_PATH}" if own else SEARCH_PATH


def missing_packages(*, accounting: bool, rest: bool = False) -> list[str]:
    """The Debian packages that a lab would still need here, by what they hold; empty: it can start."""
    programs = _PROGRAMS | (_ACCOUNTING_PROGRAMS if accounting else {}) | ({"slurmrestd": "slurmrestd"} if rest else {})
    missing = {package for program, package in programs.items() if not _has(program)}
    if accounting and not _has_plugin(_MYSQL_PLUGIN):
        missing.add("slurm-wlm-mysql-plugin")
    if rest and not _has_plugin(_JWT_PLUGIN):
        missing.add("slurm-wlm-jwt-plugin")
    return sorted(missing)


def _has(program: str) -> bool:
    """Two releases of Slurm are never mixed: what another one lacks is not looked for among the host's."""
    own = own_slurm()
    path = f"{own}/sbin:{own}/bin" if own and program not in _NEVER_SLURMS else SEARCH_PATH
    return shutil.which(program, path=path) is not None


def _has_plugin(name: str) -> bool:
    own = own_slurm()
    hosts = [Path("/usr/lib/slurm"), Path("/usr/lib64/slurm"), *Path("/usr/lib").glob("*/slurm-wlm")]
    folders = [own / "lib" / "slurm", own / "lib64" / "slurm"] if own else hosts
    return any((folder / name).exists() for folder in folders)


def why_impossible(*, accounting: bool, rest: bool = False) -> str:
    """One sentence on why no lab can run here, with the remedy; "" where one can."""
    if not Path("/proc/self/stat").exists():
        return "A lab needs Linux: it tells its processes apart by /proc."
    missing = missing_packages(accounting=accounting, rest=rest)
    if missing and (own := own_slurm()):
        return f"{OWN_SLURM} names {own}, and not all is there that these Debian packages hold: {', '.join(missing)}"
    if missing:
        return f"Debian packages are missing: apt-get install --no-install-recommends {' '.join(missing)}"
    if os.geteuid() != 0:
        return "slurmd starts jobs for their users and so must run as root: run this as root (in a container, say)."
    host = short_host_name()
    try:
        addresses = {str(info[4][0]) for info in socket.getaddrinfo(host, None, family=socket.AF_INET)}
    except OSError:
        addresses = set()
    if addresses != {"127.0.0.1"}:
        found = ", ".join(sorted(addresses)) or "nothing"
        return (
            f"The host name {host} means {found}, and Slurm listens on what the host name means. "
            f'A lab stays on loopback: put "127.0.0.1 {host}" at the top of /etc/hosts.'
        )
    return ""


def short_host_name() -> str:
    return socket.gethostname().partition(".")[0]


def free_base_port(*, first: int = 20_000, last: int = 32_000) -> int:
    """A base port whose whole range is free now, tried by binding. LabError where there is none.

    Two processes that start at once look at different places first, since each begins at its own pid.
    """
    bases = range(first, last - PORTS, PORTS)
    for turn in range(len(bases)):
        base = bases[(os.getpid() + turn) % len(bases)]
        if not taken_ports(LabSpec(base_port=base, nodes=8)):
            return base
    raise LabError(f"No free range of {PORTS} ports between {first} and {last}: stop what listens there.")


def taken_ports(spec: LabSpec) -> list[int]:
    return [port for port in spec.listening_ports if not _can_bind(port)]


def _can_bind(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT is free
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def node_processes(root: Path, node: str = "") -> set[int]:
    """Steps and job processes of one node (of all nodes where `node` is empty), not the slurmd itself.

    Never by name alone. A slurmstepd keeps its slurmd's log file open, which lies in the lab's folder; its argument
    list and environment say nothing. What a job started carries the lab's SLURM_CONF and its node's name in its
    environment, wherever it went since (a second fork escapes Slurm's own tracking).
    """
    return {pid for pid in _pids() if _is_step(pid, root, node) or _is_job(pid, root, node)} - {os.getpid()}


def kill_all(pids: set[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _is_step(pid: int, root: Path, node: str) -> bool:
    try:
        if Path(f"/proc/{pid}/comm").read_text(errors="replace").strip() != "slurmstepd":
            return False
        open_files = {str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()}
    except OSError:  # it ended while we looked
        return False
    start = f"{root}/log/slurmd."
    return any(name == f"{start}{node}.log" if node else name.startswith(start) for name in open_files)


def _is_job(pid: int, root: Path, node: str) -> bool:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    if f"SLURM_CONF={root}/etc/slurm.conf".encode() not in variables:
        return False
    wanted = f"SLURMD_NODENAME={node}".encode()
    return any(entry == wanted if node else entry.startswith(wanted) for entry in variables)
