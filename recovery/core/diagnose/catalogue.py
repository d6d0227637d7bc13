"""The catalogue of failure signatures: what one line can say, as data.

The rows are in signatures/*.toml (00_pieces.toml explains the columns); adding one is one row and one test. They
are read and checked once, at import: a wrong row stops the start with its id and what is wrong. A site's own rows are
put before them by `set_site_rules`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from importlib import resources
from typing import Any, TypeVar

from recovery.core.diagnose.slow_patterns import slowness
from recovery.core.types import Exclude, FailureClass, Restart, Role

SITE = "site."  # begins the id of each rule of a site's own, so that it can't take the place of one of ours
GATE = 4  # characters
MAX_LINE = 2000  # characters of a line that are looked at: a job may print lines of any length

_E = TypeVar("_E", bound=StrEnum)
_TEXTS = ("pattern", "sentence", "source")
_FIELDS = {
    "id",
    "scope",
    "literals",
    "class",
    "role",
    "restart",
    "exclude",
    "confidence",
    "fallback",
    "lost_peer",
    *_TEXTS,
}
_PIECE = re.compile(r"<<(\w+)>>")


class Scope(StrEnum):
    """Where a rule applies."""

    LOG = "log"  # lines of the job's log
    NODE = "node"  # events of a node, from the scheduler or a kernel log
    BOTH = "both"


class CatalogueError(ValueError):
    """A row of the catalogue is wrong; the message names the row and the field."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One signature. The verdict columns hold if this rule decides the case (00_pieces.toml explains each)."""

    id: str
    pattern: str
    failure_class: FailureClass
    role: Role
    restart: Restart
    exclude: Exclude
    sentence: str
    source: str
    confidence: float
    scope: Scope
    literals: tuple[str, ...]
    fallback: bool
    lost_peer: bool = False

    @property
    def accuses(self) -> bool:
        """Whether the node that says so is under suspicion; who lost or waits for another only tells of it."""
        return self.role is not Role.CONSEQUENCE and not self.lost_peer


def build(rows: Iterable[Mapping[str, Any]], pieces: Mapping[str, str]) -> tuple[Rule, ...]:
    """Rules from the rows of a catalogue file. Raises CatalogueError."""
    rules: list[Rule] = []
    seen: set[str] = set()
    for row in rows:
        rule = _rule(row, pieces)
        if rule.id in seen:
            raise CatalogueError(f"Rule {rule.id}: the id is used twice.")
        seen.add(rule.id)
        rules.append(rule)
    return tuple(rules)


def _rule(row: Mapping[str, Any], pieces: Mapping[str, str]) -> Rule:
    name = row.get("id")
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9]+\.[a-z0-9_]+", name):
        raise CatalogueError(f"A rule's id must look like family.name, not {name!r}.")
    if unknown := set(row) - _FIELDS:
        raise CatalogueError(f"Rule {name}: unknown field {', '.join(sorted(unknown))}.")
    for field in _TEXTS:
        if not isinstance(row.get(field), str) or not row[field]:
            raise CatalogueError(f"Rule {name}: {field} must be a text.")
    literals, confidence = row.get("literals"), row.get("confidence", 0.9)
    if not isinstance(literals, list) or not literals or not all(isinstance(x, str) and len(x) >= 3 for x in literals):
        raise CatalogueError(f"Rule {name}: literals must be a list of texts of at least 3 characters.")
    if not isinstance(confidence, float) or not 0 < confidence < 1:
        raise CatalogueError(f"Rule {name}: confidence must lie between 0 and 1.")
    for flag in ("fallback", "lost_peer"):
        if not isinstance(row.get(flag, False), bool):
            raise CatalogueError(f"Rule {name}: {flag} must be true or false.")
    return Rule(
        id=name,
        pattern=_pattern(name, row["pattern"], pieces),
        failure_class=_word(FailureClass, row, "class"),
        role=_word(Role, row, "role", "cause"),
        restart=_word(Restart, row, "restart"),
        exclude=_word(Exclude, row, "exclude", "none"),
        sentence=row["sentence"],
        source=row["source"],
        confidence=confidence,
        scope=_word(Scope, row, "scope", "log"),
        literals=tuple(literals),
        fallback=row.get("fallback", False),
        lost_peer=row.get("lost_peer", False),
    )


def _word(kind: type[_E], row: Mapping[str, Any], field: str, default: str = "") -> _E:
    try:
        return kind(row.get(field, default))
    except ValueError:
        allowed = ", ".join(kind)
        raise CatalogueError(f"Rule {row['id']}: {field} is {row.get(field)!r}, not one of {allowed}.") from None


def _pattern(name: str, text: str, pieces: Mapping[str, str]) -> str:
    """The whole pattern: pieces filled in, groups that several pieces name made unique by what comes first."""
    missing = [piece for piece in _PIECE.findall(text) if piece not in pieces]
    if missing:
        raise CatalogueError(f"Rule {name}: no piece is called {missing[0]}.")
    whole = _PIECE.sub(lambda found: pieces[found[1]], text)
    try:
        re.compile(whole)
    except re.error as error:
        raise CatalogueError(f"Rule {name}: the pattern is not a regular expression: {error}.") from None
    return whole


