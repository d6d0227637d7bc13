"""Paste or upload a job's log, get the verdict. Nothing that is given is stored."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods

from dashboard.page import DeskRequest, page
from recovery.core.types import Diagnosis, JobState
from recovery.offline.logs import TextLog
from recovery.offline.record import JobRecordError
from recovery.pipeline.diagnose_text import MOST_BYTES, MOST_LOGS, diagnose_text, text_log

FORM_BYTES = 64 * 1024  # what the form itself adds to the logs
PASTED = "pasted"
TEXTS = ("state", "exit_code", "nodes", "user_cancelled_by")
NUMBERS = ("restart_count", "elapsed_s", "time_limit_s")


@csrf_exempt  # what is too long must be refused before anything of it is read; then the form is protected as all are
@require_http_methods(["GET", "POST"])
def diagnose(request: HttpRequest) -> HttpResponseBase:
    length = str(request.META.get("CONTENT_LENGTH") or "0")
    if not length.isdigit() or int(length) > MOST_BYTES + FORM_BYTES:
        return _too_long(request)
    return _diagnose(request)


@page()
def _too_long(request: DeskRequest) -> HttpResponse:
    problem = f"That is more than {MOST_BYTES // 1_000_000} MB: give the end of the log, or use manage.py diagnose."
    return render(request, "diagnose.html", {"problem": problem, "states": list(JobState)}, status=413)


@csrf_protect
@page()
def _diagnose(request: DeskRequest) -> HttpResponse:
    context: dict[str, Any] = {"states": list(JobState), "given": request.POST, "place": "incidents"}
    if request.method != "POST":
        return render(request, "diagnose.html", context)
    try:
        context["verdict"] = verdict = _verdict(request)
    except JobRecordError as error:
        return render(request, "diagnose.html", {**context, "problem": f"{error}."}, status=422)
    place = verdict.first_failure
    context["began"] = (place.source, place.line) if place else None
    return render(request, "diagnose.html", context)


def _verdict(request: DeskRequest) -> Diagnosis:
    """Raises JobRecordError, also where no log was given."""
    logs = _logs(request)
    if not logs:
        raise JobRecordError("Paste a log, or choose a file")
    record: dict[str, Any] = {field: text for field in TEXTS if (text := request.POST.get(field, "").strip())}
    for field in NUMBERS:
        if text := request.POST.get(field, "").strip():
            record[field] = _number(field, text)
    return diagnose_text(logs, record)


def _logs(request: DeskRequest) -> list[TextLog]:
    pasted = request.POST.get("log", "")
    files = request.FILES.getlist("files")[:MOST_LOGS]
    logs = [text_log(str(file.name), file.read()) for file in files]
    return [*logs, *([text_log(PASTED, pasted.encode())] if pasted.strip() else [])]


def _number(field: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e10:
        raise JobRecordError(f"job.{field}: must be a number, not {text[:40]!r}")
    return number
