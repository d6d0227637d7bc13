"""Paste or upload a log: the verdict for any viewer; nothing stored, nothing obeyed, nothing too long."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from recovery.models import Event, Incident, Signal
from recovery.pipeline.diagnose_text import MOST_BYTES
from tests.core.attempts import traceback
from tests.dashboard.conftest import text_of
from tests.offline.test_commands import run

ECC = "\n".join(traceback("RuntimeError: CUDA error: uncorrectable ECC error encountered"))


def test_a_pasted_log_gets_its_verdict_with_the_line(clients: dict[str, Client]) -> None:
    page = text_of(clients["viewer"].post("/diagnose/", {"log": ECC, "nodes": "gpu-17", "state": "failed"}))
    assert "A GPU reported an uncorrectable memory error" in page
    assert "pasted:3" in page
    assert "where it began" in page
    assert "<strong>gpu-17</strong>" in page
    assert "what would change it" in page


def test_uploaded_files_are_read_together_and_the_verdict_is_that_of_the_command(
    clients: dict[str, Client], tmp_path: Path
) -> None:
    for name, text in (("rank0.log", "all is well\n"), ("rank1.err", ECC)):
        (tmp_path / name).write_text(text)
    files = [SimpleUploadedFile(path.name, path.read_bytes()) for path in sorted(tmp_path.iterdir())]
    page = text_of(clients["viewer"].post("/diagnose/", {"files": files}))
    assert "rank1.err:3" in page
    told = json.loads(run("diagnose", str(tmp_path), "--json"))
    assert told["reason"] in page


def test_nothing_of_it_is_stored(clients: dict[str, Client]) -> None:
    def stored() -> tuple[int, int, int]:
        return Event.objects.count(), Incident.objects.count(), Signal.objects.count()

    before = stored()
    clients["viewer"].post("/diagnose/", {"log": ECC})
    clients["viewer"].post("/api/v1/diagnose", {"logs": [{"name": "x", "text": ECC}]}, content_type="application/json")
    assert stored() == before


def test_what_a_log_or_a_name_says_is_text_alone(clients: dict[str, Client]) -> None:
    nasty = "<img src=x onerror=alert(1)>"
    file = SimpleUploadedFile(f"{nasty}.log", f"RuntimeError: {nasty}\n{ECC}\nRuntimeError: {nasty}".encode())
    page = text_of(clients["viewer"].post("/diagnose/", {"files": [file], "log": nasty, "nodes": nasty}))
    assert nasty not in page


@pytest.mark.parametrize(
    ("field", "value"), [("exit_code", "one"), ("nodes", "gpu-[01-"), ("state", "GONE"), ("elapsed_s", "-1")]
)
def test_a_wrong_field_is_named_and_what_was_pasted_stays(clients: dict[str, Client], field: str, value: str) -> None:
    response = clients["viewer"].post("/diagnose/", {"log": ECC, field: value})
    assert response.status_code == 422
    assert f"job.{field}" in text_of(response)
    assert "uncorrectable ECC" in text_of(response)


def test_no_log_at_all_is_said(clients: dict[str, Client]) -> None:
    response = clients["viewer"].post("/diagnose/", {"log": " \n"})
    assert (response.status_code, "Paste a log, or choose a file." in text_of(response)) == (422, True)


def test_what_is_too_long_is_refused_before_it_is_read(clients: dict[str, Client]) -> None:
    response = clients["viewer"].post("/diagnose/", {"log": "x" * (MOST_BYTES + 100_000)})
    assert response.status_code == 413
    assert "more than 2 MB" in text_of(response)
    assert clients["anonymous"].post("/diagnose/", {"log": "x" * (MOST_BYTES + 100_000)}).status_code == 302


def test_a_form_from_elsewhere_is_refused(clients: dict[str, Client]) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = clients["viewer"].cookies
    assert strict.post("/diagnose/", {"log": ECC}).status_code == 403


def api(client: Client, body: Any) -> Any:
    return client.post("/api/v1/diagnose", body, content_type="application/json")


def test_the_api_answers_as_the_command_prints(clients: dict[str, Client], tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text(ECC)
    answer = api(
        clients["viewer"], {"logs": [{"name": str(tmp_path / "job.out"), "text": ECC}], "job": {"nodes": "n1"}}
    )
    (tmp_path / "job.json").write_text('{"nodes": "n1"}')
    told = json.loads(run("diagnose", str(tmp_path / "job.out"), "--job", str(tmp_path / "job.json"), "--json"))
    assert answer.status_code == 200
    assert {**answer.json(), "judged_by": ""} == {**told, "judged_by": ""}


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"logs": [{"name": "a", "text": "b"}], "job": {"state": "GONE"}}, "job.state"),
        ({"logs": [{"name": "a", "text": "b"}], "job": {"checkpoints": 7}}, "checkpoints"),
        ({"logs": []}, "logs"),
        ({"logs": [{"name": "a"}]}, "text"),
    ],
)
def test_the_api_names_what_is_wrong(clients: dict[str, Client], body: Any, word: str) -> None:
    answer = api(clients["viewer"], body)
    assert answer.status_code == 400
    assert word in answer.content.decode()


def test_the_api_takes_no_more_than_it_says(clients: dict[str, Client]) -> None:
    assert api(clients["viewer"], {"logs": [{"name": "a", "text": "x" * (MOST_BYTES + 100_000)}]}).status_code == 413
