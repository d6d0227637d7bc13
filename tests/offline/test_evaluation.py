from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recovery.core.types import Diagnosis, Exclude, FailureClass, Restart
from recovery.evaluation import (
    CaseError,
    Expected,
    Score,
    evaluate,
    is_wrongful_exclusion,
    is_wrongful_restart,
    read_case,
    read_job_file,
    verdict_on,
)
from recovery.offline.record import OfflineJob
from tests.core.attempts import LIMITS, traceback

C, R, X = FailureClass, Restart, Exclude

CASE = """
title = "a KeyError"
[job]
state = "FAILED"
exit_code = "1:0"
nodes = "gpu-[01-02]"
[expect]
class = "user_code"
or_class = ["launch_config"]
restart = "after_change"
exclude = "none"
"""


def make_case(folder: Path, text: str = CASE, *, log: str = "\n".join(traceback("KeyError: 'a'"))) -> Path:
    folder.mkdir(parents=True)
    (folder / "case.toml").write_text(text)
    (folder / "job.err").write_text(log + "\n")
    return folder


def expected(**fields: Any) -> Expected:
    defaults: dict[str, Any] = {
        "classes": (C.USER_CODE,), "restarts": (R.AFTER_CHANGE,), "excludes": (X.NONE,), "nodes": frozenset(),
    }  # fmt: skip
    return Expected(**{**defaults, **fields})


def got(**fields: Any) -> Diagnosis:
    defaults: dict[str, Any] = {
        "failure_class": C.USER_CODE, "restart": R.AFTER_CHANGE, "exclude": X.NONE, "nodes": (), "confidence": 0.9,
        "reason": "",
    }  # fmt: skip
    return Diagnosis(**{**defaults, **fields})


# --- the two grave mistakes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "verdict", "wrongful"),
    [
        (expected(), got(restart=R.YES), True),
        (expected(restarts=(R.NO,)), got(restart=R.YES), True),
        (expected(), got(restart=R.ONCE), False),
        (expected(restarts=(R.ONCE,)), got(restart=R.YES), False),
        (expected(restarts=(R.AFTER_CHANGE, R.ONCE)), got(restart=R.YES), False),
        (expected(classes=(C.EXTERNAL_CANCEL,), restarts=(R.NO,)), got(restart=R.ONCE), True),
        (expected(classes=(C.EXTERNAL_CANCEL,), restarts=(R.NO,)), got(restart=R.AFTER_CHANGE), False),
    ],
)
def test_a_wrongful_restart(label: Expected, verdict: Diagnosis, wrongful: bool) -> None:
    assert is_wrongful_restart(label, verdict) is wrongful


@pytest.mark.parametrize(
    ("label", "verdict", "wrongful"),
    [
        (expected(), got(exclude=X.NODES, nodes=("a",)), True),
        (expected(excludes=(X.NODES,), nodes=frozenset("a")), got(exclude=X.NODES, nodes=("a",)), False),
        (expected(excludes=(X.NODES,), nodes=frozenset("ab")), got(exclude=X.NODES, nodes=("a",)), False),
        (expected(excludes=(X.NODES,), nodes=frozenset("a")), got(exclude=X.NODES, nodes=("a", "b")), True),
        (expected(excludes=(X.NONE, X.NODES), nodes=frozenset("a")), got(exclude=X.NODES, nodes=("a",)), False),
        (expected(), got(exclude=X.IF_REPEATED), False),
    ],
)
def test_a_wrongful_exclusion(label: Expected, verdict: Diagnosis, wrongful: bool) -> None:
    assert is_wrongful_exclusion(label, verdict) is wrongful


# --- scoring ----------------------------------------------------------------------------------------------------------


