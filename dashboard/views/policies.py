"""The policy: what holds, its history, and the table that makes a new version (policy_draft.py has the other ways)."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from dashboard import policy_form
from dashboard.page import DeskRequest, page
from recovery import policy_files, selectors
from recovery.access import Permission
from recovery.core.policy import LOG_PATTERN
from recovery.core.types import Mode
from recovery.models import PolicyVersion
from recovery.pipeline import by_hand
from recovery.pipeline.invalid import Invalid
from recovery.policy_drafts import rules_of

VERSIONS = 30


def _context(version: PolicyVersion | None, table: policy_form.Table) -> dict[str, Any]:
    return {
        "log_pattern": rules_of(version).get(LOG_PATTERN, ""),
        "version": version,
        "table": table,
        "rules": rules_of(version)["rules"],
        "modes": list(Mode),
        "usual_restarts": policy_form.USUAL_RESTARTS,
        "next_number": version.number + 1 if version else 1,
        "place": "policies",
    }


@require_GET
@page()
def policies(request: DeskRequest) -> HttpResponse:
    version = selectors.current_policy()
    context = _context(version, policy_form.table_of(rules_of(version)))
    return render(request, "policies.html", context | {"versions": selectors.policies()[:VERSIONS]})


@require_GET
@page()
def policy(request: DeskRequest, number: int) -> HttpResponse:
    """One version as it was stored: it is never edited."""
    version = selectors.policies().filter(number=number).first()
    if version is None:
        raise Http404(f"There is no policy version {number}.")
    newest = selectors.current_policy()
    context = _context(version, policy_form.table_of(version.rules))
    return render(
        request, "policies/version.html", context | {"text": policy_files.write(version.rules), "newest": newest}
    )


@require_GET
@page()
def policy_yaml(request: DeskRequest, number: int) -> HttpResponse:
    """One version as a file, for git."""
    version = selectors.policies().filter(number=number).first()
    if version is None:
        raise Http404(f"There is no policy version {number}.")
    name = f"policy-{version.number}.yaml"
    return HttpResponse(
        policy_files.write(version.rules),
        content_type="application/yaml; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


@require_http_methods(["GET", "POST"])
@page(Permission.POLICY_EDIT)
def edit(request: DeskRequest) -> HttpResponse:
    """The table: mode and restarts per class, limits, expiry. Saving makes a new version."""
    version = selectors.current_policy()
    if request.method != "POST":
        return render(request, "policies/edit.html", _context(version, policy_form.table_of(rules_of(version))))
    table = policy_form.read(rules_of(version), request.POST)
    context = _context(version, table) | {"reason": request.POST.get("reason", "")}
    errors = table.problems
    if not errors and table.rules is not None:
        errors = save(request, table.rules, version)
        if not errors:
            return redirect("policies")
    return render(request, "policies/edit.html", context | {"errors": errors}, status=422)


def save(request: DeskRequest, rules: Any, base: PolicyVersion | None) -> list[str]:
    """Store a new version; the errors instead where it can't be. Never on top of a version that was not looked at."""
    number = base.number if base else 0
    held, reason = str(number), request.POST.get("reason", "")
    if request.POST.get("base", held) != held:
        return [
            f"Version {held} was saved while you edited: it is not in this form. Open the policy in another tab, "
            "compare, and press Save again to put yours on top."
        ]
    try:
        saved = by_hand.save_policy(rules, base=number, reason=reason, actor=request.actor, now=request.now)
    except Invalid as problem:
        return problem.errors
    messages.success(request, f"Version {saved.number} holds from now on.", extra_tags="ok")
    return []
