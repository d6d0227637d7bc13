"""What stands around every page: clusters, the age of their pictures, automation, and what needs a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings

from recovery.access import Actor
from recovery.core.lifecycle import PERSON_STATES
from recovery.core.types import Mode
from recovery.models import Cluster, Event, Incident, KillSwitch, Membership, PolicyVersion
from recovery.models.access import Role
from recovery.pipeline.ruling import TRIP_SHOWN
from recovery.selectors.incident_reads import awake
from recovery.selectors.scope import visible_to

SESSION_KEY = "cluster"


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """How old the picture of one cluster is, and why it is not fresh. `state` is a key of PICTURE_WORDS."""

    cluster: Cluster
    state: str
    cause: str  # "" while live

    @property
    def seen_at(self) -> datetime | None:
        return self.cluster.seen_at


@dataclass(frozen=True, kw_only=True, slots=True)
class Automation:
    """How far automation may go now. `state` is a key of AUTOMATION_WORDS."""

    state: str
    reason: str  # who paused it and why, or which policy version says so


@dataclass(frozen=True, kw_only=True, slots=True)
class Shell:
    clusters: tuple[Cluster, ...]
    chosen: Cluster | None  # None: all
    pictures: tuple[Picture, ...]  # of the chosen clusters, the worst first
    automation: Automation
    needs_person: int
    switch: KillSwitch | None  # pulled: nothing is done by policy on any cluster
    tripped: tuple[Cluster, ...]  # in view: the breaker stopped something there lately
    newest_event: int  # the page shows everything up to here; its stream of changes begins here

    @property
    def in_view(self) -> tuple[Cluster, ...]:
        return (self.chosen,) if self.chosen else self.clusters

    @property
    def paused(self) -> tuple[Cluster, ...]:
        return tuple(cluster for cluster in self.in_view if cluster.paused_at is not None)

    @property
    def worst(self) -> Picture | None:
        return self.pictures[0] if self.pictures else None

    @property
    def asked(self) -> int:
        """How many clusters in view are switched on."""
        return sum(picture.state != "off" for picture in self.pictures)

    @property
    def silent(self) -> int:
        """How many of those have no live picture."""
        return sum(picture.state not in ("live", "off") for picture in self.pictures)

    @property
    def stale_after_s(self) -> float:
        return settings.STALE_AFTER_S


_BADNESS = ("error", "never", "stale", "live", "off")


def picture_of(cluster: Cluster, *, now: datetime) -> Picture:
    """An error or silence is said as such: an old picture is never shown as a fresh one."""
    if not cluster.enabled:
        return Picture(cluster=cluster, state="off", cause="This cluster is switched off; nothing asks it.")
    if cluster.error:
        return Picture(cluster=cluster, state="error", cause=cluster.error)
    if cluster.seen_at is None:
        cause = "No look at the scheduler has ended yet. If this lasts, check that a worker and beat are running."
        return Picture(cluster=cluster, state="never", cause=cause)
    if cluster.is_stale(now):
        cause = "Nobody asked the scheduler lately: check that a worker and beat are running."
        return Picture(cluster=cluster, state="stale", cause=cause)
    return Picture(cluster=cluster, state="live", cause="")


def automation_of(
    clusters: Sequence[Cluster], policy: PolicyVersion | None, *, switch: KillSwitch | None
) -> Automation:
    """The state that the top bar shows: a pause first, else the furthest mode that any rule of the policy gives."""
    if switch is not None:
        return Automation(state="paused", reason=f"Everywhere, by {switch.pulled_by}: {switch.reason}")
    paused = [cluster for cluster in clusters if cluster.paused_at is not None]
    if paused:
        told = "; ".join(f"{c.name} by {c.paused_by}: {c.paused_reason}" for c in paused)
        return Automation(state="paused", reason=told)
    if policy is None:
        return Automation(state="observing", reason="No policy was written yet: a fresh installation observes.")
    state = {Mode.OBSERVE: "observing", Mode.APPROVE: "asking", Mode.AUTO: "automatic"}[furthest_mode(policy)]
    return Automation(state=state, reason=f"Policy version {policy.number} by {policy.author}: {policy.reason}")


def furthest_mode(policy: PolicyVersion) -> Mode:
    given = {str(rule.get("mode", "")) for rule in policy.rules.get("rules", ())}
    given.add(str(policy.rules.get("default", {}).get("mode", "")))
    return next((mode for mode in (Mode.AUTO, Mode.APPROVE) if mode in given), Mode.OBSERVE)


def shell(chosen: str, *, actor: Actor, now: datetime) -> Shell:
    """Five queries: the newest event, clusters, the policy, the kill switch, how many incidents need a person."""
    newest = Event.objects.order_by("-id").values_list("id", flat=True).first()  # first: what comes later is told
    clusters = tuple(visible_to(Cluster.objects.all(), actor))
    found = next((cluster for cluster in clusters if cluster.name == chosen), None)
    in_view = (found,) if found else clusters
    pictures = sorted((picture_of(c, now=now) for c in in_view), key=lambda p: _BADNESS.index(p.state))
    waiting = awake(visible_to(Incident.objects.filter(state__in=PERSON_STATES), actor), now=now)
    if found:
        waiting = waiting.filter(run__cluster=found)
    switch = KillSwitch.objects.first()
    return Shell(
        clusters=clusters,
        chosen=found,
        pictures=tuple(pictures),
        automation=automation_of(in_view, PolicyVersion.objects.order_by("-number").first(), switch=switch),
        needs_person=waiting.count(),
        switch=switch,
        tripped=tuple(c for c in in_view if c.tripped_at is not None and now - c.tripped_at < TRIP_SHOWN),
        newest_event=newest or 0,
    )


def people_with(*roles: Role) -> list[str]:
    """Names of those who hold one of the roles: whom a refusal sends its reader to."""
    found = Membership.objects.filter(role__in=roles, user__is_active=True).order_by("user__username")
    return list(found.values_list("user__username", flat=True)[:10])
