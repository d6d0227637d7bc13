"""Which environment variables the settings read, with their defaults, taken from the source itself."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SETTINGS = Path(__file__).parents[2] / "recovery" / "settings.py"


@dataclass(frozen=True, slots=True)
class Variable:
    """`kind` is the reader's name (`env_float`); `default` the expression in the settings, "" where there is none."""

    name: str
    kind: str
    default: str


@cache
def variables() -> dict[str, Variable]:
    found = {}
    for node in ast.walk(ast.parse(SETTINGS.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.startswith("env_"):
            name = ast.literal_eval(node.args[0])
            default = ast.unparse(node.args[1]) if len(node.args) > 1 else ""
            found[name] = Variable(name, node.func.id, default)
    return found
