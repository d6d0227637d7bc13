"""Answers in the two shapes of Slurm's JSON, made by hand: what no recording holds, and what must never get through."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.types import JobState, NodeState
from recovery.slurm.base import JobRecord
from recovery.slurm.cli_json import YEAR_MINUTES, parse_jobs, parse_nodes
from recovery.slurm.json_values import BadAnswer
from recovery.slurm.states import job_state, node_state

T0 = 1_795_000_000

JOB_22_05: dict[str, Any] = {
    "job_id": 12,
    "job_state": "RUNNING",
    "name": "train",
    "submit_time": T0,
    "start_time": T0 + 5,
    "end_time": T0 + 3600,
    "restart_cnt": 0,
    "priority": 4294901759,
    "requeue": True,
    "exit_code": 0,
    "nodes": "gpu-[01-02]",
    "excluded_nodes": "",
    "standard_output": "",
    "standard_error": "",
    "current_working_directory": "/home/u",
    "batch_flag": True,
    "user_name": "u",
}


def number(value: int | None, *, infinite: bool = False) -> dict[str, Any]:
    return {"set": value is not None, "infinite": infinite, "number": value or 0}


JOB_26_05 = JOB_22_05 | {
    "job_state": ["RUNNING"],
    "submit_time": number(T0),
    "start_time": number(T0 + 5),
    "end_time": number(T0 + 3600),
    "priority": number(4294901759),
    "exit_code": {"status": ["SUCCESS"], "return_code": number(0), "signal": {"id": number(None), "name": ""}},
    "array_job_id": number(0),
    "array_task_id": number(None),
}


def parse(job: dict[str, Any], **changes: Any) -> JobRecord:
    (record,) = parse_jobs(json.dumps({"jobs": [job | changes], "errors": []}))
    return record


@pytest.mark.parametrize("job", [JOB_22_05, JOB_26_05], ids=["22.05", "26.05"])
def test_both_shapes_say_the_same(job: dict[str, Any]) -> None:
    assert parse(job) == parse(JOB_22_05)
    assert parse(job).nodes == ("gpu-01", "gpu-02")


@pytest.mark.parametrize(
    "missing", ["job_id", "job_state", "submit_time", "restart_cnt", "nodes", "exit_code", "priority"]
)
def test_one_job_without_an_essential_field_spoils_the_whole_answer(missing: str) -> None:
    broken = {key: value for key, value in JOB_22_05.items() if key != missing}
    with pytest.raises(BadAnswer, match=missing):
        parse_jobs(json.dumps({"jobs": [JOB_22_05, broken]}))


@pytest.mark.parametrize(
    "changes",
    [
        {"job_id": 0},
        {"job_id": True},
        {"job_id": "12"},
        {"submit_time": 0},
        {"submit_time": -1},
        {"submit_time": 1e30},
        {"submit_time": number(None)},
        {"restart_cnt": None},
        {"nodes": ["n1"]},
        {"nodes": "n[1-99999999]"},
        {"nodes": "@all"},
        {"name": 7},
        {"job_state": "FAILED", "exit_code": "0"},
    ],
    ids=str,
)
def test_a_value_of_the_wrong_kind_spoils_the_whole_answer(changes: dict[str, Any]) -> None:
    with pytest.raises(BadAnswer):
        parse(JOB_22_05, **changes)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"jobs": null}',
        '{"jobs": {}}',
        '{"jobs": [1]}',
        '{"jobs": [], "errors": [{"description": "no"}]}',
        '{"jobs": [], "errors": "no"}',
        '{"jobs": []',
        "[" * 100_000,
        '{"jobs": [{"job_id": ' + "9" * 5000 + "}]}",
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
    ],
    ids=lambda answer: answer[:30] or "nothing",
)
def test_what_is_no_whole_answer_is_none(answer: str) -> None:
    with pytest.raises(BadAnswer):
        parse_jobs(answer)


def test_an_empty_list_without_errors_is_an_answer() -> None:
    assert parse_jobs('{"jobs": [], "errors": []}') == []


def test_text_that_no_database_stores_is_made_storable() -> None:
    record = parse(JOB_22_05, name="a\0b", comment="\ud800x")
    assert (record.name, record.comment) == ("ab", "?x")


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (["RUNNING"], JobState.RUNNING),
        (["PENDING", "COMPLETING"], JobState.COMPLETING),
        (["FAILED", "REQUEUED"], JobState.PENDING),
        (["PENDING", "SPECIAL_EXIT"], JobState.PENDING),
        (["RUNNING", "CONFIGURING"], JobState.RUNNING),
        (["NODE_FAIL"], JobState.NODE_FAIL),
        (["OUT_OF_MEMORY"], JobState.OUT_OF_MEMORY),
        (["LAUNCH_FAILED", "NODE_FAIL"], JobState.NODE_FAIL),
        (["CANCELLED", "REVOKED"], JobState.REVOKED),
        (["SOMETHING_NEW"], JobState.UNKNOWN),
        ([], JobState.UNKNOWN),
    ],
    ids=str,
)
def test_flags_come_before_base_states_and_an_unknown_word_is_never_a_guess(words: list[str], state: JobState) -> None:
    assert job_state(words) is state


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (["IDLE"], NodeState.UP),
        (["MIXED"], NodeState.UP),
        (["ALLOCATED", "DRAIN"], NodeState.DRAINING),
        (["IDLE", "COMPLETING", "DRAIN"], NodeState.DRAINING),
        (["IDLE", "DRAIN"], NodeState.DRAINED),
        (["IDLE", "FAIL"], NodeState.DRAINED),
        (["DOWN", "DRAIN"], NodeState.DOWN),
        (["ALLOCATED", "NOT_RESPONDING"], NodeState.DOWN),
        (["IDLE", "INVALID_REG"], NodeState.DOWN),
        (["IDLE", "POWERED_DOWN"], NodeState.UP),  # it boots when a job needs it
        (["UNKNOWN"], NodeState.UNKNOWN),
        (["FUTURE"], NodeState.UNKNOWN),
    ],
    ids=str,
)
def test_a_node_that_can_take_no_job_is_not_up(words: list[str], state: NodeState) -> None:
    assert node_state(words) is state


@pytest.mark.parametrize(
    "resources", [{"nodes": "gpu-[01-02]"}, {"nodes": {"list": "gpu-[01-02]", "count": 2}}], ids=str
)
def test_a_job_that_is_ending_keeps_the_node_that_it_lost(resources: dict[str, Any]) -> None:
    ending = parse(JOB_22_05, job_state="COMPLETING", nodes="gpu-01", node_count=1, job_resources=resources)
    assert (ending.nodes, ending.node_count) == (("gpu-01", "gpu-02"), 2)


@pytest.mark.parametrize("resources", [None, {}, {"nodes": ""}, {"nodes": {}}, {"nodes": 3}], ids=str)
def test_a_job_that_is_ending_without_its_allocation_has_the_nodes_it_names(resources: object) -> None:
    assert parse(JOB_22_05, job_state="COMPLETING", nodes="gpu-01", job_resources=resources).nodes == ("gpu-01",)


def test_no_time_limit_in_all_its_forms() -> None:
    for limit in (None, 0, YEAR_MINUTES, number(None), number(None, infinite=True)):
        assert parse(JOB_22_05, time_limit=limit).time_limit_s is None
    assert parse(JOB_22_05, time_limit=90).time_limit_s == parse(JOB_26_05, time_limit=number(90)).time_limit_s == 5400


def test_the_wait_status_of_22_05_and_the_object_of_26_05_are_decoded() -> None:
    assert parse(JOB_22_05, job_state="FAILED", exit_code=1024).exit_code == 4
    assert parse(JOB_22_05, job_state="FAILED", exit_code=11).exit_signal == 11
    code = {"status": ["SIGNALED"], "return_code": number(None), "signal": {"id": number(9), "name": "KILL"}}
    killed = parse(JOB_26_05, job_state=["FAILED"], exit_code=code)
    assert (killed.exit_code, killed.exit_signal) == (0, 9)


def test_ids_are_written_as_slurm_writes_them() -> None:
    assert parse(JOB_22_05).job_id == "12"
    assert parse(JOB_22_05, array_job_id=10, array_task_id=0).job_id == "10_0"
    assert parse(JOB_22_05, array_job_id=12, array_task_id=None, array_task_string="3-9").job_id == "12"
    assert parse(JOB_22_05, array_job_id=12, array_task_id=None, array_task_string="3").job_id == "12_3"
    assert parse(JOB_26_05, array_job_id=number(10), array_task_id=number(0)).job_id == "10_0"
    assert parse(JOB_22_05, het_job_id=11, het_job_offset=1).job_id == "11+1"


def test_an_interactive_job_has_no_file() -> None:
    job = parse(JOB_22_05, batch_flag=False)
    assert (job.stdout, job.stderr) == ("", "")


def test_the_path_that_slurm_itself_expanded_is_taken() -> None:
    job = parse(JOB_26_05, standard_output="%j.log", stdout_expanded="/elsewhere/12.log", stderr_expanded="/e/12.err")
    assert (job.stdout, job.stderr) == ("/elsewhere/12.log", "/e/12.err")


def test_stderr_that_goes_where_stdout_goes_is_not_named_twice() -> None:
    assert parse(JOB_22_05, standard_output="a.log", standard_error="a.log").stderr == ""


def test_a_user_without_an_account_here_is_a_number() -> None:
    nameless = {key: value for key, value in JOB_22_05.items() if key != "user_name"}
    assert parse(nameless, user_id=0).user == "root"
    assert parse(nameless, user_id=4_000_000_000).user == "4000000000"


@pytest.mark.parametrize(
    ("fields", "gpus"),
    [
        ({"tres_alloc_str": "cpu=2,gres/gpu=8,gres/gpu:a100=8"}, 8),
        ({"tres_alloc_str": "cpu=2,gres/gpu:a100=6,gres/gpu:v100=2"}, 8),
        ({"tres_alloc_str": "cpu=2", "gres_detail": ["gpu:a100:4(IDX:0-3)", "gpu:4(IDX:0-3)"]}, 8),
        ({"tres_req_str": "cpu=2,node=2", "tres_per_node": "gres:gpu:4"}, 8),
        ({"tres_per_node": "gres/gpu:h100:4"}, 8),
        ({"tres_per_node": "gpu"}, 2),
        ({"tres_per_job": "gres:gpu:16"}, 16),
        ({"tres_per_node": "gres:nic:4"}, 0),
        ({"tres_alloc_str": "cpu=2,license/gpu=8"}, 0),
        ({}, 0),
    ],
    ids=str,
)
def test_gpus_are_found_wherever_a_site_counts_them(fields: dict[str, Any], gpus: int) -> None:
    assert parse(JOB_22_05, node_count=2, **fields).gpus == gpus


def test_a_node_in_two_partitions_is_one_node() -> None:
    groups = [
        {"node": {"state": ["IDLE"]}, "nodes": {"nodes": ["n1"]}, "partition": {"name": name}, "reason": {"time": 0}}
        for name in ("main", "debug")
    ]
    (node,) = parse_nodes(json.dumps({"sinfo": groups}))
    assert node.partitions == ("main", "debug")


@pytest.mark.parametrize(
    "nodes",
    [[{"state": "idle"}], [{"name": "n1"}], [{"name": "n1; reboot", "state": "idle"}], [{"nodes": {}, "node": {}}]],
    ids=str,
)
def test_a_node_without_name_or_state_spoils_the_answer(nodes: list[dict[str, Any]]) -> None:
    with pytest.raises(BadAnswer):
        parse_nodes(json.dumps({"nodes": nodes}))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(JOB_22_05)), JSON_VALUES)
def test_whatever_stands_in_a_field_it_is_a_record_or_no_answer(field: str, value: Any) -> None:
    try:
        record = parse(JOB_22_05, **{field: value})
    except BadAnswer:
        return
    assert record.job_id
    assert "\0" not in record.name
    record.name.encode()


@pytest.mark.parametrize(
    ("topology", "switch"),
    [
        ("", None),
        ("tree:sw-3", "sw-3"),
        ("tree:sw-root:sw-3", "sw-3"),
        ("tree:sw-3,blocks:b1", "sw-3"),
        ("ring:ring1:2", "ring1"),
        ("tree:12", "12"),
        ("tree", None),
        ("tree:", None),
    ],
)
def test_the_leaf_that_a_node_hangs_on_is_the_last_unit_of_its_first_topology(
    topology: str, switch: str | None
) -> None:
    entry = {"name": "gpu-01", "state": ["IDLE"], "topology": topology}
    assert parse_nodes(json.dumps({"nodes": [entry]}))[0].switch == switch
