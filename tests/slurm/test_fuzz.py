"""Recorded answers, broken in every way: each parser gives records or says that there are none, in linear time."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recovery.slurm import cli_jobs, cli_json, cli_rights, cli_scontrol, cli_squeue, cli_submit, sacct
from recovery.slurm.base import JobRecord, SlurmUnreachable
from recovery.slurm.cli_commands import error_of
from recovery.slurm.command import Answer
from recovery.slurm.json_values import BadAnswer
from tests.slurm.record import SEPARATOR
from tests.slurm.test_recorded import RELEASES, Recording


def jobs_of_text(text: str) -> list[JobRecord]:
    found = cli_squeue.rows(text, SEPARATOR)
    return [cli_jobs.record(row, allocated={}, reasons={}) for row in found]


ROW = cli_squeue.rows(Recording(RELEASES[0]).read("squeue.txt"), SEPARATOR)[0]
PARSERS: dict[str, tuple[str, Callable[[str], object]]] = {
    "jobs": ("squeue.txt", jobs_of_text),
    "excluded": ("squeue_excluded.txt", cli_squeue.excluded_nodes),
    "jobs_json": ("squeue.json", cli_json.parse_jobs),
    "reasons": ("squeue.json", cli_json.reasons),
    "nodes": ("sinfo.json", cli_json.parse_nodes),
    "attempts": ("sacct_failed.txt", lambda text: sacct.attempts_by_job(text, ["2"])),
    "health": ("config.txt", lambda text: cli_scontrol.health(text, latency_s=0)),
    "partitions": ("partitions.txt", cli_scontrol.partitions),
    "reservations": ("reservations.txt", cli_scontrol.reservations),
    "topology": ("topology.txt", cli_scontrol.topology),
    "details": ("details_running.txt", lambda text: cli_scontrol.allocated_nodes(text, ROW)),
    "job_id": ("jobs.txt", cli_submit.job_id),
    "rights": (
        "jobs.txt",
        lambda text: cli_rights.rights_of("desk", {"AccountingStorageType": "slurmdbd"}, ask=lambda: text),
    ),
    "error": ("jobs.txt", lambda text: error_of(Answer(argv=("x",), code=1, output=text, errors=text))),
}
# What is put into the middle of an answer: Slurm's own syntax, its edges, and what no text holds.
PIECES = st.sampled_from(
    [
        *("", SEPARATOR, "\n", "\x1f", "|", ",", "=", "[", "]", "{", "}", '"', "null", "(null)", "N/A", "\0", "\ufffd"),
        *("4294967294", "4294967295", "2147483648", "-1", "1e309", "NaN", "9" * 40, "²", "n[1-999999999]", "n[9-1]"),
        *("@all", "INFINITE", "UNLIMITED", "0000-00-00T00:00:00", "9999-12-31T23:59:59", "1:2:3:4", "JobId=1 "),
    ]
)


@st.composite
def broken(draw: st.DrawFn, text: str) -> str:
    """Up to three spans of an answer replaced, doubled or left out; sometimes its end is missing."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from([0, 1, 2, 7, 40, 500])))
        piece = draw(PIECES | st.text(max_size=6) | st.just(text[start:end] * 2))
        text = text[:start] + piece + text[end:]
    return text[: draw(st.integers(0, len(text)))] if draw(st.integers(0, 9)) == 0 else text


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("parser", PARSERS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example])
@given(data=st.data())
def test_a_broken_answer_is_records_or_none(parser: str, release: str, data: st.DataObject) -> None:
    file, parse = PARSERS[parser]
    text = data.draw(broken(Recording(release).read(file)))
    found: object = ()
    with suppress(BadAnswer):
        found = parse(text)
    for job in found if isinstance(found, list) else ():
        if isinstance(job, JobRecord):
            assert "\0" not in job.name + job.comment + job.stdout
            assert 0 <= job.restart_count < 2**31
            assert 0 <= job.node_count < 2**31
            assert job.submitted_at < datetime(9999, 12, 31, 23, 59, 59, 1, tzinfo=UTC)


@pytest.mark.parametrize("parser", [name for name in PARSERS if name not in ("jobs_json", "reasons", "nodes")])
@pytest.mark.parametrize("piece", ["\n", " ", "=", "JobId=", SEPARATOR, "\x1f", "n[1-2],", "9", "0:", "x" * 50])
def test_no_answer_is_slow_however_long(parser: str, piece: str) -> None:
    _, parse = PARSERS[parser]
    text = piece * (1_000_000 // len(piece))
    started = time.process_time()
    with suppress(BadAnswer):
        parse(text)
    assert time.process_time() - started < 2.0


@given(st.text(max_size=200), st.text(max_size=200))
def test_whatever_a_command_says_is_an_error_with_words(output: str, errors: str) -> None:
    error = error_of(Answer(argv=("scontrol", "requeue", "12"), code=1, output=output, errors=errors))
    assert error.message
    assert len(error.message) <= 600
    if not (output + errors).strip():
        assert type(error) is SlurmUnreachable
