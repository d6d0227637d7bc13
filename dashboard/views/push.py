"""Push: the client for training scripts, and the tokens that let jobs push."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from dashboard.page import DeskRequest, page
from recovery import client
from recovery.access import Permission
from recovery.api import push_tokens
from recovery.api.tokens import Invalid
from recovery.models import Cluster, Job, PushToken
from recovery.selectors import NotFound

CLIENT = Path(client.__file__).parent / "recovery_desk_client.py"
MOST_SHOWN = 200  # the newest tokens of a cluster


@require_GET
def client_file(request: HttpRequest) -> HttpResponse:
    """For everybody: a batch script that fetches it has no account, and it holds no secret."""
    headers = {"Content-Disposition": f'attachment; filename="{CLIENT.name}"', "X-Content-Type-Options": "nosniff"}
    return HttpResponse(CLIENT.read_bytes(), content_type="text/x-python; charset=utf-8", headers=headers)


@require_GET
@page(Permission.TOKEN_MANAGE, of=Cluster)
def tokens(request: DeskRequest, pk: int) -> HttpResponse:
    return _page(request, _cluster(pk))


@require_POST
@page(Permission.TOKEN_MANAGE, of=Cluster)
def make(request: DeskRequest, pk: int) -> HttpResponse:
    """The token is shown in this answer alone: it is no redirect, so that nothing has to keep it meanwhile."""
    cluster = _cluster(pk)
    given = {name: request.POST.get(name, "").strip() for name in ("name", "user", "job", "days")}
    try:
        job = _job(cluster, given["job"])
        days = given["days"] or "90"
        if not (days.isascii() and days.isdigit() and len(days) < 5):
            raise Invalid(days=["Give a number of days."])
        token, text = push_tokens.make(
            actor=request.actor, name=given["name"], cluster=cluster, job=job, user=given["user"],
            expires_at=request.now + timedelta(days=int(days)), now=request.now,
        )  # fmt: skip
    except Invalid as problem:
        sentences = [sentence for texts in problem.fields.values() for sentence in texts]
        return _page(request, cluster, problems=sentences, typed=given, status=422)
    return _page(request, cluster, made=token, text=text)


@require_POST
@page(Permission.TOKEN_MANAGE, of=PushToken)
def revoke(request: DeskRequest, pk: int) -> HttpResponse:
    try:
        token = push_tokens.revoke(token_id=pk, actor=request.actor, now=request.now)
    except NotFound as missing:
        raise Http404(str(missing)) from missing
    messages.success(request, f"{token.name} is revoked: what is pushed with it is refused from now on.", "ok")
    return redirect("push-tokens", token.cluster_id)


def _cluster(pk: int) -> Cluster:
    cluster = Cluster.objects.filter(pk=pk).first()
    if cluster is None:
        raise Http404(f"There is no cluster {pk}.")
    return cluster


def _job(cluster: Cluster, job_id: str) -> Job | None:
    """The newest job with this id of Slurm's; None where none is named. Raises Invalid."""
    if not job_id:
        return None
    job = Job.objects.filter(cluster=cluster, job_id=job_id[:40]).order_by("-first_submitted_at").first()
    if job is None:
        raise Invalid(job=[f"No job {job_id[:40]} was seen on {cluster}: give Slurm's id, or leave it out."])
    return job


def _page(request: DeskRequest, cluster: Cluster, *, status: int = 200, **more: object) -> HttpResponse:
    rows = push_tokens.push_tokens().filter(cluster=cluster)[:MOST_SHOWN]
    context = {"cluster": cluster, "tokens": rows, "now": request.now, "place": "clusters", **more}
    return render(request, "push_tokens.html", context, status=status)
