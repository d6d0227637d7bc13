"""Logs, names and comments are hostile input: whatever they hold, it is shown and never obeyed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

from recovery.core.lifecycle import IncidentState
from tests.dashboard.conftest import HTMX, text_of
from tests.factories import (
    make_attempt,
    make_checkpoint,
    make_cluster,
    make_event,
    make_incident,
    make_job,
    make_node,
    make_policy,
    make_recommendation,
    make_run,
    make_samples,
    make_signal,
)

HOSTILE = "<script>steal()</script>\"'><img src=x onerror=steal()>{{ 7|add:70 }}{% now 'Y' %}"
TEMPLATES = sorted(Path(settings.BASE_DIR, "templates").rglob("*.html"))


@pytest.fixture
def pages(db: None) -> list[str]:
    """Pages that show rows in which every text is hostile."""
    cluster = make_cluster(error=HOSTILE, paused_at=make_cluster().seen_at, paused_by=HOSTILE, paused_reason=HOSTILE)
    run = make_run(cluster=cluster, name=HOSTILE, user=HOSTILE, checkpoint_dir=HOSTILE, key="hostile")
    job = make_job(
        run=run, name=HOSTILE, user=HOSTILE, comment=HOSTILE, comment_error=HOSTILE, stdout=HOSTILE,
        state_reason=HOSTILE, partition=HOSTILE, excluded_nodes=[HOSTILE], job_id=HOSTILE[:40],
    )  # fmt: skip
    attempt = make_attempt(job=job, nodes=[HOSTILE], blind_reason=HOSTILE, blind_remedy=HOSTILE, cancelled_by=HOSTILE)
    make_samples(attempt=attempt, count=3)
    make_checkpoint(run=run, path=HOSTILE, detail=HOSTILE)
    make_node(cluster=cluster, name=HOSTILE, reason=HOSTILE, raw_state=HOSTILE, reason_by=HOSTILE)
    incident = make_incident(
        attempt=attempt, state=IncidentState.AWAITING_DECISION, headline=HOSTILE, alarm=HOSTILE, error=HOSTILE,
        reason=HOSTILE,
    )  # fmt: skip
    line = {"text": HOSTILE, "source": HOSTILE, "line": 7, "role": HOSTILE, "rule": HOSTILE, "node": HOSTILE}
    evidence = [line, {**line, "line": None, "at": HOSTILE}]
    incident.diagnosis = {
        **incident.diagnosis,
        "evidence": evidence,
        "nodes": [HOSTILE],
        "coverage": {HOSTILE: HOSTILE},
    }
    incident.save()
    make_signal(attempt=attempt, file=HOSTILE, line=7, text=HOSTILE)
    make_recommendation(
        incident=incident, headline=HOSTILE, reasons=[HOSTILE], operations=[HOSTILE], exclude_nodes=[HOSTILE],
        restore_path=HOSTILE, mode_reason=HOSTILE,
    )  # fmt: skip
    make_event(incident=incident, reason=HOSTILE, actor_name=HOSTILE, verb=HOSTILE[:60], subject_kind=HOSTILE[:30])
    policy = make_policy(author=HOSTILE, reason=HOSTILE)
    return [
        "/", "/incidents/", "/approvals/", f"/incidents/{incident.pk}/", f"/incidents/{incident.pk}/evidence/0/",
        "/runs/", f"/runs/{run.pk}/", f"/jobs/{job.pk}/", "/nodes/", "/policies/", f"/policies/{policy.number}/",
        "/audit/", "/admin/", "/search/?q=script", "/shell/",
    ]  # fmt: skip


def test_no_page_obeys_what_a_log_a_name_or_a_comment_says(pages: list[str], as_admin: Client) -> None:
    for path in pages:
        page = text_of(as_admin.get(path, headers=HTMX if "evidence" in path else {}))
        assert "<script>steal" not in page, path
        assert "<img src=x" not in page, path
        assert "{{ 7|add:70 }}" in page or "onerror" not in page, path
        assert "&lt;script&gt;steal()&lt;/script&gt;" in page, path


def test_a_search_shows_its_question_and_does_not_obey_it(read: Callable[[str], str]) -> None:
    page = read("/search/?q=%3Cscript%3Esteal()%3C/script%3E")
    assert "<script>steal" not in page
    assert "&lt;script&gt;steal()" in page


def test_a_chart_is_data_and_never_markup(pages: list[str], as_admin: Client) -> None:
    path = next(path for path in pages if path.startswith("/runs/") and path != "/runs/")
    response = as_admin.get(f"{path}chart.json")
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    json.loads(response.content)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_no_template_carries_a_script_or_a_style_or_trusts_a_text(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=\"|javascript:|hx-on|\|safe\b|autoescape off", text)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "https://" not in text


def test_every_answer_carries_the_policy_that_allows_no_inline_script(as_viewer: Client) -> None:
    policy = as_viewer.get("/").headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
