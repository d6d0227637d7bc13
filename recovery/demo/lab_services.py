"""Starting the programs of a lab, one by one, each with the check that says it answers."""

from __future__ import annotations

import os
import pwd
import re
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

from recovery.demo.lab_conf import LabError, LabSpec
from recovery.demo.lab_daemons import Daemons
from recovery.demo.lab_host import search_path
from recovery.demo.processes import wait_until


class LabServices:
    """Starts are idempotent: what already runs is left alone. All raise LabError with the place of the log."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.daemons = Daemons(root)

    @property
    def conf(self) -> Path:
        return self.root / "etc" / "slurm.conf"

    @property
    def env(self) -> dict[str, str]:
        """The environment of the lab's daemons and of every Slurm command that is to reach it."""
        inherited = {name: os.environ[name] for name in ("HOME", "LD_LIBRARY_PATH") if name in os.environ}
        return inherited | {"PATH": search_path(), "LC_ALL": "C.UTF-8", "SLURM_CONF": str(self.conf)}

    @property
    def rest_socket(self) -> Path:
        return self.root / "run" / "slurmrestd.socket"

    def run(self, *argv: str, user: str = "", cwd: Path | None = None, script: str = "") -> str:
        """Run a command in the lab's environment, as root or as `user`; its output. `script` goes to its input."""
        account = pwd.getpwnam(user) if user else None
        try:
            done = subprocess.run(
                argv,
                env=self.env,
                cwd=cwd,
                input=script,
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
                user=account.pw_uid if account else None,
                group=account.pw_gid if account else None,
                extra_groups=[] if account else None,
            )
        except subprocess.TimeoutExpired as error:
            raise LabError(f"{' '.join(argv)} gave no answer within 30 s.") from error
        if done.returncode:
            raise LabError(f"{' '.join(argv)} ended with {done.returncode}: {done.stderr.strip() or 'no message'}")
        return done.stdout

    def release(self) -> tuple[int, int]:
        """Slurm's release here: (22, 5)."""
        found = re.search(r"(\d+)\.(\d+)", self.run("slurmctld", "-V"))
        return (int(found[1]), int(found[2])) if found else (0, 0)

    def start_munge(self) -> None:
        run, log = self.root / "run", self.root / "log"
        socket = f"--socket={run}/munge.socket"
        files = [f"--key-file={self.root}/etc/munge.key", f"--log-file={log}/munged.log"]
        own = [f"--pid-file={run}/munged.own", f"--seed-file={run}/munged.seed"]
        options = ["--num-threads=4", "--group-update-time=-1", "--origin=127.0.0.1"]
        self._start("munged", ["munged", "-F", socket, *files, *own, *options])
        self._await_answer(["munge", "-n", "-S", f"{run}/munge.socket"], of="munged", timeout_s=5)

    def start_database(self) -> None:
        data, run = self.root / "mysql", self.root / "run"
        # When it starts it removes what it finds of temporary tables: in a shared folder, those of another lab's.
        common = ["--no-defaults", "--user=root", f"--datadir={data}", f"--tmpdir={run}"]
        if not (data / "mysql").exists():
            self.run("mariadb-install-db", *common, "--auth-root-authentication-method=socket", "--skip-test-db")
        place = [f"--socket={run}/mysql.sock", f"--pid-file={run}/mariadbd.own", "--skip-networking"]
        # Nothing here has to survive a power cut; a start has to be quick.
        quick = ["--skip-log-bin", "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0"]
        more = ["--performance-schema=OFF", "--innodb-lock-wait-timeout=900"]
        self._start("mariadbd", ["mariadbd", *common, *place, *quick, *more])
        self._await_answer(
            ["mariadb-admin", "--no-defaults", "-S", f"{run}/mysql.sock", "ping"], of="mariadbd", timeout_s=30
        )

    def start_slurmdbd(self, cluster: str) -> None:
        # It takes slurmdbd.conf from the folder of SLURM_CONF, and MariaDB's client library reads the socket's path.
        self._start("slurmdbd", ["slurmdbd", "-D"], MYSQL_UNIX_PORT=str(self.root / "run" / "mysql.sock"))
        self._await_answer(["sacctmgr", "-n", "show", "cluster"], of="slurmdbd", timeout_s=15)
        self.add_cluster(cluster)

    def add_cluster(self, cluster: str) -> None:
        """Known to accounting before its slurmctld asks."""
        if not self.run("sacctmgr", "-n", "show", "cluster", cluster, "format=cluster").split():
            self.run("sacctmgr", "-i", "-Q", "add", "cluster", cluster)

    def start_slurmctld(self) -> None:
        self._start("slurmctld", ["slurmctld", "-D", "-i", "-f", str(self.conf)])
        self._await_answer(["scontrol", "ping"], of="slurmctld", timeout_s=15)

    def start_slurmd(self, node: str) -> None:
        self._start(f"slurmd.{node}", ["slurmd", "-D", "-N", node, "-f", str(self.conf)])

    def start_slurmrestd(self, spec: LabSpec) -> None:
        """Two of them, each with one kind of authentication: 22.05 gives a token to the default kind only.

        The one with JWT runs as Slinky's does: as nobody, with these variables, any authentication. The one on the
        socket takes its own user's peers, so it runs as we do; releases from 24.11 on refuse to run as root.
        """
        release = self.release()
        plugins = rest_plugins(release, accounting=spec.accounting)
        if release < (24, 11):
            local = ["slurmrestd", "-f", str(self.conf), "-a", "rest_auth/local", *plugins, f"unix:{self.rest_socket}"]
            self._start("slurmrestd", local, SLURMRESTD_SECURITY="disable_user_check")
            self._await(self.rest_socket.exists, "slurmrestd opens no socket", "slurmrestd", 10)
        port = spec.rest_url.removeprefix("http://")
        nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        jwt = [*nobody, "slurmrestd", "-f", str(self.conf), *plugins, port]
        security = "disable_unshare_files,disable_unshare_sysv"
        self._start("slurmrestd-jwt", jwt, SLURM_JWT="daemon", SLURMRESTD_SECURITY=security)
        self._await(lambda: _listens(port), "slurmrestd listens to nobody", "slurmrestd-jwt", 10)

    def await_nodes(self, nodes: tuple[str, ...], *, timeout_s: float) -> None:
        """Wait until the controller can use all of these nodes."""
        self._await(
            lambda: not self._silent(nodes),
            f"nodes of {', '.join(nodes)} don't register",
            f"slurmd.{nodes[0]}",
            timeout_s,
        )

    def _silent(self, nodes: tuple[str, ...]) -> list[str]:
        """Those that can't run jobs yet. A node that was set down is taken back: a lab is there to be broken."""
        states = dict(
            line.split() for line in self.run("sinfo", "-h", "-N", "-n", ",".join(nodes), "-o", "%N %T").splitlines()
        )
        for node in (node for node in nodes if states.get(node) == "down"):
            self.run("scontrol", "update", f"nodename={node}", "state=resume")
        usable = ("idle", "mixed", "allocated", "completing", "draining", "drained")
        return [node for node in nodes if states.get(node) not in usable]

    def _start(self, name: str, argv: list[str], **variables: str) -> None:
        self.daemons.start(name, argv, env=self.env | variables)

    def _await_answer(self, argv: list[str], *, of: str, timeout_s: float) -> None:
        def answers() -> bool:
            return subprocess.run(argv, env=self.env, capture_output=True, check=False, timeout=30).returncode == 0

        self._await(answers, f"{of} does not answer", of, timeout_s)

    def _await(self, condition: Callable[[], bool], what: str, log: str, timeout_s: float) -> None:
        if not wait_until(condition, timeout_s=timeout_s):
            out = self.daemons.output(log)
            last = out.read_text(errors="replace").splitlines()[-3:] if out.exists() else []
            raise LabError(f"{what} after {timeout_s:g} s, see {out}: {' | '.join(last) or 'it wrote nothing'}")


def rest_plugins(release: tuple[int, int], *, accounting: bool) -> list[str]:
    """What slurmrestd is told to load, where all that it has won't do: some of it ends without slurmdbd.

    23.02's v0.0.39 answers nothing without one.
    """
    if release < (23, 2) and accounting:
        return ["-s", "openapi/v0.0.38,openapi/dbv0.0.38"]
    if accounting:
        return []
    return ["-s", "openapi/v0.0.38" if release < (23, 11) else "openapi/slurmctld"]


def _listens(address: str) -> bool:
    host, _, port = address.partition(":")
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, int(port))) == 0
