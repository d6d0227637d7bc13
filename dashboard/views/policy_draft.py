"""A draft of the policy: as text, and one rule of it as a form. It travels with the page until it is saved."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from dashboard import rule_form
from dashboard.page import DeskRequest, page
from dashboard.views.policies import save
from recovery import policy_drafts, policy_files, selectors
from recovery.access import Permission
from recovery.core.policy import problems
from recovery.core.types import Mode
from recovery.models import PolicyVersion
from recovery.policy_drafts import Draft, rules_of


@require_http_methods(["GET", "POST"])
@page(Permission.POLICY_EDIT)
def advanced(request: DeskRequest) -> HttpResponse:
    """The whole document as text. `do`: check, save, or up, down or delete with the place of a rule."""
    held = selectors.current_policy()
    if request.method != "POST":
        return _editor(request, policy_drafts.draft(policy_files.write(rules_of(_asked(request, held))), held), held)
    draft = policy_drafts.draft(request.POST.get("rules", ""), held)
    verb, _, place = request.POST.get("do", "save").partition(" ")
    if verb in CHANGES and draft.rules and place.isdecimal():
        changed = CHANGES[verb](draft.rules, int(place))
        draft = policy_drafts.draft(policy_files.write(changed), held)
    elif verb == "save" and draft.rules:
        errors = save(request, draft.rules, held)
        if not errors:
            return redirect("policies")
        return _editor(request, draft, held, errors=errors)
    return _editor(request, draft, held, errors=draft.errors, checked=True)


CHANGES = {
    "up": lambda rules, index: policy_drafts.moved(rules, index, to=index - 1),
    "down": lambda rules, index: policy_drafts.moved(rules, index, to=index + 1),
    "delete": policy_drafts.without_rule,
}


def _asked(request: DeskRequest, held: PolicyVersion | None) -> PolicyVersion | None:
    """The version that the text begins with: the one that holds, or an old one to go back to."""
    number = request.GET.get("version", "")
    if not number:
        return held
    found = selectors.policies().filter(number=int(number)).first() if number.isdecimal() and len(number) < 9 else None
    if found is None:
        raise Http404(f"There is no policy version {number[:20]}.")
    return found


def _editor(
    request: DeskRequest,
    draft: Draft,
    held: PolicyVersion | None,
    *,
    errors: Any = (),
    checked: bool = False,
) -> HttpResponse:
    number = held.number if held else 0
    # after a refusal the newer version was named: pressing Save again puts the draft on top of it
    base = number if errors or request.method != "POST" else request.POST.get("base", number)
    context = {
        "draft": draft, "version": held, "next_number": number + 1, "base": base, "errors": errors, "checked": checked,
        "reason": request.POST.get("reason", ""), "days": 30, "place": "policies",
        "commented": checked and any(line.lstrip().startswith("#") for line in draft.text.splitlines()),
    }  # fmt: skip
    return render(request, "policies/advanced.html", context, status=422 if errors else 200)


@require_http_methods(["GET", "POST"])
@page(Permission.POLICY_EDIT)
def rule(request: DeskRequest) -> HttpResponse:
    """One rule as a form. `do`: add, edit with the place of a rule, or put, which hands it to the draft."""
    held = selectors.current_policy()
    if request.method != "POST":
        return _open(
            request, policy_drafts.draft(policy_files.write(rules_of(held)), held), held, _named(request, held)
        )
    draft = policy_drafts.draft(request.POST.get("rules", ""), held)
    verb, _, place = request.POST.get("do", "put").partition(" ")
    if draft.rules is None:
        return _editor(request, draft, held, errors=draft.errors)
    index = int(place) if place.isdecimal() and int(place) < len(draft.rules["rules"]) else None
    if verb != "put":
        return _open(request, draft, held, index)
    made, wrong = rule_form.read(request.POST)
    changed = policy_drafts.with_rule(draft.rules, made, index=index, before=request.POST.get("before", ""))
    at = changed["rules"].index(made) if index is None else index
    said = dict(rule_form.of_field(problem, at) for problem in reversed(problems(changed))) | wrong
    if said:
        return _form(request, draft, held, index, typed=request.POST, wrong=said)
    return _editor(request, policy_drafts.draft(policy_files.write(changed), held), held, checked=True)


def _named(request: DeskRequest, held: PolicyVersion | None) -> int | None:
    names = [each["name"] for each in rules_of(held)["rules"]]
    name = request.GET.get("name", "")
    return names.index(name) if name in names else None


def _open(request: DeskRequest, draft: Draft, held: PolicyVersion | None, index: int | None) -> HttpResponse:
    if draft.rules is None:
        return _editor(request, draft, held, errors=draft.errors)
    rule = draft.rules["rules"][index] if index is not None else {}
    if not rule_form.can_say(rule) and rule:
        said = f"{rule['name']} says more than the form can: change it in the text."
        return _editor(request, draft, held, errors=[said])
    return _form(request, draft, held, index, typed=rule_form.typed_of(rule), wrong={})


def _form(
    request: DeskRequest,
    draft: Draft,
    held: PolicyVersion | None,
    index: int | None,
    *,
    typed: QueryDict,
    wrong: dict[str, str],
) -> HttpResponse:
    rules = (draft.rules or {"rules": []})["rules"]
    groups = [
        (key, title, [(field, typed.get(field.name, ""), wrong.get(field.name, "")) for field in fields])
        for key, title, fields in rule_form.GROUPS
    ]
    context = {
        "draft": draft, "index": index, "typed": typed, "wrong": wrong, "groups": groups, "modes": list(Mode),
        "classes": rule_form.CLASSES, "actions": rule_form.ACTIONS, "days": rule_form.DAY_NAMES,
        "chosen": {key: typed.getlist(key) for key in ("classes", "actions", "days")}, "rules": rules,
        "base": request.POST.get("base", held.number if held else 0), "reason": request.POST.get("reason", ""),
        "old_name": rules[index]["name"] if index is not None else "", "before": typed.get("before", ""),
        "other": [sentence for name, sentence in wrong.items() if not name], "place": "policies",
    }  # fmt: skip
    return render(request, "policies/rule.html", context, status=422 if wrong else 200)
