"""`manage.py policy`: show, check, diff, apply, why."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from recovery import policy_files
from recovery.core.policy import DEFAULT_RULES
from recovery.models import Event, PolicyVersion
from tests.factories import make_policy
from tests.policies.test_files import GOOD

pytestmark = pytest.mark.django_db


@pytest.fixture
def good(tmp_path: Path) -> str:
    file = tmp_path / "policy.yaml"
    file.write_text(GOOD, encoding="utf-8")
    return str(file)


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("policy", *arguments, stdout=out, stderr=out)
    return out.getvalue()


def test_a_reviewed_file_is_compared_applied_and_shown_again(good: str) -> None:
    make_policy(rules=DEFAULT_RULES)
    assert run("check", good) == "1 rule, nothing wrong.\n"
    assert "+- name: 'on'" in run("diff", good)
    assert run("apply", good, "--reason", "winter", "--base", "1") == "Version 2 holds from now on.\n"
    version = PolicyVersion.objects.get(number=2)
    assert version.reason == "winter"
    assert Event.objects.get(verb="policy.saved").actor_name.endswith("at the command line")
    assert policy_files.read(run("show")).rules == version.rules == policy_files.read(GOOD).rules
    assert policy_files.read(run("show", "--number", "1")).rules == DEFAULT_RULES


def test_the_same_again_makes_no_version_and_an_old_base_is_refused(good: str) -> None:
    run("apply", good, "--reason", "winter")
    assert "says the same already" in run("apply", good, "--reason", "again")
    with pytest.raises(CommandError, match="Version 1 holds, not 0"):
        run("apply", good, "--reason", "late", "--base", "0")
    assert PolicyVersion.objects.count() == 1


def test_a_wrong_file_is_named_with_its_lines_and_saves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(GOOD.replace("mode: auto", "mode: yolo"), encoding="utf-8")
    for verb in (["check"], ["diff"], ["apply", "--reason", "x"]):
        with pytest.raises(CommandError, match=r"policy\.yaml, line 8: rules\[0\]\.mode: must be one of"):
            run(verb[0], str(file), *verb[1:])
    with pytest.raises(CommandError, match="can't be read"):
        run("check", str(tmp_path / "none.yaml"))
    assert not PolicyVersion.objects.exists()


def test_why_says_which_rule_decides_and_which_were_passed_over() -> None:
    rules = {"name": "big", "classes": "*", "match": {"gpus": {"min": 64}}, "mode": "auto"}
    make_policy(rules={**DEFAULT_RULES, "rules": [rules]})
    told = run("why", "--class", "gpu_hardware", "--gpus", "8")
    assert told == "big: passed over, it has 8 GPUs, fewer than 64\ndefault: decides, observe\n"
    assert run("why", "--class", "gpu_hardware", "--gpus", "64") == "big: decides, auto\n"
