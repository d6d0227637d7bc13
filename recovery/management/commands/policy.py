"""The policy as a reviewed file: show, check, compare, apply, and ask why."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from recovery import policy_files, selectors
from recovery.core.policy import DEFAULT_RULES, Question, Traits, rule_for
from recovery.core.policy.match import name_of
from recovery.core.types import FailureClass
from recovery.management.person import at_the_command_line
from recovery.models import PolicyVersion
from recovery.pipeline import by_hand
from recovery.pipeline.invalid import Invalid


class Command(BaseCommand):
    help = "The policy as a reviewed file (docs/policies.md)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="show|check|diff|apply|why")
        show = verbs.add_parser("show", help="print a version as YAML")
        show.add_argument("--number", type=int, help="which (default: the one that holds)")
        for verb, told in (("check", "say what is wrong in a file"), ("diff", "say what a file would change")):
            verbs.add_parser(verb, help=told).add_argument("file", help="a YAML file; - for standard input")
        apply = verbs.add_parser("apply", help="save a file as the new version, which holds at once")
        apply.add_argument("file", help="a YAML file; - for standard input")
        apply.add_argument("--reason", required=True, help="why; stands in the audit trail")
        apply.add_argument("--base", type=int, help="refuse unless this version still holds")
        why = verbs.add_parser("why", help="which rule would decide, and why not the others")
        why.add_argument("--class", dest="failure_class", required=True, choices=list(FailureClass))
        why.add_argument("--confidence", type=float, default=1.0)
        why.add_argument("--label", action="append", default=[], metavar="NAME=VALUE")
        for name in ("cluster", "partition", "account", "user", "qos", "job_name"):
            why.add_argument(f"--{name.replace('_', '-')}", default="")
        for name in ("gpus", "nodes"):
            why.add_argument(f"--{name}", type=int, default=0)
        why.add_argument("--file", help="ask this file, not the version that holds")

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, f"_{options['verb']}")(options)

    def _show(self, options: dict[str, Any]) -> None:
        self.stdout.write(policy_files.write(_rules(_version(options["number"]))), ending="")

    def _check(self, options: dict[str, Any]) -> None:
        found = read_policy(options["file"])
        for warning in found.warnings:
            self.stderr.write(warning)
        count = len(found.rules["rules"])
        self.stdout.write(f"{count} {'rule' if count == 1 else 'rules'}, nothing wrong.")

    def _diff(self, options: dict[str, Any]) -> None:
        holds = selectors.current_policy()
        new = read_policy(options["file"]).rules
        names = (str(holds) if holds else "no version", options["file"])
        for line in policy_files.diff(_rules(holds), new, names=names):
            self.stdout.write(line)

    def _apply(self, options: dict[str, Any]) -> None:
        found = read_policy(options["file"])
        held = selectors.current_policy()
        number = held.number if held else 0
        if options["base"] is not None and options["base"] != number:
            raise CommandError(f"Version {number} holds, not {options['base']}: compare with `policy diff` first.")
        if held is not None and held.rules == found.rules:
            self.stdout.write(f"Version {number} says the same already; nothing was saved.")
            return
        try:
            saved = by_hand.save_policy(
                found.rules, base=number, reason=options["reason"], actor=at_the_command_line(), now=timezone.now()
            )
        except Invalid as problem:
            raise CommandError("\n".join(problem.errors)) from problem
        for warning in found.warnings:
            self.stderr.write(warning)
        self.stdout.write(f"Version {saved.number} holds from now on.")

    def _why(self, options: dict[str, Any]) -> None:
        rules = read_policy(options["file"]).rules if options["file"] else _rules(selectors.current_policy())
        rule, passed = rule_for(rules, _question(options))
        for each in passed:
            self.stdout.write(f"{each.rule}: passed over, {each.why}")
        self.stdout.write(f"{name_of(rule)}: decides, {rule['mode']}")


def _question(options: dict[str, Any]) -> Question:
    labels = dict(pair.partition("=")[::2] for pair in options["label"])
    traits = Traits(
        cluster=options["cluster"], partition=options["partition"], account=options["account"], user=options["user"],
        qos=options["qos"], job_name=options["job_name"], labels=labels, gpus=options["gpus"], nodes=options["nodes"],
    )  # fmt: skip
    return Question(
        traits=traits, failure_class=FailureClass(options["failure_class"]), confidence=options["confidence"],
        at=timezone.now(),
    )  # fmt: skip


def _rules(version: PolicyVersion | None) -> dict[str, Any]:
    return dict(version.rules) if version else DEFAULT_RULES


def _version(number: int | None) -> PolicyVersion | None:
    if number is None:
        return selectors.current_policy()
    version = selectors.policies().filter(number=number).first()
    if version is None:
        raise CommandError(f"There is no policy version {number}.")
    return version


def read_policy(name: str) -> policy_files.PolicyFile:
    """The policy in a file, or on standard input for "-". Raises CommandError with the lines that are wrong."""
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{name} can't be read: {error}") from error
    try:
        return policy_files.read(text)
    except policy_files.BadPolicyFile as problem:
        raise CommandError("\n".join(f"{name}, {error}" for error in problem.errors)) from problem
