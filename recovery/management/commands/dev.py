"""Everything that a developer needs in one terminal: broker, worker, beat, web server. Ctrl-C stops all of it."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from recovery.demo import desk
from recovery.demo.console import Console
from recovery.demo.supervisor import Interrupted, Supervisor, SupervisorError
from recovery.doctor.installation import broker_folder_trouble


class Command(BaseCommand):
    help = "Run broker, worker, beat and web server together on this machine; Ctrl-C stops them all."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--port", type=int, default=8000, help="of the web server; the next free one if it is taken"
        )
        parser.add_argument("--host", default="127.0.0.1", help="address that the web server listens on")
        parser.add_argument("--concurrency", type=int, default=2, help="processes of the worker")
        parser.add_argument("--no-reload", action="store_true", help="don't restart the web server when code changes")

    def handle(self, *args: Any, **options: Any) -> None:
        console, broker = Console(), given_broker()
        try:
            with Supervisor(settings.DATA_DIR, follow=console.line) as supervisor:
                self._run(supervisor, console, broker, options)
        except Interrupted:
            console.say("Stopped.")
        except SupervisorError as error:
            raise CommandError(str(error)) from error

    def _run(
        self, supervisor: Supervisor, console: Console, broker: desk.Broker | None, options: dict[str, Any]
    ) -> None:
        if supervisor.leftovers:
            console.say(f"Stopped what an earlier start had left running: {', '.join(supervisor.leftovers)}.")
        with console.step("database"):
            call_command("migrate", verbosity=0)
        broker = broker or desk.embedded_broker(supervisor.run_dir)
        port = desk.free_port(options["port"], options["host"])
        desk.start(
            supervisor,
            broker=broker,
            web=desk.web(host=options["host"], port=port, reload=not options["no_reload"]),
            worker=desk.worker(concurrency=options["concurrency"]),
        )
        url = f"http://{options['host']}:{port}/"
        supervisor.wait_for(lambda: desk.answers(url), timeout_s=60, what="the web server")
        console.box([f"Recovery Desk: {url}", f"Broker: {broker.words}", f"Logs: {supervisor.log_dir}", "Ctrl-C stops"])
        supervisor.run()


def given_broker() -> desk.Broker | None:
    """The one that the environment names, if any: then none of our own is started, and every program finds it there."""
    if "REDIS_URL" not in os.environ and "REDIS_URL_FILE" not in os.environ:
        return None
    trouble = broker_folder_trouble()
    if trouble:
        raise CommandError(f"REDIS_URL can't be the broker: {trouble}. Make that folder, or correct REDIS_URL.")
    return desk.Broker(url="", words="as REDIS_URL says")
