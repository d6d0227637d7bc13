"""Tables, constraints and querysets; no workflow."""

from recovery.models.access import ApiToken, Identity, LogInTries, Membership
from recovery.models.alarm import Alarm
from recovery.models.audit import AuditChain, Seal
from recovery.models.cluster import Cluster, KillSwitch, Node, NodeEvent
from recovery.models.event import Event
from recovery.models.examination import Examination
from recovery.models.fleet import NodeStrike, Outbreak, Suspect
from recovery.models.incident import Action, Agreement, Decision, Finding, Incident, Recommendation
from recovery.models.job import Attempt, Job, Run
from recovery.models.ledger import AttemptTrace, BlindSpell, IncidentCost, LedgerDay, LedgerEntry, RunLedger
from recovery.models.measure import KernelLog, PushBatch, PushSender, PushToken, Reading, SourceHealth
from recovery.models.notify import Channel, Delivery, Notice
from recovery.models.policy import PolicyVersion, Promotion
from recovery.models.progress import (
    Checkpoint,
    LogFile,
    MinuteRollup,
    Outlook,
    RollupDue,
    Sample,
    Signal,
    TenMinuteRollup,
    Upkeep,
)
from recovery.models.provider import ProviderLane, SecondOpinion
from recovery.models.script import BatchScript

__all__ = [
    "Action",
    "Agreement",
    "Alarm",
    "ApiToken",
    "Attempt",
    "AttemptTrace",
    "AuditChain",
    "BatchScript",
    "BlindSpell",
    "Channel",
    "Checkpoint",
    "Cluster",
    "Decision",
    "Delivery",
    "Event",
    "Examination",
    "Finding",
    "Identity",
    "Incident",
    "IncidentCost",
    "Job",
    "KernelLog",
    "KillSwitch",
    "LedgerDay",
    "LedgerEntry",
    "LogFile",
    "LogInTries",
    "Membership",
    "MinuteRollup",
    "Node",
    "NodeEvent",
    "NodeStrike",
    "Notice",
    "Outbreak",
    "Outlook",
    "PolicyVersion",
    "Promotion",
    "ProviderLane",
    "PushBatch",
    "PushSender",
    "PushToken",
    "Reading",
    "Recommendation",
    "RollupDue",
    "Run",
    "RunLedger",
    "Sample",
    "Seal",
    "SecondOpinion",
    "Signal",
    "SourceHealth",
    "Suspect",
    "TenMinuteRollup",
    "Upkeep",
]