def test_the_score_has_the_documented_shape(tmp_path: Path) -> None:
    make_case(tmp_path / "good")
    make_case(tmp_path / "sub" / "bad", CASE.replace('"user_code"', '"gpu_oom"').replace('["launch_config"]', "[]"))
    figures = evaluate(tmp_path, LIMITS).as_json()
    assert list(figures) == [
        "cases", "class_accuracy", "restart_accuracy", "exclude_accuracy", "wrongful_restarts", "wrongful_exclusions",
        "wrong", "confusion", "megabytes", "seconds_per_megabyte",
    ]  # fmt: skip
    assert figures["confusion"] == {"gpu_oom": {"user_code": 1}, "user_code": {"user_code": 1}}
    assert figures["seconds_per_megabyte"] > 0
    assert (figures["cases"], figures["class_accuracy"], figures["restart_accuracy"]) == (2, 0.5, 1.0)
    (wrong,) = figures["wrong"]
    assert wrong["case"] == "sub/bad"
    assert wrong["expected"]["class"] == ["gpu_oom"]
    assert wrong["got"]["class"] == "user_code"


def test_every_accepted_word_is_right_and_nodes_must_be_exact(tmp_path: Path) -> None:
    case = read_case(make_case(tmp_path / "c"), name="c")
    score = Score()
    score.add(case, got(failure_class=C.LAUNCH_CONFIG))
    assert score.wrong == []
    score.add(case, got(exclude=X.NODES, nodes=("gpu-01",)))
    assert score.wrongful_exclusions == ["c"]
    score.add(case, got(restart=R.YES))
    assert score.wrongful_restarts == ["c"]
    score.add(case, got(failure_class=C.GPU_OOM))
    assert score.table() == {"user_code": {"gpu_oom": 1, "user_code": 3}}


def test_right_exclude_means_the_right_nodes(tmp_path: Path) -> None:
    text = CASE.replace('exclude = "none"', 'exclude = "nodes"\nnodes = ["gpu-01", "gpu-02"]')
    score = Score()
    score.add(read_case(make_case(tmp_path / "c", text), name="c"), got(exclude=X.NODES, nodes=("gpu-01",)))
    assert score.as_json()["exclude_accuracy"] == 0.0
    assert score.wrongful_exclusions == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('class = "user_code"', 'class = "gremlins"'), "'gremlins' is not a valid FailureClass"),
        (('class = "user_code"\n', ""), "[expect] needs class, restart and exclude"),
        (('exclude = "none"', 'exclude = "none"\nnodes = "gpu-01"'), "expect.nodes must be a list"),
        (("[job]", "[job"), "case.toml:"),
        (('state = "FAILED"', 'state = "EXPLODED"'), "job.state"),
    ],
)
def test_a_wrong_case_is_refused_with_its_file(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    make_case(tmp_path / "c", CASE.replace(*change))
    with pytest.raises(CaseError) as raised:
        evaluate(tmp_path, LIMITS)
    assert message in str(raised.value)
    assert "c/case.toml" in str(raised.value)


def test_a_folder_without_cases_is_an_error_and_not_a_perfect_score(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match=r"no case\.toml below"):
        evaluate(tmp_path, LIMITS)


# --- the job file -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"state": "FAILED", "node_events": [{"time": "2026-01-11T09:00:00Z", "node": "a", "text": "b"}]}',
        '{"job": {"state": "FAILED"}, "node_events": [{"time": "2026-01-11T09:00:00Z", "node": "a", "text": "b"}]}',
    ],
)
def test_a_job_file_is_flat_or_like_a_case(tmp_path: Path, text: str) -> None:
    (tmp_path / "job.json").write_text(text)
    job = read_job_file(tmp_path / "job.json")
    assert (job.state, len(job.node_events)) == ("failed", 1)


@pytest.mark.parametrize("text", ["[]", "{", '{"state": 1}', '{"nodes": 1}', "\udcff"])
def test_a_wrong_job_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "job.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(CaseError, match=r"job\.json"):
        read_job_file(path)


# --- without a record -------------------------------------------------------------------------------------------------


def test_a_log_alone_gives_a_verdict(tmp_path: Path) -> None:
    case = make_case(tmp_path / "c")
    assert verdict_on(OfflineJob(), [case / "job.err"], LIMITS).failure_class is C.USER_CODE


def test_a_log_that_says_nothing_gives_an_honest_one(tmp_path: Path) -> None:
    case = make_case(tmp_path / "c", log="hello")
    verdict = verdict_on(OfflineJob(), [case / "job.err"], LIMITS)
    assert (verdict.failure_class, verdict.restart) == (C.UNKNOWN, R.NO)
