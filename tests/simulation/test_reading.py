"""A scenario file is checked whole, and each error names the field and what would be right."""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.core.types import FailureClass
from recovery.simulation.reading import BadScenario, read_file, read_scenario
from recovery.simulation.scenario import Deed, Saying, Scenario
from recovery.slurm.simulator import FaultKind, Preempt, Trainer

TOP = Path(__file__).parents[2]
SMALL = 'title = "x"\nfor_s = 60\n'


def read(text: str) -> Scenario:
    return read_scenario(tomllib.loads(text))


def errors(text: str) -> list[str]:
    with pytest.raises(BadScenario) as refused:
        read(text)
    return refused.value.errors


def test_what_is_left_out_has_defaults() -> None:
    scenario = read(SMALL)
    assert (scenario.cluster.seed, len(scenario.cluster.nodes), scenario.jobs, scenario.policy) == (1, 4, (), None)
    assert scenario.desk.poll_s == 10


def test_everything_can_be_said() -> None:
    scenario = read(
        SMALL
        + """
        seed = 3
        [cluster]
        nodes = 8
        gpus_per_node = 4
        per_rack = 4
        features = ["h100"]
        min_job_age_s = 20
        [[cluster.partition]]
        name = "spare"
        nodes = ["gpu-01", "gpu-02"]
        preempt = "requeue"
        [[cluster.reservation]]
        name = "works"
        nodes = ["gpu-03"]
        starts_s = 10
        ends_s = 20
        maintenance = true
        [desk]
        poll_s = 5
        [policy]
        default = "auto"
        [[policy.rule]]
        name = "nodes"
        classes = ["node_fault"]
        mode = "approve"
        [policy.breaker]
        max_excluded_nodes = 1
        [[job]]
        name = "train"
        count = 12
        at_s = 2.5
        resumes_at = 40
        trainer = "torchtitan"
        environment = {NCCL_DEBUG = "INFO"}
        array = [1, 5]
        [[job.fault]]
        kind = "tear"
        step = 3
        [[event]]
        at_s = 4
        do = "crash_rack"
        rack = "rack-2"
        [[decision]]
        say = "reject"
        reason = "not now"
        [expect]
        actions = 0
        [[expect.incident]]
        run = "train-07"
        class = "node_fault"
        """
    )
    assert scenario.cluster.nodes[7].rack == "rack-2"
    assert scenario.cluster.partitions[0].preempt is Preempt.REQUEUE
    assert [job.spec.name for job in scenario.jobs][::11] == ["train-01", "train-12"]
    job = scenario.jobs[0]
    assert (job.at_s, job.resumes_at, job.spec.trainer, job.spec.array) == (2.5, 40, Trainer.TORCHTITAN, (1, 5))
    assert job.spec.faults[0].kind is FaultKind.TEAR
    assert scenario.policy is not None
    assert scenario.policy["breaker"]["max_excluded_nodes"] == 1
    assert scenario.policy["breaker"]["fleet_failures"] == 3
    assert scenario.events[0].do is Deed.CRASH_RACK
    assert scenario.decisions[0].say is Saying.REJECT
    assert scenario.expect.incidents[0].failure_class is FailureClass.NODE_FAULT


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("for_s = 60", "title: is missing; add it."),
        ('title = "x"', "for_s: is missing; add it."),
        (SMALL.replace("60", "0"), "for_s: must be more than 0 and at most 604800 seconds."),
        (SMALL.replace("60", "inf"), "for_s: must be a number from 0 to 1e+09, not inf."),
        (SMALL.replace("60", "true"), "for_s: must be a number, not 'True'."),
        (
            SMALL + "weeks = 3",
            "weeks: there is no such field; it takes cluster, decision, desk, event, expect, for_s, job, policy, seed, "
            "title.",
        ),
        (SMALL + 'seed = "a"', "seed: must be a whole number, not 'a'."),
        (SMALL + "[cluster]\nnodes = 0", "cluster.nodes: must be a whole number from 1 to 20000."),
        (SMALL + "[cluster]\nnodes = 1e9", "cluster.nodes: must be a whole number, not '1000000000.0'."),
        (SMALL + "cluster = 3", "cluster: must be a table, not '3'."),
        (
            SMALL + '[[cluster.partition]]\nname = "a"\nnodes = ["x"]',
            "cluster: a names unknown nodes: x.",
        ),
        (SMALL + "[job]\nname = 3", "job: must be an array of tables: write [[job]]."),
        (SMALL + "[[job]]\nnodes = 1", "job[0].name: is missing; add it."),
        (SMALL + '[[job]]\nname = "a"\nnodes = 1.5', "job[0].nodes: must be a whole number, not '1.5'."),
        (
            SMALL + '[[job]]\nname = "a"\ntrainer = "jax"',
            "job[0].trainer: must be one of megatron, hf, lightning, nemo, torchtitan, not 'jax'.",
        ),
        (
            SMALL + '[[job]]\nname = "a"\npartition = "b"',
            "job[0].partition: there is no partition 'b'; the cluster has main.",
        ),
        (
            SMALL + '[[job]]\nname = "a"\n[[job.fault]]\nkind = "ecc"\nnode = "n7"',
            "job[0].fault.node: there is no node 'n7'; they are called gpu-01 to gpu-04.",
        ),
        (
            SMALL + '[[job]]\nname = "a b/c"',
            "job[0]: The run 'a b/c' is no folder name: letters, digits, '.', '_' and '-' only.",
        ),
        (SMALL + '[[event]]\ndo = "cancel"', "event[0].at_s: is missing; add it."),
        (SMALL + '[[event]]\nat_s = 1\ndo = "cancel"', "event[0].job: is missing; cancel needs it."),
        (
            SMALL + '[[event]]\nat_s = 1\ndo = "cancel"\njob = "a"',
            "event[0].job: there is no job 'a'; name one of the [[job]] tables.",
        ),
        (
            SMALL + '[[event]]\nat_s = 1\ndo = "crash_rack"\nrack = "r"',
            "event[0].rack: there is no rack 'r'; set cluster.per_rack.",
        ),
        (SMALL + '[[decision]]\nsay = "auto"', "decision[0].say: must be one of approve, reject, not 'auto'."),
        (SMALL + '[[decision]]\nsay = "reject"', "decision[0].reason: is missing; a rejection needs one."),
        (
            SMALL + '[policy]\ndefault = "always"',
            "policy.default: must be one of observe, approve, auto.",
        ),
        (
            SMALL + '[[policy.rule]]\nname = "a"\nmode = "auto"\nclasses = ["bad luck"]',
            "policy.rule[0].classes: 'bad luck' is no failure class; docs/glossary.md lists them.",
        ),
        (SMALL + "[policy]\ndefault = false", "policy.default: must be one of observe, approve, auto."),
        (SMALL + "[policy]\nrule = 0", "policy.rule: must be an array of tables: write [[policy.rule]]."),
        (SMALL + "[policy]\nbreaker = 0", "policy.breaker: must be a table, not '0'."),
        (SMALL + "cluster.features = 0", "cluster.features: must be a list in brackets, not '0'."),
        (SMALL + "[desk]\npoll_s = 0", "desk.poll_s: must be at least 1."),
        (
            SMALL + '[[job]]\nname = "a"\nat_s = 61',
            "job[0].at_s: must be before the end; with for_s = 60 it never happens.",
        ),
        (
            SMALL + '[[event]]\nat_s = 61\ndo = "pause"\nfor_s = 1',
            "event[0].at_s: must be before the end; with for_s = 60 it never happens.",
        ),
        (SMALL + '[[job]]\nname = "a"\n[[job.fault]]\nstep = 1', "job[0].fault[0].kind: is missing; add it."),
        (
            SMALL + '[[job]]\nname = "a"\nmode = "full"',
            "job[0].mode: must be one of observe, approve, auto, not 'full'.",
        ),
        (
            SMALL + '[[job]]\nname = "a"\nmax_restarts = 1001',
            "job[0].max_restarts: must be a whole number from 0 to 1000.",
        ),
        (SMALL + '[[job]]\nname = "a"\nstdout = "\\u0000"', "job[0].stdout: must hold no NUL character."),
        (SMALL + '[[job]]\nname = "a"\njob_id = "../b"', "job[0].job_id: must be a number in quotes."),
        (
            SMALL + '[[job]]\nname = "a"\nrequired_nodes = ["n7"]',
            "job[0].required_nodes: there is no node 'n7'; they are called gpu-01 to gpu-04.",
        ),
        (
            SMALL + f'[[job]]\nname = "{"a" * 99}"\ncount = 2',
            f"job[0].name: The run '{'a' * 99}-1' is no folder name: letters, digits, '.', '_' and '-' only.",
        ),
        (
            SMALL + '[[job]]\nname = "abc"\n[[decision]]\nsay = "approve"\nrun = "abd"',
            "decision[0].run: there is no run 'abd'; name one of the [[job]] tables: abc.",
        ),
        (
            SMALL + '[[expect.incident]]\nrun = "a"',
            "expect.incident[0].run: there is no run 'a'; name one of the [[job]] tables.",
        ),
        (
            SMALL + '[[job]]\nname = "a"\ncount = 2\n[[expect.job]]\nname = "a"',
            "expect.job[0].name: there is no job 'a'; name one of the [[job]] tables: a-1, a-2.",
        ),
        (
            SMALL + '[[job]]\nname = "a"\n[[expect.job]]\nname = "a"\nnot_on = ["gpu-1"]',
            "expect.job[0].not_on: there is no node 'gpu-1'; they are called gpu-01 to gpu-04.",
        ),
        (
            SMALL + '[[job]]\nname = "a"\n[[expect.job]]\nname = "a"\nrefused = true\nrequeues = 0',
            "expect.job[0].refused: is true: then nothing else can be expected of the job; leave the rest out.",
        ),
        (SMALL + "[[expect.incident]]\nactions = 1", "expect.incident[0].run: is missing; add it."),
    ],
)
def test_an_error_names_the_field_and_the_remedy(text: str, said: str) -> None:
    assert errors(text) == [said]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[clustr]\nnodes = 4", "clustr: there is no such field; it takes cluster, decision, "),
        ("[cluster]\nnodes = 4\nnoodes = 4", "cluster.noodes: there is no such field; it takes nodes, accounting, "),
        ("[policy]\ndefualt = 'auto'", "policy.defualt: there is no such field; it takes default, avoid_suspects, "),
        ("[policy.breaker]\nfleet = 1", "policy.breaker.fleet: there is no such field; it takes "),
        ('"a\\nb" = 1', "'a\\nb': there is no such field; it takes "),
    ],
)
def test_an_unknown_field_is_answered_with_all_that_there_are_the_most_alike_first(text: str, said: str) -> None:
    (found,) = errors(f"{SMALL}{text}")
    assert found.startswith(said)


