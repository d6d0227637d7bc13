from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.diagnose import catalogue
from recovery.core.diagnose.catalogue import RULES, RULES_BY_ID, CatalogueError, Scope, build, match, match_event
from recovery.core.types import Exclude, FailureClass, Restart, Role
from tests.core.diagnose.examples import HARMLESS, LOG_LINES, NODE_EVENTS

ROW: dict[str, Any] = {
    "id": "test.rule",
    "literals": ["boom"],
    "pattern": "^boom",
    "class": "user_code",
    "restart": "after_change",
    "sentence": "It went boom.",
    "source": "a test",
}
LINES = [(rule, line) for rule, lines in LOG_LINES.items() for line in lines]
EVENTS = [(rule, text) for rule, texts in NODE_EVENTS.items() for text in texts]


@pytest.mark.parametrize(("rule", "line"), LINES)
def test_a_line_is_claimed_by_its_rule(rule: str, line: str) -> None:
    assert match(line)[0][0].id == rule


@pytest.mark.parametrize(("rule", "text"), EVENTS)
def test_a_node_event_is_claimed_by_its_rule(rule: str, text: str) -> None:
    assert match_event(text)[0][0].id == rule


def test_every_rule_has_an_example() -> None:
    assert set(RULES_BY_ID) == set(LOG_LINES) | set(NODE_EVENTS)


@pytest.mark.parametrize("line", HARMLESS)
def test_talk_about_a_failure_is_no_cause(line: str) -> None:
    assert [rule.id for rule, _ in match(line) if rule.role is Role.CAUSE] == []


@pytest.mark.parametrize("rule", sorted(NODE_EVENTS))
def test_what_a_scheduler_says_of_nodes_is_not_read_from_logs(rule: str) -> None:
    assert all(rule not in [r.id for r, _ in match(text)] for text in NODE_EVENTS[rule])


@pytest.mark.parametrize(
    ("line", "group", "value"),
    [
        (LOG_LINES["cuda.ecc_uncorrectable"][3], "node", "gpu-02"),
        (LOG_LINES["xid.79"][2], "node", "gpu-02"),
        (LOG_LINES["srun.node_failure"][1], "node", "gpu-[02-03]"),
        (LOG_LINES["srun.task_exit"][0], "tasks", "8-11,13"),
        (LOG_LINES["nccl.collective_timeout"][1], "rank", "3"),
        (LOG_LINES["slurm.task_launch"][0], "node", "gpu-04"),
    ],
)
def test_nodes_and_ranks_are_read_where_the_line_names_them(line: str, group: str, value: str) -> None:
    assert match(line)[0][1].groupdict()[group] == value


def test_the_node_in_a_node_failure_line_is_not_the_failed_one() -> None:
    assert "node" not in match(LOG_LINES["slurm.node_failure"][0])[0][1].groupdict()


def test_only_the_start_of_a_long_line_is_looked_at() -> None:
    assert match("x" * catalogue.MAX_LINE + "\nKeyError: 'a'") == []
    assert match("KeyError: 'a'" + "x" * 1_000_000)[0][0].id == "python.user_error"


def test_a_general_rule_is_silent_where_an_exact_one_speaks() -> None:
    assert [rule.id for rule, _ in match("RuntimeError: CUDA error: device-side assert triggered")] == ["cuda.assert"]


# --- sanity of the data -----------------------------------------------------------------------------------------------


def test_verdicts_of_the_rules_agree_with_the_design() -> None:
    never = {
        FailureClass.USER_CODE, FailureClass.GPU_OOM, FailureClass.HOST_OOM, FailureClass.STORAGE_FULL,
        FailureClass.NUMERICS, FailureClass.CHECKPOINT_INCOMPLETE, FailureClass.LAUNCH_CONFIG,
        FailureClass.EXTERNAL_CANCEL, FailureClass.NOT_A_FAILURE,
    }  # fmt: skip
    for rule in RULES:
        assert not (rule.failure_class in never and rule.restart is Restart.YES), rule.id
        assert not (rule.role is not Role.CAUSE and rule.restart is Restart.YES and rule.scope is not Scope.NODE), (
            rule.id
        )
        assert not (rule.role is Role.CONSEQUENCE and rule.exclude is Exclude.NODES), rule.id
        assert not (rule.failure_class is FailureClass.USER_CODE and rule.exclude is Exclude.NODES), rule.id


def test_sentences_are_sentences() -> None:
    for rule in RULES:
        assert rule.sentence[0].isupper() or rule.sentence.startswith("srun"), rule.id
        assert rule.sentence.endswith("."), rule.id


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "no family"}, "family.name"),
        ({"class": "gremlins"}, "class is 'gremlins'"),
        ({"restart": "maybe"}, "restart is 'maybe'"),
        ({"role": "villain"}, "role is 'villain'"),
        ({"exclude": "all"}, "exclude is 'all'"),
        ({"scope": "moon"}, "scope is 'moon'"),
        ({"pattern": "(boom"}, "not a regular expression"),
        ({"pattern": "<<nothing>>boom"}, "no piece is called nothing"),
        ({"pattern": ""}, "pattern must be a text"),
        ({"sentence": None}, "sentence must be a text"),
        ({"literals": []}, "literals must be a list"),
        ({"literals": ["ab"]}, "at least 3"),
        ({"confidence": 1.5}, "between 0 and 1"),
        ({"confidence": 1}, "between 0 and 1"),
        ({"fallback": "yes"}, "true or false"),
        ({"colour": "red"}, "unknown field colour"),
    ],
)
def test_a_wrong_row_is_refused_with_its_fault(change: dict[str, Any], message: str) -> None:
    with pytest.raises(CatalogueError, match=re.escape(message)):
        build([{**ROW, **change}], {})


