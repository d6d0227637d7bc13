"""The site's own pattern for progress in logs: tried on a pasted sample, and only then saved into the policy."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from dashboard.page import DeskRequest, page
from dashboard.views.policies import save
from recovery import selectors
from recovery.access import Permission
from recovery.core.logs.own_pattern import GROUPS
from recovery.core.logs.trial import Trial, try_pattern
from recovery.core.policy import LOG_PATTERN
from recovery.policy_drafts import rules_of


@require_http_methods(["GET", "POST"])
@page(Permission.POLICY_EDIT)
def log_pattern(request: DeskRequest) -> HttpResponse:
    version = selectors.current_policy()
    rules = rules_of(version)
    held = str(rules.get(LOG_PATTERN, ""))
    pattern = request.POST.get("pattern", held).strip("\r\n")
    sample = request.POST.get("sample", "")
    context: dict[str, Any] = {
        "version": version, "pattern": pattern, "held": held, "sample": sample, "groups": GROUPS, "place": "policies",
        "reason": request.POST.get("reason", ""), "next_number": version.number + 1 if version else 1,
    }  # fmt: skip
    if request.method != "POST":
        return render(request, "policies/log_pattern.html", context)
    trial = try_pattern(pattern, sample) if pattern else Trial()
    errors = [trial.problem] if trial.problem else []
    if "try" not in request.POST and not errors:
        errors = save(request, _with_pattern(rules, pattern), version)
        if not errors:
            return redirect("policies")
    context |= {"trial": trial, "errors": errors}
    return render(request, "policies/log_pattern.html", context, status=422 if errors else 200)


def _with_pattern(rules: dict[str, Any], pattern: str) -> dict[str, Any]:
    rest = {key: value for key, value in rules.items() if key != LOG_PATTERN}
    return {**rest, LOG_PATTERN: pattern} if pattern else rest