def _load() -> tuple[dict[str, str], tuple[Rule, ...]]:
    pieces: dict[str, str] = {}
    rows: list[dict[str, Any]] = []
    folder = resources.files(__package__) / "signatures"
    for file in sorted((f for f in folder.iterdir() if f.name.endswith(".toml")), key=lambda f: f.name):
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        pieces.update(table.get("pieces", {}))
        rows.extend(table.get("rule", []))
    return pieces, build(rows, pieces)


class Matcher:
    """Searches many rules in one pass over a line.

    A healthy line is told by a few dozen substring searches: every literal holds one of the gates, so a line without a
    gate has no literal, and a rule's pattern is only tried where one of its literals stands in the line.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = [(rule, re.compile(rule.pattern)) for rule in rules]
        by_literal: dict[str, list[int]] = {}
        for index, (rule, _) in enumerate(self._rules):
            for literal in rule.literals:
                by_literal.setdefault(literal, []).append(index)
        self._by_literal = by_literal
        self._gates = list(gates_for(by_literal).items())
        self._to_try = lru_cache(maxsize=256)(self._in_order)  # lines that repeat hold the same literals

    @property
    def literals(self) -> tuple[str, ...]:
        return tuple(self._by_literal)

    def match(self, text: str, literals: Iterable[str] | None = None) -> list[tuple[Rule, re.Match[str]]]:
        """The rules that match, those that say more first; fallback rules only where no other one does.

        `literals`: where it is known already that no other ones stand in the line.
        """
        text = text[:MAX_LINE]
        if literals is None:
            literals = (literal for gate, held in self._gates if gate in text for literal in held)
        standing = tuple([literal for literal in literals if literal in text])
        found: list[tuple[Rule, re.Match[str]]] = []
        for rule, pattern in self._to_try(standing) if standing else ():
            if rule.fallback and found:
                break
            if hit := pattern.search(text):
                found.append((rule, hit))
        return found

    def patterns(self, literals: Iterable[str]) -> tuple[re.Pattern[str], ...]:
        """Of the rules that may match where no other literals stand in a line."""
        return tuple(pattern for _, pattern in self._in_order(tuple(literals)))

    def _in_order(self, literals: tuple[str, ...]) -> list[tuple[Rule, re.Pattern[str]]]:
        """The rules that hold one of the literals, those that say more first."""
        tried = {index for literal in literals for index in self._by_literal[literal]}
        return sorted((self._rules[index] for index in sorted(tried)), key=lambda row: row[0].fallback)


def gates_for(literals: Iterable[str]) -> dict[str, list[str]]:
    """Few short strings so that each literal holds one of them: gate → its literals. Greedy, most covered first.

    A literal that is too short to hold a gate is its own gate.
    """
    left = dict.fromkeys(literals)
    holders: dict[str, set[str]] = {}
    for literal in left:
        for start in range(max(1, len(literal) - GATE + 1)):
            holders.setdefault(literal[start : start + GATE], set()).add(literal)
    gates: dict[str, list[str]] = {}
    while left:
        gate = max(holders, key=lambda piece: (len(holders[piece]), piece))
        gates[gate] = [literal for literal in left if literal in holders[gate]]
        for literal in gates[gate]:
            del left[literal]
        holders = {piece: held for piece, texts in holders.items() if (held := texts - set(gates[gate]))}
    return gates


PIECES, RULES = _load()
RULES_BY_ID: dict[str, Rule] = {}
_LOG = Matcher(())
_NODE = Matcher(())
LOG_LITERALS: tuple[str, ...] = ()


def set_site_rules(text: str) -> None:
    """Take the rows of a site's own file (TOML, as signatures/*.toml) into the catalogue, before ours; "" for none.

    To be called before any log is read. Raises CatalogueError for a wrong row, and for one whose id is not `site.…`.
    """
    global _LOG, _NODE, LOG_LITERALS  # one catalogue for the process, set at its start
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CatalogueError(f"This is no TOML: {error}.") from None
    own = build(table.get("rule", []), {**PIECES, **table.get("pieces", {})})
    for rule in own:
        if not rule.id.startswith(SITE):
            raise CatalogueError(f"Rule {rule.id}: the id of a site's own rule begins with {SITE!r}.")
        if fault := slowness(rule.pattern, rule.literals, longest=MAX_LINE):
            raise CatalogueError(f"Rule {rule.id}: {fault}")
    rules = (*own, *RULES)
    RULES_BY_ID.clear()
    RULES_BY_ID.update({rule.id: rule for rule in rules})
    _LOG = Matcher(rule for rule in rules if rule.scope is not Scope.NODE)
    _NODE = Matcher(rule for rule in rules if rule.scope is not Scope.LOG)
    LOG_LITERALS = _LOG.literals


set_site_rules("")


def match(text: str, literals: Iterable[str] | None = None) -> list[tuple[Rule, re.Match[str]]]:
    """What one line of a job's log says about a failure, the most telling rule first; [] for a healthy line.

    `text` is a line without colour codes and launcher prefixes. Only its first 2000 characters are looked at.
    `literals`: those of LOG_LITERALS that may stand in it, where that is known already.
    """
    return _LOG.match(text, literals)


def patterns(literals: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    """Those of which none is found in a line, in which no other of LOG_LITERALS stands, if `match` finds nothing."""
    return _LOG.patterns(literals)


def match_event(text: str) -> list[tuple[Rule, re.Match[str]]]:
    """The same for what the scheduler or a kernel log said of a node."""
    return _NODE.match(text)