def test_an_id_is_used_once() -> None:
    with pytest.raises(CatalogueError, match="used twice"):
        build([ROW, ROW], {})


def test_a_row_is_completed_with_defaults() -> None:
    (rule,) = build([ROW], {})
    assert (rule.role, rule.exclude, rule.scope, rule.fallback) == (Role.CAUSE, Exclude.NONE, Scope.LOG, False)


# --- speed ------------------------------------------------------------------------------------------------------------


def test_every_literal_holds_a_gate() -> None:
    literals = [literal for rule in RULES for literal in rule.literals]
    gates = catalogue.gates_for(literals)
    assert sorted(lit for held in gates.values() for lit in held) == sorted(set(literals))
    assert all(gate in literal for gate, held in gates.items() for literal in held)


def test_the_gates_miss_nothing() -> None:
    """The prefilter may only save time: every pattern that matches an example is also reached through it."""
    for rule, line in LINES:
        assert re.search(RULES_BY_ID[rule].pattern, line)
        assert any(literal in line for literal in RULES_BY_ID[rule].literals), (rule, line)


def _hostile() -> list[tuple[str, str]]:
    """For each rule, lines that open its gate and then lead the pattern on as long as they can."""
    lines = []
    for rule in RULES:
        for literal in rule.literals:
            for filler in (" ", "a", "a.", "1", "ERROR ", ": ", "[E0111 ", "(", "x: ", "kernel: "):
                long = filler * (catalogue.MAX_LINE // len(filler))
                lines += [(rule.id, (long[: 1900 - len(literal)] + literal)), (rule.id, literal + long)]
    return lines


def test_no_line_is_slow_however_hostile() -> None:
    """A backtracking pattern would need seconds for one of these; the whole catalogue must stay within milliseconds."""
    slowest = ("", 0.0)
    for rule, line in _hostile():
        begun = time.perf_counter()
        match(line)
        match_event(line)
        slowest = max(slowest, (rule, time.perf_counter() - begun), key=lambda pair: pair[1])
    assert slowest[1] < 0.25, slowest


_UNBOUNDED = re.compile(r"(?<!\\)[*+](?![^\[]*\])")


def test_patterns_hold_no_unbounded_repeats() -> None:
    for rule in RULES:
        assert not _UNBOUNDED.search(re.sub(r"\\.|\[[^\]]*\]", "", rule.pattern)), rule.id
        assert not re.search(r"\{\d+,\}", rule.pattern), rule.id


@given(st.text(max_size=3000))
def test_any_text_is_matched_without_an_error(text: str) -> None:
    for rule, found in match(text) + match_event(text):
        assert rule.id in RULES_BY_ID
        assert found.group() is not None


# --- a site's own rules -----------------------------------------------------------------------------------------------

SITE = """
[[rule]]
id = "site.licence"
literals = ["licence server"]
pattern = '''^ERROR: licence server \\S{1,80} refuses'''
class = "launch_config"
restart = "after_change"
sentence = "The licence server refused the job."
source = "our own"
"""


@pytest.fixture
def site_rules() -> Iterator[Callable[[str], None]]:
    yield catalogue.set_site_rules
    catalogue.set_site_rules("")


def test_a_sites_own_rule_is_matched_before_ours(site_rules: Callable[[str], None]) -> None:
    line = "ERROR: licence server lic-1 refuses: KeyError: 'a'"
    assert "site.licence" not in [rule.id for rule, _ in match(line)]
    site_rules(SITE)
    assert match(line)[0][0].id == "site.licence"
    assert "licence server" in catalogue.LOG_LITERALS
    assert RULES_BY_ID["site.licence"].failure_class is FailureClass.LAUNCH_CONFIG
    site_rules("")
    assert "site.licence" not in RULES_BY_ID


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (SITE.replace("site.licence", "slurm.licence"), "begins with 'site.'"),
        (SITE.replace("launch_config", "licence"), "class is 'licence'"),
        ("[[rule", "no TOML"),
        (SITE.replace("{1,80}", "+"), "repeats without a bound (+)"),
        (SITE.replace("\\S{1,80}", "(?:[a-z.]{1,40}){1,40}="), "takes too long"),
    ],
)
def test_a_wrong_file_of_a_site_is_refused_and_changes_nothing(
    site_rules: Callable[[str], None], text: str, why: str
) -> None:
    with pytest.raises(CatalogueError, match=re.escape(why)):
        site_rules(text)
    assert set(RULES_BY_ID) == {rule.id for rule in RULES}
