"""The process that pyslurm runs in may do anything: it never makes an answer, and never keeps anybody waiting."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from recovery.demo.processes import identify, wait_until
from recovery.slurm.base import JobNotFound, SlurmError, SlurmRefused, SlurmUnreachable
from recovery.slurm.native import NativeClient
from recovery.slurm.native_process import NativeProcess
from tests.slurm.native_stage import Stage, children, environment


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    found = Stage(tmp_path)
    found.set()
    return found


@pytest.mark.parametrize(
    ("scene", "words"),
    [
        ({"at_import": "exit"}, "ended with 1: fatal: Could not establish a configuration source"),
        ({"at_import": "crash"}, "ended by SIGSEGV"),
        ({"on": {"Jobs.load": "exit"}}, "ended with 1"),
        ({"on": {"Jobs.load": "crash"}}, "ended by SIGSEGV"),
        ({"on": {"Jobs.load": "garbage"}}, "answered no JSON"),
        ({"on": {"Jobs.load": "break"}}, "no such thing in this release"),
        ({"on": {"Jobs.load": [1800, "Unable to contact slurm controller"]}}, "Unable to contact"),
    ],
)
def test_whatever_happens_to_the_process_is_no_answer(stage: Stage, scene: dict[str, Any], words: str) -> None:
    stage.set(**scene)
    with pytest.raises(SlurmUnreachable, match=words) as caught:
        stage.client().jobs()
    assert not caught.value.permanent
    assert "list all jobs" in caught.value.tried


def test_the_next_question_gets_a_new_process(stage: Stage) -> None:
    client = stage.client()
    stage.set(on={"Jobs.load": "crash"})
    with pytest.raises(SlurmUnreachable):
        client.jobs()
    stage.set(jobs=[{"id": 7}])
    assert [job.job_id for job in client.jobs()] == ["7"]


@pytest.mark.parametrize("where", ["at_import", "Jobs.load"])
def test_one_that_hangs_is_given_up_and_ended(stage: Stage, where: str) -> None:
    stage.set(on={where: "hang"})
    client = stage.client(timeout_s=1)
    with pytest.raises(SlurmUnreachable, match="no answer within 1 s"):
        client.jobs()
    assert wait_until(lambda: not children(stage), timeout_s=5)


def test_one_that_never_stops_talking_is_given_up(stage: Stage) -> None:
    stage.set(on={"Jobs.load": "flood"})
    env = {"SLURM_CONF": str(stage.conf), "PATH": "/bin:/usr/bin"}
    process = NativeProcess(python=str(stage.python), env=env, timeout_s=20, max_output=100_000)
    with pytest.raises(SlurmUnreachable, match="longer than 100000 bytes"):
        process.ask("jobs", {}, tried="all jobs")


def test_what_a_library_prints_does_not_get_into_an_answer(stage: Stage) -> None:
    stage.set(jobs=[{"id": 7}], on={"Jobs.load": "talk"})
    assert [job.job_id for job in stage.client().jobs()] == ["7"]


def test_a_python_without_pyslurm_says_what_to_install(stage: Stage) -> None:
    client = NativeClient(slurm_conf=str(stage.conf), python=sys.executable, timeout_s=20)
    with pytest.raises(SlurmUnreachable, match=r"No module named 'pyslurm'.*option python") as caught:
        client.health()
    assert caught.value.permanent


def test_a_configuration_that_there_is_not_says_so(stage: Stage) -> None:
    """The library would look for it for a minute."""
    stage.conf.unlink()
    with pytest.raises(SlurmUnreachable, match="option") as caught:
        stage.client().health()
    assert caught.value.permanent
    assert children(stage) == []


def test_a_python_that_there_is_not_says_so() -> None:
    with pytest.raises(SlurmUnreachable, match="can't be started") as caught:
        NativeClient(python="/nowhere/python").health()
    assert caught.value.permanent


def test_one_process_serves_many_questions_of_many_threads(stage: Stage) -> None:
    stage.set(jobs=[{"id": 7}])
    client = stage.client()
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(client.job("7").job_id)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["7"] * 8
    assert len(children(stage)) == 1


def test_the_process_ends_with_its_client(stage: Stage) -> None:
    client = stage.client()
    client.health()
    (child,) = children(stage)
    del client
    assert wait_until(lambda: identify(child) is None, timeout_s=5)


def test_a_request_that_no_pipe_takes_at_once_is_refused(stage: Stage) -> None:
    stage.set(jobs=[{"id": 7}])
    with pytest.raises(SlurmRefused, match="longer than"):
        stage.client().set_excluded_nodes("7", tuple(f"a-node-with-a-long-name-{number}" for number in range(4000)))
    assert stage.done() == []


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind", "permanent"),
    [
        ([2017, "Invalid job id specified"], JobNotFound, True),
        ([2024, "Job is pending execution"], SlurmRefused, True),
        ([2180, "Invalid node state transition"], SlurmRefused, True),
        ([2020, "Job can not be altered now, try again later"], SlurmRefused, False),
        ([9999, "a new error of a new release"], SlurmUnreachable, False),
        ([0, "no number at all"], SlurmUnreachable, False),
    ],
)
def test_errors_are_told_apart_by_their_numbers(
    stage: Stage, error: list[object], kind: type[SlurmError], permanent: bool
) -> None:
    stage.set(jobs=[{"id": 7}], on={"requeue": error})
    with pytest.raises(SlurmError) as caught:
        stage.client().requeue("7", hold=False)
    assert type(caught.value) is kind
    assert caught.value.permanent is permanent
    assert str(error[1]) in caught.value.message


def test_nothing_of_our_environment_gets_to_it(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_SECRET_KEY", "not for Slurm")
    client = stage.client()
    client.health()
    (child,) = children(stage)
    assert b"RECOVERY_SECRET_KEY" not in environment(child)
