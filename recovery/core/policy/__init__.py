"""The policy: how far the product may go for which job and failure class, what that takes, and what lowers it."""

from recovery.core.policy.check import Problem, check_rules, problems
from recovery.core.policy.document import (
    AVOID_SUSPECTS,
    DEFAULT,
    DEFAULT_MAX_RESTARTS,
    DEFAULT_RULES,
    LOG_PATTERN,
    Approval,
    Budget,
    Escalate,
    Freeze,
    Limits,
    OnExpiry,
    Promote,
    freezes_of,
    log_pattern,
    promote_of,
    rule_named,
)
from recovery.core.policy.match import PassedOver, Question, Traits, deciding_rule
from recovery.core.policy.reach import unreachable
from recovery.core.policy.ruling import Acted, Load, Ruling, frozen_by, lower, room_for_exclusions, rule_on

__all__ = [
    "AVOID_SUSPECTS",
    "DEFAULT",
    "DEFAULT_MAX_RESTARTS",
    "DEFAULT_RULES",
    "LOG_PATTERN",
    "Acted",
    "Approval",
    "Budget",
    "Escalate",
    "Freeze",
    "Limits",
    "Load",
    "OnExpiry",
    "PassedOver",
    "Problem",
    "Promote",
    "Question",
    "Ruling",
    "Traits",
    "check_rules",
    "deciding_rule",
    "freezes_of",
    "frozen_by",
    "log_pattern",
    "lower",
    "problems",
    "promote_of",
    "room_for_exclusions",
    "rule_named",
    "rule_on",
    "unreachable",
]
