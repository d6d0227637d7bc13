"""Pages."""

from __future__ import annotations

from django.urls import path, re_path

from dashboard.views import (
    admin,
    audit,
    clusters,
    decide,
    incidents,
    live,
    log_in,
    log_pattern,
    nodes,
    overview,
    policies,
    propose,
    push,
    reports,
    runs,
    shell,
)

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("login/", log_in.LogIn.as_view(), name="login"),
    path("logout/", log_in.LogOut.as_view(), name="logout"),
    path("incidents/", incidents.incidents, name="incidents"),
    path("incidents/<int:pk>/", incidents.incident, name="incident"),
    path("incidents/<int:pk>/evidence/<int:index>/", incidents.surroundings, name="surroundings"),
    path("incidents/<int:pk>/close/", decide.close, name="close"),
    path("incidents/<int:pk>/propose/", propose.propose, name="propose"),
    path("actions/<int:pk>/undo/", propose.undo, name="undo"),
    path("approvals/", incidents.approvals, name="approvals"),
    path("recommendations/<int:pk>/approve/", decide.approve, name="approve"),
    path("recommendations/<int:pk>/reject/", decide.reject, name="reject"),
    path("runs/", runs.runs, name="runs"),
    path("runs/<int:pk>/", runs.run, name="run"),
    path("runs/<int:pk>/chart.json", runs.run_chart, name="run-chart"),
    path("jobs/<int:pk>/", runs.job, name="job"),
    path("jobs/<int:pk>/chart.json", runs.job_chart, name="job-chart"),
    path("nodes/", nodes.nodes, name="nodes"),
    path("policies/", policies.policies, name="policies"),
    path("policies/edit/", policies.edit, name="policy-edit"),
    path("policies/log-pattern/", log_pattern.log_pattern, name="policy-log-pattern"),
    path("policies/advanced/", policies.advanced, name="policy-advanced"),
    path("policies/<int:number>/", policies.policy, name="policy"),
    path("reports/", reports.reports, name="reports"),
    path("audit/", audit.audit, name="audit"),
    path("admin/", admin.admin, name="admin"),
    path("clusters/", clusters.clusters, name="clusters"),
    path("clusters/<int:pk>/", clusters.cluster, name="cluster"),
    path("clusters/<int:pk>/examine/", clusters.examine, name="examine"),
    path("clusters/<int:pk>/pause/", admin.pause, name="pause"),
    path("clusters/<int:pk>/arm/", admin.arm, name="arm"),
    path("clusters/<int:pk>/push-tokens/", push.tokens, name="push-tokens"),
    path("clusters/<int:pk>/push-tokens/make/", push.make, name="push-token-make"),
    path("push-tokens/<int:pk>/revoke/", push.revoke, name="push-token-revoke"),
    path("client/recovery_desk_client.py", push.client_file, name="push-client"),
    path("shell/", shell.shell, name="shell"),
    path("preferences/", shell.preferences, name="preferences"),
    path("search/", shell.search, name="search"),
    path("live/", live.live, name="live"),
    # Last: also a checkout with DEBUG answers an unknown address inside the shell. Only with the last stroke, so that
    # an address without it is still led to its page.
    re_path(r"^(?!api/|static/).*/$", shell.nothing_here),
]
