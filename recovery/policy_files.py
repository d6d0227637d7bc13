"""The policy as a file that people review: YAML in and out, with the same fields as the stored document.

YAML as most people read it: `on` and `yes` are texts, `18:00` is a time of day and no number, a date is a text. A key
that stands twice and an alias are refused: both make a file say something else than it seems to.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import yaml

from recovery.core.policy import problems, unreachable
from recovery.core.policy.check import MOST_VALUES, Place, Problem

LONGEST = 200_000  # characters; 500 rules with ten fields each have less
WIDTH = 110

# As recovery/core/policy/document.py tells of them; PostgreSQL keeps the keys of an object by their length.
FIELDS = (
    "rules", "name", "classes", "match", "clusters", "partitions", "accounts", "users", "qos", "job_names",
    "labels", "gpus", "nodes", "confidence", "min", "max", "hours", "days", "mode", "shadow", "actions",
    "max_restarts", "budget", "per_class", "limits", "max_nodes", "max_actions", "max_interrupted",
    "window_s", "backoff_s", "approval", "count", "role", "four_eyes", "comment", "owner", "default",
    "avoid_suspects", "breaker", "max_actions_per_hour", "max_excluded_nodes", "max_excluded_percent",
    "fleet_failures", "fleet_window_s", "freezes", "from", "to", "timezone", "override", "notify", "severity",
    "expires_after_s", "on_expiry", "escalate", "after_s", "promote", "decided", "agreement", "log_pattern",
)  # fmt: skip
_PLACES = {field: place for place, field in enumerate(FIELDS)}

# The core schema of YAML 1.2: true, false, null and plain numbers; everything else is a text. By name: what it looks
# like, and how it may begin.
CORE_SCHEMA = {
    "bool": (re.compile(r"^(?:true|false)$"), [*"tf"]),
    "null": (re.compile(r"^(?:null|~|)$"), ["n", "~", ""]),
    "int": (re.compile(r"^[-+]?\d{1,18}$"), [*"-+0123456789"]),
    "float": (
        re.compile(r"^[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d{1,3})?$"),
        [*"-+.0123456789"],
    ),
}


class BadPolicyFile(Exception):
    """What is wrong, one sentence each, with the line where there is one."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = errors


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyFile:
    """`lines`: on which line (from 1) each field of the document stands. `warnings`: rules that are never reached."""

    rules: dict[str, Any]
    lines: dict[Place, int] = field(repr=False)
    warnings: tuple[str, ...] = ()


def read(text: str) -> PolicyFile:
    """A policy that can be saved. Raises BadPolicyFile."""
    if len(text) > LONGEST:
        raise BadPolicyFile([f"The file has {len(text)} characters; at most {LONGEST} are read."])
    document, lines = _parsed(text)
    if found := problems(document):
        raise BadPolicyFile([_with_line(problem, lines) for problem in found])
    never = [_with_line(Problem(place=("rules", index), message=why), lines) for index, why in unreachable(document)]
    return PolicyFile(rules=document, lines=lines, warnings=tuple(never))


def write(rules: dict[str, Any]) -> str:
    """The document as YAML, in the order in which its fields are told of, whatever order a database keeps."""
    return str(yaml.dump(_in_order(rules), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH))


def _in_order(value: Any) -> Any:
    if isinstance(value, list):
        return [_in_order(each) for each in value]
    if not isinstance(value, dict):
        return value
    keys = sorted(value, key=lambda key: (_PLACES.get(key, len(_PLACES)), str(key)))
    return {key: _in_order(value[key]) for key in keys}


def diff(old: dict[str, Any], new: dict[str, Any], *, names: tuple[str, str]) -> list[str]:
    """What changes from one document to the other, as lines of a unified diff of their YAML; [] if nothing does."""
    before, after = (write(rules).splitlines() for rules in (old, new))
    return list(difflib.unified_diff(before, after, *names, lineterm="", n=2))


def _with_line(problem: Problem, lines: dict[Place, int]) -> str:
    place = problem.place
    while place and place not in lines:
        place = place[:-1]
    return f"line {lines.get(place, 1)}: {problem}"


def _parsed(text: str) -> tuple[Any, dict[Place, int]]:
    lines: dict[Place, int] = {}
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None, lines
        _note_lines(node, (), lines)
        return loader.construct_document(node), lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise BadPolicyFile([f"{where}this can't be read: {error.problem or error.context}."]) from error
    except yaml.YAMLError as error:
        raise BadPolicyFile([f"This can't be read: {str(error).splitlines()[0]}."]) from error
    except (RecursionError, ValueError) as error:
        raise BadPolicyFile(["This can't be read: it is nested too deeply, or holds a number that is none."]) from error


def _note_lines(node: yaml.Node, place: Place, lines: dict[Place, int]) -> None:
    lines[place] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _refused("a key must be a text", key.start_mark)
            _note_lines(value, (*place, key.value), lines)
            lines[(*place, key.value)] = key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _note_lines(value, (*place, index), lines)


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # its own, not SafeLoader's

    count = 0  # of nodes, which cost more than their characters

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self.count += 1
        if self.count > MOST_VALUES:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise _refused(f"more than {MOST_VALUES} values; make it smaller", mark)
        if self.check_event(yaml.AliasEvent):
            raise _refused("an alias; write out what it stands for", self.peek_event().start_mark)  # type: ignore[no-untyped-call]
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        made: dict[Hashable, Any] = {}
        for key, value in node.value:
            if key.value in made:
                raise _refused(f"{key.value} stands twice", key.start_mark)
            made[key.value] = self.construct_object(value, deep=True)
        return made


def _refused(why: str, at: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=why, problem_mark=at)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        rare = any(sign in text for sign in "\x85\u2028\u2029")  # line ends that only quotes keep as they are
        other = any(pattern.match(text) for pattern, _ in CORE_SCHEMA.values())  # PyYAML's own idea of them is narrower
        return self.represent_scalar("tag:yaml.org,2002:str", text, style='"' if rare or other else None)


_Dumper.add_representer(str, _Dumper.represent_text)


for _tag, (_pattern, _first) in CORE_SCHEMA.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, _first)
_Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))  # 010 is ten
_Loader.add_constructor("tag:yaml.org,2002:float", lambda loader, node: float(node.value))
