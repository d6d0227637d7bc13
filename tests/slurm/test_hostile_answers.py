"""Answers that are whole and out of all measure, and those that repeat what they were told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recovery.core.types import JobState
from recovery.slurm.base import SlurmUnreachable
from recovery.slurm.cli_json import parse_nodes
from recovery.slurm.job_gpus import MOST_GPUS
from tests.slurm.fake_slurm import JOB, FakeSlurm, squeue_answer
from tests.slurm.rest_server import Said, Server
from tests.slurm.test_json_answers import JOB_26_05, number, parse

HELD = JOB._replace(state="PENDING", reason="job requeued in held state", priority="0", nodes="", restarts="1")


def test_a_page_that_repeats_our_token_is_not_shown_with_it(server: Server) -> None:
    server.says(Said(status=502, kind="text/html", body=b"Bad gateway. X-SLURM-USER-TOKEN: a.tell-tale.c"))
    with pytest.raises(SlurmUnreachable) as caught:
        server.client(token="a.tell-tale.c").nodes()
    assert "tell-tale" not in str(caught.value)
    assert "(hidden)" in str(caught.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"gres_detail": ["gpu:9999999(IDX:0)"] * 3000},
        {"tres_per_node": "gres/gpu:9999999", "nodes": "", "node_count": 65_000},
        {"tres_alloc_str": ",".join(f"gres/gpu:t{n}=9999999" for n in range(3000))},
    ],
    ids=["detail", "request", "tres"],
)
def test_no_number_of_gpus_is_more_than_a_database_holds(fields: dict[str, Any]) -> None:
    assert parse(JOB_26_05, **fields).gpus == MOST_GPUS


def test_no_node_has_more_either() -> None:
    node = {"name": "n1", "state": "IDLE", "gres": ",".join(["gpu:9999999"] * 3000)}
    assert parse_nodes(json.dumps({"nodes": [node]}))[0].gpus == MOST_GPUS


def test_an_exit_code_is_a_byte() -> None:
    exit_code = {"return_code": number(2**40 + 7), "signal": {"id": number(2**40)}}
    record = parse(JOB_26_05, job_state=["FAILED"], exit_code=exit_code)
    assert (record.state, record.exit_code, record.exit_signal) == (JobState.FAILED, 7, None)


def test_twenty_thousand_held_jobs_fit_into_a_question_and_into_a_sentence(tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path)
    held = [HELD._replace(raw_id=str(10_000_000 + n), array_id=str(10_000_000 + n)) for n in range(20_000)]
    slurm.prints(squeue_answer(*held), "squeue")
    with pytest.raises(SlurmUnreachable, match="no whole JSON") as caught:  # this squeue knows no JSON, but was started
        slurm.client().jobs()
    assert len(str(caught.value)) < 1000


def test_a_sentence_does_not_name_a_thousand_jobs(tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path)
    held = [HELD._replace(raw_id=str(10_000_000 + n), array_id=str(10_000_000 + n)) for n in range(1000)]
    slurm.prints(squeue_answer(*held), "squeue")
    with pytest.raises(SlurmUnreachable, match="no whole JSON") as caught:
        slurm.client().jobs()
    assert len(str(caught.value)) < 1000
