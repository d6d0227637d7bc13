"""Tell the desk of a cluster, or change how it is reached."""

from __future__ import annotations

import shlex
import shutil
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.core.validators import validate_slug
from django.db import transaction

from recovery import audit
from recovery.core.source_options import OPTIONS as SOURCES
from recovery.core.source_options import BadSource
from recovery.core.source_options import check as check_sources
from recovery.doctor import stored as examinations
from recovery.management.person import at_the_command_line
from recovery.models import Cluster, Incident
from recovery.slurm.cli_commands import SEARCH_PATH
from recovery.slurm.registry import OPTIONS, BadOptions, client_for

SECRET = frozenset({"token"})  # never shown, and never written into the audit trail
FILES = ("slurm_conf", "token_file", "ca_file")
DEFAULT_INTERVAL_S = 10.0


class Command(BaseCommand):
    help = "Tell the desk of a cluster, or change how it is reached. What is not given stays as it is."

    def add_arguments(self, parser: ArgumentParser) -> None:
        known = "; ".join(f"{name}: {', '.join(options)}" for name, options in OPTIONS.items())
        parser.add_argument("name", help="as pages and API call it: letters, digits, '-' and '_'")
        parser.add_argument("--backend", choices=list(OPTIONS), help="what reaches it (default for a new one: cli)")
        parser.add_argument(
            "--option", action="append", default=[], metavar="NAME=VALUE",
            help=f"of the back end, once for each; an empty value takes it away. {known}",
        )  # fmt: skip
        parser.add_argument(
            "--source", action="append", default=[], metavar="NAME=VALUE",
            help="where else to look, once for each; an empty value takes it away (docs/metrics.md). "
            + "; ".join(f"{name}: {option.sentence}" for name, option in SOURCES.items()).replace("%", "%%"),
        )  # fmt: skip
        parser.add_argument("--slurm-conf", help="short for --option slurm_conf=FILE")
        parser.add_argument("--bin-dir", help="short for --option bin_dir=FOLDER")
        parser.add_argument(
            "--poll-interval", type=float, help=f"seconds between two looks (default: {DEFAULT_INTERVAL_S:g})"
        )
        switch = parser.add_mutually_exclusive_group()
        switch.add_argument("--disable", action="store_true", help="stop looking at it; what is known of it stays")
        switch.add_argument("--enable", action="store_true", help="look at it again")
        switch.add_argument(
            "--remove", action="store_true", help="forget it with all its jobs; only where there was never an incident"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        name = checked_name(options["name"])
        before = Cluster.objects.filter(name=name).first()
        if options["remove"]:
            remove(before, name)
            self.stdout.write(f"{name} is removed, with all that was known of its jobs and nodes.")
            return
        cluster = before or Cluster(name=name, backend="cli", poll_interval_s=DEFAULT_INTERVAL_S)
        given = given_options(options["option"], slurm_conf=options["slurm_conf"], bin_dir=options["bin_dir"])
        change_back_end(cluster, options["backend"] or cluster.backend, given)
        change_sources(cluster, given_pairs("--source", options["source"]))
        if options["poll_interval"] is not None:
            cluster.poll_interval_s = checked_interval(options["poll_interval"])
        if options["disable"] or options["enable"]:
            cluster.enabled = bool(options["enable"])
        cluster.next_look_at = datetime.now(UTC)
        save(cluster, is_new=before is None)
        for twin in twins_of(cluster):
            self.stderr.write(
                f"Warning: {twin.name} is reached in exactly this way, too. Are they one cluster? Every job would be "
                f"seen twice: `manage.py set_cluster {twin.name} --disable`."
            )
        looked_at = "looked at" if cluster.enabled else "no longer looked at"
        self.stdout.write(f"{name} is {looked_at} through {cluster.get_backend_display()}. See `manage.py doctor`.")
        for source, value in cluster.sources.items():
            self.stdout.write(f"Source {source}: {value}")


def change_back_end(cluster: Cluster, backend: str, given: Mapping[str, str]) -> None:
    """Options of another back end mean nothing to this one, so a change of back end begins with none."""
    kept = cluster.options if backend == cluster.backend else {}
    options = {name: value for name, value in {**kept, **given}.items() if value}
    if cluster.pk is None or given or backend != cluster.backend:
        check(backend, options)
    cluster.backend, cluster.options = backend, options


def change_sources(cluster: Cluster, given: Mapping[str, str]) -> None:
    """Names and values by the core; then the files that must be on this machine: tokens and certificates."""
    sources = {name: value for name, value in {**cluster.sources, **given}.items() if value}
    try:
        check_sources(sources)
    except BadSource as error:
        raise CommandError(str(error)) from error
    for name in given.keys() & {"prometheus_token_file", "prometheus_ca_file", "loki_token_file", "loki_ca_file"}:
        if name in sources and not Path(sources[name]).is_file():
            raise CommandError(f"Source {name}: there is no file {sources[name]} on this machine. Correct the path.")
    cluster.sources = sources


def twins_of(cluster: Cluster) -> list[Cluster]:
    """Other clusters that are looked at with the same back end and options."""
    others = Cluster.objects.filter(enabled=True, backend=cluster.backend).exclude(pk=cluster.pk)
    return [other for other in others if cluster.enabled and other.options == cluster.options]


def save(cluster: Cluster, *, is_new: bool) -> None:
    now = datetime.now(UTC)
    fields = ["backend", "options", "sources", "enabled", "poll_interval_s", "next_look_at"]
    with transaction.atomic():
        cluster.save(update_fields=None if is_new else fields)  # a worker may be writing the rest
        audit.record(
            "cluster.added" if is_new else "cluster.changed",
            actor=at_the_command_line(),
            at=now,
            subject_kind="cluster",
            subject_id=cluster.pk,
            backend=cluster.backend,
            options={name: "(hidden)" if name in SECRET else value for name, value in cluster.options.items()},
            sources=cluster.sources,
            enabled=cluster.enabled,
        )
        examinations.make_due(cluster, now=now)


def remove(cluster: Cluster | None, name: str) -> None:
    """Only what nobody decided anything on: what was decided and done must stay readable."""
    if cluster is None:
        raise CommandError(f"There is no cluster {name!r}. See `manage.py doctor`.")
    with transaction.atomic():
        incidents = Incident.objects.filter(run__cluster=cluster).count()
        if incidents:
            raise CommandError(
                f"{name} has {incidents} incident{'' if incidents == 1 else 's'}: what was decided and done stays on "
                f"record. Switch it off instead: `manage.py set_cluster {name} --disable`."
            )
        audit.record(
            "cluster.removed", actor=at_the_command_line(), at=datetime.now(UTC), subject_kind="cluster",
            subject_id=cluster.pk, name=name, backend=cluster.backend,
        )  # fmt: skip
        cluster.delete()


def checked_name(name: str) -> str:
    try:
        validate_slug(name)
    except ValidationError as error:
        raise CommandError(f"{name!r} can't be a cluster's name: letters, digits, '-' and '_' only.") from error
    return name


def checked_interval(seconds: float) -> float:
    if not seconds >= 1:
        raise CommandError("--poll-interval is below one second: the controller has other work, too.")
    if seconds >= settings.STALE_AFTER_S:
        raise CommandError(
            f"--poll-interval must be below RECOVERY_STALE_AFTER_S={settings.STALE_AFTER_S:g}: "
            "between two looks the picture would be stale, and nothing acts on a stale picture."
        )
    return seconds


def given_pairs(flag: str, pairs: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise CommandError(f"{flag} {pair[:50]}: write NAME=VALUE.")
        found[name] = value.strip()
    return found


def given_options(pairs: Sequence[str], *, slurm_conf: str | None, bin_dir: str | None) -> dict[str, str]:
    """What was named at the command line; "" takes an option away."""
    found = given_pairs("--option", pairs)
    for name, path in (("slurm_conf", slurm_conf), ("bin_dir", bin_dir)):
        if path is not None:
            found[name] = str(Path(path).absolute()) if path else ""
    return found


def check_programs(options: Mapping[str, str]) -> None:
    """What starts the commands, or pyslurm, on this machine: found as the back ends find it."""
    for name in ("prefix", "python"):
        program = next(iter(shlex.split(options.get(name, ""))), "") if name == "prefix" else options.get(name, "")
        if program and shutil.which(program, path=SEARCH_PATH) is None:
            raise CommandError(f"Option {name}: there is no program {program} on this machine. Install or correct it.")


def check(backend: str, options: Mapping[str, str]) -> None:
    """Names and values by the back end itself; then the files, where they are on this machine."""
    try:
        client_for(backend, options, timeout_s=settings.SLURM_TIMEOUT_S)
    except BadOptions as error:
        raise CommandError(str(error)) from error
    check_programs(options)
    if options.get("prefix"):
        return  # the paths are those of the machine that the prefix leads to
    for name in FILES:
        if name in options and not Path(options[name]).is_file():
            raise CommandError(f"Option {name}: there is no file {options[name]} on this machine. Correct the path.")
    folder = options.get("bin_dir")
    if folder and not (Path(folder) / "scontrol").is_file():
        raise CommandError(f"Option bin_dir: there is no scontrol in {folder}. Name the folder of Slurm's commands.")