def test_an_unknown_call_of_the_scheduler_is_answered_with_those_that_there_are() -> None:
    (found,) = errors(SMALL + '[[event]]\nat_s = 1\ndo = "trouble"\nfor_s = 9\noperations = ["jobz"]')
    assert found.startswith("event[0].operations: must be one of jobs, job, attempts, ")


def test_a_run_may_be_named_by_the_job_by_its_run_and_by_its_comment() -> None:
    job = """[[job]]\nname = "a"\nrun = "b"\ncomment = '{"recovery": {"run": "c"}}'\n"""
    expected = "".join(f'[[expect.incident]]\nrun = "{run}"\n' for run in "abc")
    assert len(read(SMALL + job + expected).expect.incidents) == 3


@pytest.mark.parametrize("text", [b"x = 1" + b"0" * 5000, b"x = " + b"[" * 5000, b"x = \xff"])
def test_what_is_no_toml_is_refused(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "scenario.toml"
    path.write_bytes(text)
    with pytest.raises(BadScenario, match="this is no TOML"):
        read_file(path)


def test_all_errors_are_found_in_one_go() -> None:
    found = errors('[cluster]\nnodes = -1\n[[job]]\nname = 3\n[[event]]\ndo = "x"')
    assert len(found) >= 4


_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "at_s", "do", "nodes", "kind", "step", "rule", "run", "x"]), inner)
    ),
    max_leaves=12,
)
_documents = st.dictionaries(
    st.sampled_from(
        ["title", "for_s", "seed", "cluster", "desk", "policy", "job", "event", "decision", "expect", "other"]
    ),
    _values,
)


