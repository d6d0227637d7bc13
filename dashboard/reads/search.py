"""Search over what people remember: the name of a run, the id of a job, a user, a node, the number of an incident."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q
from django.urls import reverse

from recovery.access import Actor
from recovery.models import Incident, Job, Node, Run
from recovery.selectors.scope import visible_to

MOST = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    runs: tuple[Run, ...] = ()
    jobs: tuple[Job, ...] = ()
    nodes: tuple[Node, ...] = ()
    incidents: tuple[Incident, ...] = ()

    @property
    def count(self) -> int:
        return len(self.runs) + len(self.jobs) + len(self.nodes) + len(self.incidents)

    @property
    def only(self) -> str | None:
        """The address of the only hit."""
        if self.count != 1:
            return None
        if self.runs:
            return reverse("run", args=[self.runs[0].pk])
        if self.jobs:
            return reverse("job", args=[self.jobs[0].pk])
        if self.incidents:
            return reverse("incident", args=[self.incidents[0].pk])
        return f"{reverse('nodes')}?name={self.nodes[0].name}"


def search(words: str, *, actor: Actor) -> Found:
    """Four queries, at most 20 hits of each kind; nothing for an empty question."""
    if not words:
        return Found()
    number = int(words.lstrip("#")) if words.lstrip("#").isdecimal() and len(words) < 15 else None
    runs = Run.objects.filter(Q(name__icontains=words) | Q(user__iexact=words)).select_related("cluster")
    jobs = Job.objects.filter(Q(job_id=words) | Q(job_id__startswith=f"{words}_")).select_related("run", "cluster")
    nodes = Node.objects.filter(name__icontains=words).select_related("cluster")
    incidents = (
        Incident.objects.filter(pk=number).select_related("run__cluster")
        if number is not None
        else Incident.objects.none()
    )
    return Found(
        runs=tuple(visible_to(runs, actor)[:MOST]),
        jobs=tuple(visible_to(jobs, actor)[:MOST]),
        nodes=tuple(visible_to(nodes, actor)[:MOST]),
        incidents=tuple(visible_to(incidents, actor)[:MOST]),
    )
