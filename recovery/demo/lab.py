"""A real Slurm in one folder: several nodes on one host, on loopback only, thrown away afterwards.

    python -m recovery.demo.lab up /tmp/lab --nodes 4 --accounting
    eval "$(python -m recovery.demo.lab env /tmp/lab)"; sinfo
    python -m recovery.demo.lab crash-node /tmp/lab n2
    python -m recovery.demo.lab wipe /tmp/lab

The Slurm is the host's own, or the one that is installed in the folder RECOVERY_LAB_SLURM (bin, sbin and lib/slurm
below it): a release that no package has, say. Set it for each of these commands, and for tests.

Every daemon records itself in the folder before it becomes one (run/NAME.pid: pid and start time), so a later `up`,
`down` or `wipe` finds it however the one that started it ended. Nothing outside the folder is written.
"""

from __future__ import annotations

import argparse
import dataclasses
import fcntl
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from recovery.demo import lab_conf, lab_host
from recovery.demo.lab_conf import LabError, LabSpec
from recovery.demo.lab_services import LabServices
from recovery.demo.processes import wait_until

LOCK = "lab.lock"  # the first file of a lab's folder


class SlurmLab:
    """One lab. Cheap to make: nothing happens before up(). All methods raise LabError with a remedy.

    The nodes are n1, n2, …, all in the partition `main`. Base port and the 399 ports above it belong to the lab.
    """

    def __init__(
        self,
        root: Path,
        *,
        base_port: int,
        nodes: int = 4,
        cluster: str = "lab",
        accounting: bool = False,
        accounts_in: str = "",
        rest: bool = False,
        gpus_per_node: int = 0,
        nodes_per_switch: int = 0,
        min_job_age_s: int = 300,
        slurmd_timeout_s: int = 3,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.root = root.absolute()
        self.spec = LabSpec(
            base_port=base_port,
            nodes=nodes,
            cluster=cluster,
            accounting=accounting,
            accounts_in=accounts_in,
            rest=rest,
            gpus_per_node=gpus_per_node,
            nodes_per_switch=nodes_per_switch,
            min_job_age_s=min_job_age_s,
            slurmd_timeout_s=slurmd_timeout_s,
        )
        self._say = say
        self._services = LabServices(self.root)
        self._daemons = self._services.daemons

    @classmethod
    def existing(cls, root: Path, *, say: Callable[[str], None] = lambda _: None) -> SlurmLab:
        """The lab that this folder holds, as it was brought up."""
        spec = _stored_spec(root.absolute())
        if spec is None:
            raise LabError(f"{root} holds no lab (no lab.json in it): bring one up there first.")
        lab = cls(root, base_port=spec.base_port, say=say)
        lab.spec = spec
        return lab

    @property
    def conf(self) -> Path:
        return self._services.conf

    @property
    def options(self) -> dict[str, str]:
        """What the back end `cli` is told of this lab."""
        own = lab_host.own_slurm()
        return {"slurm_conf": str(self.conf), **({"bin_dir": f"{own}/bin"} if own else {})}

    @property
    def rest_urls(self) -> tuple[str, str]:
        """slurmrestd on a socket (rest_auth/local) and on a port (JWT), where the lab has it."""
        return f"unix:{self._services.rest_socket}", self.spec.rest_url

    @property
    def env(self) -> dict[str, str]:
        """The environment in which Slurm's commands reach this lab."""
        return self._services.env

    @property
    def node_names(self) -> tuple[str, ...]:
        return self.spec.node_names

    @property
    def is_running(self) -> bool:
        """Whether anything of it runs."""
        return self._daemons.any_running()

    # --- up and down -------------------------------------------------------------------------------------------------

    def up(self) -> None:
        """Bring everything up and return when all nodes are usable; what already runs is left running.

        A lab of another shape that runs in the folder is taken down first, with its jobs.
        """
        lab_conf.check_folder(self.root)
        reason = lab_host.why_impossible(accounting=self.spec.accounting, rest=self.spec.rest)
        if reason:
            raise LabError(f"No Slurm lab can run here. {reason}")
        self.root.mkdir(parents=True, exist_ok=True)
        with self._locked():
            stored = _stored_spec(self.root)
            if stored is not None and stored != self.spec:
                self._down()
            try:
                self._up()
            except BaseException:
                self._down()  # half a lab is of no use, and nobody would look for it
                raise

    def _up(self) -> None:
        started = time.monotonic()
        if not self._daemons.any_running():
            taken = lab_host.taken_ports(self.spec)
            if taken:
                ports = ", ".join(map(str, taken))
                raise LabError(f"Another program listens on {ports}: give the lab another base port.")
        services, host = self._services, lab_host.short_host_name()
        lab_conf.write_files(self.spec, root=self.root, host=host, release=services.release())
        services.start_munge()
        if self.spec.accounts_in:
            services.add_cluster(self.spec.cluster)
        elif self.spec.accounting:
            services.start_database()
            services.start_slurmdbd(self.spec.cluster)
        services.start_slurmctld()
        for name in self.node_names:
            services.start_slurmd(name)
        services.await_nodes(self.node_names, timeout_s=30)
        if self.spec.rest:
            services.start_slurmrestd(self.spec)
        self._say(f"{self.spec.nodes} nodes ready after {time.monotonic() - started:.1f} s")

    def down(self) -> None:
        """Cancel all jobs and stop everything; logs and state stay."""
        if self.root.exists():
            with self._locked():
                self._down()

    def _down(self) -> None:
        if self._daemons.running("slurmctld"):
            self._cancel_jobs()
        self._daemons.stop("slurmrestd", "slurmrestd-jwt", grace_s=3)
        self._services.rest_socket.unlink(missing_ok=True)
        self._daemons.stop("slurmctld", grace_s=10)
        self._daemons.stop(*(name for name in self._daemons.names() if name.startswith("slurmd.")), grace_s=3)
        self._kill_processes()
        self._daemons.stop("slurmdbd", grace_s=5)
        self._daemons.stop("mariadbd", grace_s=10)
        self._daemons.stop("munged", grace_s=3)

    def wipe(self) -> None:
        """down(), then remove the folder. Refuses a folder that holds no lab."""
        if not self.root.exists():
            return
        if not (self.root / LOCK).exists() and any(self.root.iterdir()):
            raise LabError(f"{self.root} holds no lab (no {LOCK} in it): remove it by hand if that is what you want.")
        self.down()
        shutil.rmtree(self.root, ignore_errors=True)

    # --- faults ------------------------------------------------------------------------------------------------------

    def crash_node(self, name: str) -> None:
        """A power cut: slurmd, its steps and all processes of its jobs end at once."""
        self.kill_node(name)
        self._kill_processes(name)

    def kill_node(self, name: str) -> None:
        """Only the slurmd ends; what its jobs run goes on."""
        self._kill(self._daemon_of(name))

    def start_node(self, name: str) -> None:
        """Start the slurmd again and wait until the controller can use the node."""
        self._daemon_of(name)
        with self._locked():
            self._services.start_slurmd(name)
            self._services.await_nodes((name,), timeout_s=20)

    def kill_controller(self) -> None:
        self._kill("slurmctld")

    def start_controller(self) -> None:
        with self._locked():
            self._services.start_slurmctld()

    def kill_accounting(self) -> None:
        self._kill("slurmdbd")

    def start_accounting(self) -> None:
        with self._locked():
            self._services.start_slurmdbd(self.spec.cluster)

    # --- use ---------------------------------------------------------------------------------------------------------

    def run(self, *argv: str, user: str = "", cwd: Path | None = None, script: str = "") -> str:
        """Run a command against the lab, as root or as `user`; its output. LabError where it ends with an error."""
        return self._services.run(*argv, user=user, cwd=cwd, script=script)

    def submit(self, script: str, *, work_dir: Path, options: Sequence[str] = (), user: str = "") -> str:
        """sbatch a script given as text; the job's id."""
        argv = ("sbatch", "--parsable", f"--chdir={work_dir}", *options)
        return self.run(*argv, user=user, cwd=work_dir, script=script).strip().partition(";")[0]

    def status(self) -> list[str]:
        """One line per daemon and per node, for people."""
        lines = []
        for name in self._daemons.names():
            process = self._daemons.running(name)
            lines.append(f"{name:<12} {process.pid if process else 'not running'}")
        if self._daemons.running("slurmctld"):
            lines.append(self.run("sinfo", "-N", "-o", "%N %T %E").strip())
        return lines

    # --- the pieces --------------------------------------------------------------------------------------------------

    def _kill(self, daemon: str) -> None:
        with self._locked():
            if not self._daemons.kill(daemon):
                raise LabError(f"{daemon} does not run in {self.root}.")

    def _kill_processes(self, node: str = "") -> None:
        for _ in range(20):  # one that is about to start another one escapes a single look
            pids = lab_host.node_processes(self.root, node)
            if not pids:
                return
            lab_host.kill_all(pids)
            time.sleep(0.02)

    def _cancel_jobs(self) -> None:
        try:
            ids = set(self.run("squeue", "-h", "-o", "%A").split())
            if ids:
                self.run("scancel", "-Q", "-f", *sorted(ids))
        except LabError:
            return  # a controller that doesn't answer can't cancel; the processes are ended one by one afterwards
        wait_until(lambda: not lab_host.node_processes(self.root), timeout_s=3)

    def _daemon_of(self, node: str) -> str:
        if node not in self.node_names:
            raise LabError(f"There is no node {node!r}: this lab has {', '.join(self.node_names)}.")
        return f"slurmd.{node}"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One of us at a time; a lock that ends with its holder."""
        if not self.root.exists():
            raise LabError(f"There is no lab in {self.root}: bring one up there first.")
        with (self.root / LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _stored_spec(root: Path) -> LabSpec | None:
    """What the folder's lab was brought up as; None where there is none, or one of another version of this program."""
    try:
        return LabSpec.from_json((root / "lab.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return None


# What can be asked of a new lab: field of LabSpec → its word on the command line.
OPTIONS = {
    "nodes": "--nodes",
    "base_port": "--port",
    "accounting": "--accounting",
    "rest": "--rest",
    "gpus_per_node": "--gpus",
    "nodes_per_switch": "--nodes-per-switch",
}

COMMANDS: dict[str, Callable[[SlurmLab], None]] = {
    "down": SlurmLab.down,
    "wipe": SlurmLab.wipe,
    "status": lambda lab: print("\n".join(lab.status())),
    "env": lambda lab: print(_exports(lab)),
    "kill-controller": SlurmLab.kill_controller,
    "start-controller": SlurmLab.start_controller,
    "kill-accounting": SlurmLab.kill_accounting,
    "start-accounting": SlurmLab.start_accounting,
}
NODE_COMMANDS: dict[str, Callable[[SlurmLab, str], None]] = {
    "crash-node": SlurmLab.crash_node,
    "kill-node": SlurmLab.kill_node,
    "start-node": SlurmLab.start_node,
}


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m recovery.demo.lab", description="A real Slurm in one folder.")
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="bring a lab up in FOLDER; one that runs there stays as it is")
    default, switch = LabSpec(), argparse.BooleanOptionalAction
    ports = f"the first of {lab_conf.PORTS} ports ({default.base_port})"
    up.add_argument("--nodes", type=int, help=f"how many ({default.nodes})")
    up.add_argument("--port", type=int, dest="base_port", metavar="PORT", help=ports)
    up.add_argument("--accounting", action=switch, help="with MariaDB and slurmdbd")
    up.add_argument("--rest", action=switch, help="with slurmrestd, on a socket and with JWT on a port")
    up.add_argument("--gpus", type=int, dest="gpus_per_node", metavar="GPUS", help="per node: counted, not bound")
    up.add_argument("--nodes-per-switch", type=int, metavar="NODES", help="as Slurm's topology has it (none)")
    for name, method in (COMMANDS | NODE_COMMANDS).items():
        commands.add_parser(name, help=(method.__doc__ or "").partition("\n")[0] or None)
    for name, command in commands.choices.items():
        command.add_argument("folder", type=Path)
        if name in NODE_COMMANDS:
            command.add_argument("node")
    return parser.parse_args(argv)


def _lab_for_up(folder: Path, asked: dict[str, Any]) -> SlurmLab:
    """A new lab of what is asked for; where there is one, that one, and what was not asked for stays as it was made.

    Raises LabError where the one that runs is another: to change it would end its jobs, and nobody asked for that.
    """
    if _stored_spec(folder.absolute()) is None:
        return SlurmLab(folder, **{"base_port": LabSpec().base_port, **asked}, say=print)
    lab = SlurmLab.existing(folder, say=print)
    wanted = dataclasses.replace(lab.spec, **asked)
    if lab.is_running:
        if differs := [_said(lab.spec, name) for name in asked if getattr(wanted, name) != getattr(lab.spec, name)]:
            raise LabError(
                f"The lab in {folder} runs with {', '.join(differs)}: nothing was changed. Leave these options out to "
                "have it as it is, or end it first with `down` (its jobs are cancelled) or `wipe`."
            )
        print(f"The lab in {folder} is up: {', '.join(_said(lab.spec, name) for name in OPTIONS)}; it stays as it is")
    lab.spec = wanted
    return lab


def _exports(lab: SlurmLab) -> str:
    path = f" PATH={shlex.quote(lab.env['PATH'])}" if lab_host.own_slurm() else ""
    return f"export SLURM_CONF={lab.conf}{path}"


def _said(spec: LabSpec, name: str) -> str:
    value = getattr(spec, name)
    if isinstance(value, bool):
        return OPTIONS[name] if value else f"--no-{OPTIONS[name].removeprefix('--')}"
    return f"{OPTIONS[name]} {value}"


def main(argv: Sequence[str]) -> None:
    args = _arguments(argv)
    if args.command == "up":
        _lab_for_up(args.folder, {name: value for name in OPTIONS if (value := getattr(args, name)) is not None}).up()
    elif args.command in NODE_COMMANDS:
        NODE_COMMANDS[args.command](SlurmLab.existing(args.folder), args.node)
    else:
        COMMANDS[args.command](SlurmLab.existing(args.folder))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except LabError as error:
        sys.exit(f"lab: {error}")