@settings(max_examples=150, deadline=None)
@given(document=_documents)
def test_whatever_a_file_holds_it_is_read_or_refused_in_sentences(document: dict[str, Any]) -> None:
    try:
        found = read_scenario(document).title
    except BadScenario as refused:
        found = str(refused)
    assert found or document["title"] == ""


SHIPPED = [tomllib.loads(path.read_text()) for path in sorted((TOP / "scenarios").glob("*.toml"))]


def _places(value: object) -> list[tuple[dict[str, Any] | list[Any], Any]]:
    """Every (table or list, key or index) in it."""
    if not isinstance(value, dict | list):
        return []
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    return [place for key in keys for place in [(value, key), *_places(value[key])]]


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_shipped_scenario_with_a_mistake_is_read_or_refused_in_sentences(data: st.DataObject) -> None:
    document = copy.deepcopy(data.draw(st.sampled_from(SHIPPED)))
    holder, key = data.draw(st.sampled_from(_places(document)))
    how = data.draw(st.sampled_from(["leave out", "another value", "another name"]))
    before = holder.pop(key)
    if isinstance(holder, list):
        holder.insert(key, data.draw(_values))
    elif how != "leave out":
        new = key + "x" if how == "another name" else key
        holder[new] = before if how == "another name" else data.draw(_values)
    try:
        read_scenario(document)
    except BadScenario as refused:
        errors_said = refused.errors
    else:
        errors_said = []
    assert errors_said or how != "another name" or isinstance(holder, list)
    assert all(": " in line and "\n" not in line for line in errors_said), errors_said
