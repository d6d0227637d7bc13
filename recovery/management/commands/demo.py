"""The demo: a cluster whose jobs train and fail, and the whole desk around it, in one terminal and one folder."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from recovery.demo import desk, environment, scenes, seed
from recovery.demo.console import Console
from recovery.demo.slurm_scene import RealSlurm
from recovery.demo.supervisor import Interrupted, Supervisor, SupervisorError
from recovery.models import Cluster

HOST = "127.0.0.1"
READY_S = 90.0  # a slow machine imports Django three times before the web server answers


class Command(BaseCommand):
    help = (
        "Show the whole path on a simulated cluster, or with --slurm on a real one on this machine. Ctrl-C stops all."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--slurm", action="store_true", help="a real Slurm and real training processes")
        parser.add_argument(
            "--port", type=int, default=8000, help="of the web server; the next free one if it is taken"
        )
        parser.add_argument(
            "--folder", type=Path, help="where everything is kept (default: var/demo or var/demo-slurm)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        name = "demo-slurm" if options["slurm"] else "demo"
        folder = (options["folder"] or settings.BASE_DIR / "var" / name).absolute()
        if os.environ.get(environment.MARK) != str(folder):
            begin_again(folder)
        console = Console()
        scene: scenes.Scene = RealSlurm(folder) if options["slurm"] else scenes.Simulated(folder)
        try:
            with Supervisor(folder) as supervisor:
                Demo(supervisor, scene, console).run(port=desk.free_port(options["port"], HOST))
        except Interrupted:
            console.say(f"Stopped. Everything is kept in {folder}: the next start goes on with it.")
        except (SupervisorError, scenes.SceneError) as error:
            raise CommandError(str(error)) from error


def begin_again(folder: Path) -> None:
    """Settings are read once, at the start of a process: start this one again with the demo's own."""
    sys.stdout.flush()
    environ = environment.environment(folder, os.environ)
    os.execve(sys.executable, [sys.executable, *sys.argv], environ)  # noqa: S606 - a fixed argument list, no shell


class Demo:
    """One start of the demo: sets up what is not there yet, runs the programs, tells how to look at them."""

    def __init__(self, supervisor: Supervisor, scene: scenes.Scene, console: Console) -> None:
        self._supervisor = supervisor
        self._scene = scene
        self._console = console

    def run(self, *, port: int) -> None:
        try:
            passwords, stage = self._set_up()
            self._start(port=port, cluster=stage.name)
            self._console.box(invitation(f"http://{HOST}:{port}/", passwords))
            self._console.say(f"For manage.py, in another shell: . {settings.DATA_DIR / environment.SHELL}")
            if stage.hint:
                self._console.say(stage.hint)
            self._supervisor.run(between=self._scene.go_on)
        finally:
            with self._console.step("stopping"):
                self._supervisor.stop()
                self._scene.down()

    def _set_up(self) -> tuple[dict[str, str], scenes.Stage]:
        if self._supervisor.leftovers:
            self._console.say(f"  Stopped what an earlier start left running: {', '.join(self._supervisor.leftovers)}")
        with self._console.step("database"):
            call_command("migrate", verbosity=0)
            seed.end_leases()
        with self._console.step("accounts and policy"):
            passwords = seed.accounts(settings.DATA_DIR / "accounts.json")
            seed.policy(datetime.now(UTC))
        with self._console.step("cluster") as found:
            stage = self._scene.up(found.append)
            seed.cluster(stage, now=datetime.now(UTC), poll_interval_s=environment.POLL_INTERVAL_S)
        return passwords, stage

    def _start(self, *, port: int, cluster: str) -> None:
        began = datetime.now(UTC)

        def was_seen() -> bool:
            return Cluster.objects.filter(name=cluster, seen_at__gte=began).exists()

        with self._console.step("broker, worker, beat and web server") as found:
            broker = desk.embedded_broker(self._supervisor.run_dir)
            found.append(broker.words)
            url = f"http://{HOST}:{port}/"
            programs = {"web": desk.web(host=HOST, port=port), "worker": desk.worker(log_level="WARNING")}
            desk.start(self._supervisor, broker=broker, **programs)
            environment.for_a_shell(settings.DATA_DIR, broker_url=broker.url)
            self._supervisor.wait_for(lambda: desk.answers(url), timeout_s=READY_S, what="the web server")
        with self._console.step("first look at the cluster"):
            self._supervisor.wait_for(was_seen, timeout_s=READY_S, what="the worker's first look at the cluster")


def invitation(url: str, passwords: dict[str, str]) -> list[str]:
    return [
        f"Recovery Desk: {url}",
        "",
        *(f"  {name:<9} {password}" for name, password in passwords.items()),
        "",
        "Log in as approver. Within two minutes a job fails: look at its incident,",
        "approve, and stay until the next checkpoint is complete.",
        "Ctrl-C stops everything.",
    ]
