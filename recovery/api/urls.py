"""The REST API, below /api/v1/. No address ends with a slash."""

from __future__ import annotations

from django.urls import path, re_path

from recovery.api.account import Me, TokenOne, Tokens
from recovery.api.alarms import Alarms
from recovery.api.audit import AuditExport, AuditState, Events
from recovery.api.base import NoSuchAddress
from recovery.api.channels import ChannelOne, Channels, ChannelSecret, ChannelTest, Deliveries, DeliveryAgain
from recovery.api.clusters import ClusterOne, Clusters, Examine, Health, HealthDetails
from recovery.api.diagnose import Diagnose
from recovery.api.earned import AcceptPromotion, PromotionOne, Promotions, RejectPromotion, Scorecards
from recovery.api.fleet import (
    AddSuspect,
    EndOutbreak,
    OutbreakOne,
    Outbreaks,
    RemoveSuspect,
    Strikes,
    Suspects,
)
from recovery.api.incidents import IncidentOne, Incidents
from recovery.api.ingest import Ingest, PushTokenOne, PushTokens
from recovery.api.jobs import AttemptOne, Attempts, JobOne, Jobs
from recovery.api.openapi import OpenApiView
from recovery.api.pauses import (
    GiveBack,
    KillSwitchState,
    PullKillSwitch,
    ResetKillSwitch,
    Snooze,
    TakeOver,
    Withdraw,
)
from recovery.api.policies import Policies, PolicyApply, PolicyCheck, PolicyOne, PolicyReplay, PolicyWhy
from recovery.api.proposals import Propose, Undo
from recovery.api.recommendations import Approve, RecommendationOne, Recommendations, Reject
from recovery.api.reports import Reports, ReportsCsv, RunLedgerOne
from recovery.api.runs import AttemptSamples, Checkpoints, RunOne, Runs, RunSamples

urlpatterns = [
    path("incidents", Incidents.as_view(), name="api-incidents"),
    path("incidents/<int:pk>", IncidentOne.as_view(), name="api-incident"),
    path("incidents/<int:pk>/proposals", Propose.as_view(), name="api-propose"),
    path("incidents/<int:pk>/snooze", Snooze.as_view(), name="api-snooze"),
    path("actions/<int:pk>/undo", Undo.as_view(), name="api-undo"),
    path("actions/<int:pk>/withdraw", Withdraw.as_view(), name="api-withdraw"),
    path("runs/<int:pk>/take-over", TakeOver.as_view(), name="api-take-over"),
    path("runs/<int:pk>/give-back", GiveBack.as_view(), name="api-give-back"),
    path("kill-switch", KillSwitchState.as_view(), name="api-kill-switch"),
    path("kill-switch/pull", PullKillSwitch.as_view(), name="api-kill-switch-pull"),
    path("kill-switch/reset", ResetKillSwitch.as_view(), name="api-kill-switch-reset"),
    path("diagnose", Diagnose.as_view(), name="api-diagnose"),
    path("recommendations", Recommendations.as_view(), name="api-recommendations"),
    path("recommendations/<int:pk>", RecommendationOne.as_view(), name="api-recommendation"),
    path("recommendations/<int:pk>/approve", Approve.as_view(), name="api-approve"),
    path("recommendations/<int:pk>/reject", Reject.as_view(), name="api-reject"),
    path("runs", Runs.as_view(), name="api-runs"),
    path("runs/<int:pk>", RunOne.as_view(), name="api-run"),
    path("runs/<int:pk>/samples", RunSamples.as_view(), name="api-run-samples"),
    path("runs/<int:pk>/ledger", RunLedgerOne.as_view(), name="api-run-ledger"),
    path("reports", Reports.as_view(), name="api-reports"),
    path("reports.csv", ReportsCsv.as_view(), name="api-reports-csv"),
    path("jobs", Jobs.as_view(), name="api-jobs"),
    path("jobs/<int:pk>", JobOne.as_view(), name="api-job"),
    path("attempts", Attempts.as_view(), name="api-attempts"),
    path("attempts/<int:pk>", AttemptOne.as_view(), name="api-attempt"),
    path("attempts/<int:pk>/samples", AttemptSamples.as_view(), name="api-attempt-samples"),
    path("alarms", Alarms.as_view(), name="api-alarms"),
    path("checkpoints", Checkpoints.as_view(), name="api-checkpoints"),
    path("clusters", Clusters.as_view(), name="api-clusters"),
    path("clusters/<int:pk>", ClusterOne.as_view(), name="api-cluster"),
    path("clusters/<int:pk>/examination", Examine.as_view(), name="api-examination"),
    path("clusters/<int:pk>/suspects", AddSuspect.as_view(), name="api-add-suspect"),
    path("suspects", Suspects.as_view(), name="api-suspects"),
    path("suspects/<int:pk>/remove", RemoveSuspect.as_view(), name="api-remove-suspect"),
    path("strikes", Strikes.as_view(), name="api-strikes"),
    path("outbreaks", Outbreaks.as_view(), name="api-outbreaks"),
    path("outbreaks/<int:pk>", OutbreakOne.as_view(), name="api-outbreak"),
    path("outbreaks/<int:pk>/end", EndOutbreak.as_view(), name="api-end-outbreak"),
    path("policies", Policies.as_view(), name="api-policies"),
    path("policies/apply", PolicyApply.as_view(), name="api-policy-apply"),
    path("policies/check", PolicyCheck.as_view(), name="api-policy-check"),
    path("policies/why", PolicyWhy.as_view(), name="api-policy-why"),
    path("policies/replay", PolicyReplay.as_view(), name="api-policy-replay"),
    path("policies/<int:pk>", PolicyOne.as_view(), name="api-policy"),
    path("scorecards", Scorecards.as_view(), name="api-scorecards"),
    path("promotions", Promotions.as_view(), name="api-promotions"),
    path("promotions/<int:pk>", PromotionOne.as_view(), name="api-promotion"),
    path("promotions/<int:pk>/accept", AcceptPromotion.as_view(), name="api-promotion-accept"),
    path("promotions/<int:pk>/reject", RejectPromotion.as_view(), name="api-promotion-reject"),
    path("events", Events.as_view(), name="api-events"),
    path("audit", AuditState.as_view(), name="api-audit"),
    path("audit/export", AuditExport.as_view(), name="api-audit-export"),
    path("channels", Channels.as_view(), name="api-channels"),
    path("channels/<int:pk>", ChannelOne.as_view(), name="api-channel"),
    path("channels/<int:pk>/secret", ChannelSecret.as_view(), name="api-channel-secret"),
    path("channels/<int:pk>/test", ChannelTest.as_view(), name="api-channel-test"),
    path("deliveries", Deliveries.as_view(), name="api-deliveries"),
    path("deliveries/<int:pk>/again", DeliveryAgain.as_view(), name="api-delivery-again"),
    path("health", Health.as_view(), name="api-health"),
    path("health/details", HealthDetails.as_view(), name="api-health-details"),
    path("ingest", Ingest.as_view(), name="api-ingest"),
    path("push-tokens", PushTokens.as_view(), name="api-push-tokens"),
    path("push-tokens/<int:pk>", PushTokenOne.as_view(), name="api-push-token"),
    path("me", Me.as_view(), name="api-me"),
    path("tokens", Tokens.as_view(), name="api-tokens"),
    path("tokens/<int:pk>", TokenOne.as_view(), name="api-token"),
    path("openapi.json", OpenApiView.as_view(), name="api-openapi"),
    re_path(r"^.*\Z", NoSuchAddress.as_view(), name="api-no-such-address"),
]
