"""A policy that is being written, as text: what is wrong with it, what it would change, and changes to its rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recovery import policy_files
from recovery.core.policy import DEFAULT_RULES, LOG_PATTERN, check_rules, unreachable
from recovery.models import PolicyVersion


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """`rules`: the document, None where the text is none that can be saved; `errors` then say why, with lines.

    `warnings`: rules that are never reached. `changes`: a unified diff against the version that holds.
    """

    text: str
    rules: dict[str, Any] | None = None
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()


def rules_of(version: PolicyVersion | None) -> dict[str, Any]:
    """What holds by that version; without one, that of a fresh installation."""
    return dict(version.rules) if version else DEFAULT_RULES


def draft(text: str, held: PolicyVersion | None) -> Draft:
    """The text, judged against the version that holds. Never raises."""
    try:
        found = policy_files.read(text)
    except policy_files.BadPolicyFile as problem:
        return Draft(text=text, errors=tuple(problem.errors))
    if untried := _untried(found.rules, held):
        return Draft(text=text, errors=(f"line {found.lines.get((LOG_PATTERN,), 1)}: {untried}",))
    return _judged(text, found.rules, found.warnings, held)


def draft_of(document: Any, held: PolicyVersion | None) -> Draft:
    """A document that was sent as such; there are no lines to tell. Never raises."""
    if errors := check_rules(document):
        return Draft(text="", errors=tuple(errors))
    if untried := _untried(document, held):
        return Draft(text="", errors=(untried,))
    warnings = tuple(f"rules[{index}]: {said}" for index, said in unreachable(document))
    return _judged(policy_files.write(document), document, warnings, held)


def _judged(text: str, rules: dict[str, Any], warnings: tuple[str, ...], held: PolicyVersion | None) -> Draft:
    names = (str(held) if held else "no version", "the draft")
    changes = policy_files.diff(rules_of(held), rules, names=names)
    return Draft(text=text, rules=rules, warnings=warnings, changes=tuple(changes))


def _untried(rules: dict[str, Any], held: PolicyVersion | None) -> str:
    """A pattern for logs counts only after it was tried on a sample, which no text can be."""
    pattern = rules.get(LOG_PATTERN)
    if not pattern or pattern == rules_of(held).get(LOG_PATTERN):
        return ""
    return f"{LOG_PATTERN}: change it under “Log pattern”, where it is tried on a sample first."


def with_rule(rules: dict[str, Any], rule: dict[str, Any], *, index: int | None, before: str = "") -> dict[str, Any]:
    """The document with that rule in the place of another; without `index` a new one, `before` a named rule or last."""
    listed = list(rules["rules"])
    if index is not None:
        listed[index] = rule
    else:
        names = [each["name"] for each in listed]
        listed.insert(names.index(before) if before in names else len(listed), rule)
    return {**rules, "rules": listed}


def moved(rules: dict[str, Any], index: int, *, to: int) -> dict[str, Any]:
    """The document with one rule in another place; where there is none, as it was."""
    listed = list(rules["rules"])
    if 0 <= index < len(listed) and 0 <= to < len(listed):
        listed.insert(to, listed.pop(index))
    return {**rules, "rules": listed}


def without_rule(rules: dict[str, Any], index: int) -> dict[str, Any]:
    return {**rules, "rules": [rule for place, rule in enumerate(rules["rules"]) if place != index]}
