"""Rows for tests: `make_NOUN(**fields)` stores one believable row and returns it.

Every field can be given by keyword; what a row stands on (a job's run, an incident's attempt) is made where it is
not given. Moments lie in the minutes before `timezone.now()`, so a test that freezes the clock freezes them too.
"""

from tests.factories.base import ago
from tests.factories.fleet import make_outbreak, make_strike, make_suspect
from tests.factories.incidents import (
    make_action,
    make_danger,
    make_decision,
    make_event,
    make_finding,
    make_incident,
    make_policy,
    make_recommendation,
)
from tests.factories.jobs import (
    make_alarm,
    make_attempt,
    make_checkpoint,
    make_cluster,
    make_examination,
    make_job,
    make_log_file,
    make_node,
    make_run,
    make_samples,
    make_signal,
)
from tests.factories.people import make_token, make_user

__all__ = [
    "ago",
    "make_action",
    "make_alarm",
    "make_attempt",
    "make_checkpoint",
    "make_cluster",
    "make_danger",
    "make_decision",
    "make_event",
    "make_examination",
    "make_finding",
    "make_incident",
    "make_job",
    "make_log_file",
    "make_node",
    "make_outbreak",
    "make_policy",
    "make_recommendation",
    "make_run",
    "make_samples",
    "make_signal",
    "make_strike",
    "make_suspect",
    "make_token",
    "make_user",
]
