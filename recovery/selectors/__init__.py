"""What pages and API read. Keyword-only functions; however many rows they give, the number of queries is the same.

Lists come as querysets, so that a caller filters, counts and pages them; one thing with all that belongs to it comes
as a frozen dataclass. Nothing here writes, and nothing asks who is asking: that is recovery/access.py.
"""

from recovery.selectors.base import NotFound
from recovery.selectors.cluster_reads import (
    ClusterPicture,
    cluster_picture,
    cluster_pictures,
    clusters,
    nodes,
    pictures_of,
    waiting_since,
)
from recovery.selectors.incident_reads import (
    IncidentDetail,
    current_policy,
    current_recommendation,
    decision_on,
    events,
    incident_detail,
    incidents,
    needs_person,
    open_incidents,
    policies,
    recommendation_detail,
    recommendations,
)
from recovery.selectors.run_reads import (
    EXECUTING,
    RunDetail,
    RunFacts,
    attempt,
    attempt_detail,
    attempts,
    blind_attempts,
    checkpoints,
    job_detail,
    jobs,
    run,
    run_detail,
    running_attempts,
    runs,
    signals,
)
from recovery.selectors.sample_reads import MAX_POINTS, samples_for

__all__ = [
    "EXECUTING",
    "MAX_POINTS",
    "ClusterPicture",
    "IncidentDetail",
    "NotFound",
    "RunDetail",
    "RunFacts",
    "attempt",
    "attempt_detail",
    "attempts",
    "blind_attempts",
    "checkpoints",
    "cluster_picture",
    "cluster_pictures",
    "clusters",
    "current_policy",
    "current_recommendation",
    "decision_on",
    "events",
    "incident_detail",
    "incidents",
    "job_detail",
    "jobs",
    "needs_person",
    "nodes",
    "open_incidents",
    "pictures_of",
    "policies",
    "recommendation_detail",
    "recommendations",
    "run",
    "run_detail",
    "running_attempts",
    "runs",
    "samples_for",
    "signals",
    "waiting_since",
]
