"""Tell the desk of a cluster, or change how it is reached."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.core.validators import validate_slug
from django.db import transaction

from recovery import audit
from recovery.management.person import at_the_command_line
from recovery.models import Cluster


class Command(BaseCommand):
    help = "Point the desk at a cluster through Slurm's own commands, or change how it is reached."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="as pages and API call it: letters, digits, '-' and '_'")
        parser.add_argument("--slurm-conf", type=Path, help="where Slurm's commands don't find it by themselves")
        parser.add_argument("--bin-dir", type=Path, help="of squeue, scontrol and sacct, where they are not on PATH")
        parser.add_argument("--poll-interval", type=float, default=10, help="seconds between two looks (default: 10)")
        parser.add_argument("--disable", action="store_true", help="stop looking at it; what is known of it stays")

    def handle(self, *args: Any, **options: Any) -> None:
        name = checked_name(options["name"])
        if options["poll_interval"] < 1:
            raise CommandError("--poll-interval is below one second: the controller has other work, too.")
        wanted = {
            "backend": "cli",
            "options": reached_by(options["slurm_conf"], options["bin_dir"]),
            "poll_interval_s": options["poll_interval"],
            "enabled": not options["disable"],
            "next_look_at": datetime.now(UTC),
        }
        with transaction.atomic():
            cluster, is_new = Cluster.objects.update_or_create(name=name, defaults=wanted)
            audit.record(
                "cluster.added" if is_new else "cluster.changed",
                actor=at_the_command_line(),
                at=datetime.now(UTC),
                subject_kind="cluster",
                subject_id=cluster.pk,
                options=cluster.options,
                enabled=cluster.enabled,
            )
        self.stdout.write(
            f"{name} is {'looked at' if cluster.enabled else 'no longer looked at'}. See `manage.py doctor`."
        )


def checked_name(name: str) -> str:
    try:
        validate_slug(name)
    except ValidationError as error:
        raise CommandError(f"{name!r} can't be a cluster's name: letters, digits, '-' and '_' only.") from error
    return name


def reached_by(slurm_conf: Path | None, bin_dir: Path | None) -> dict[str, str]:
    if slurm_conf and not slurm_conf.is_file():
        raise CommandError(f"--slurm-conf: there is no file {slurm_conf}.")
    if bin_dir and not (bin_dir / "scontrol").is_file():
        raise CommandError(f"--bin-dir: there is no scontrol in {bin_dir}.")
    given = {"slurm_conf": slurm_conf, "bin_dir": bin_dir}
    return {name: str(path.absolute()) for name, path in given.items() if path}
