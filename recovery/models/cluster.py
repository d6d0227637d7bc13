from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.db import models
from django.db.models import Q

from recovery.core.types import NodeState
from recovery.models.leased import Leased

DEFAULT_DELAY_S = 121  # Slurm's own: cred_expire 120 s, plus 1
BACKENDS = [("cli", "Slurm commands"), ("rest", "slurmrestd"), ("native", "pyslurm"), ("simulator", "Simulator")]


class Cluster(Leased):
    """One Slurm controller, with the back end used to reach it, and the state of the picture that we have of it."""

    name = models.SlugField(unique=True)
    backend = models.CharField(max_length=20, choices=BACKENDS)
    # flat, all texts; recovery/slurm/registry.py lists those of each back end
    options = models.JSONField(default=dict, blank=True)
    # what else tells of its jobs and nodes: flat, all texts; recovery/core/source_options.py lists them
    sources = models.JSONField(default=dict, blank=True)
    enabled = models.BooleanField(default=True)
    poll_interval_s = models.FloatField(default=10)

    release = models.CharField(max_length=40, blank=True)
    accounting = models.BooleanField(default=False)
    federation = models.CharField(max_length=100, blank=True, default="")  # that it is in; "" for none, or not told
    requeue_delay_s = models.FloatField(default=DEFAULT_DELAY_S)
    min_job_age_s = models.FloatField(null=True, blank=True)  # how long ended jobs stay known; None: not told, or ever
    health_at = models.DateTimeField(null=True, blank=True)  # when those above were asked for
    seen_at = models.DateTimeField(null=True, blank=True)  # when the reading of the last good picture began
    tried_at = models.DateTimeField(null=True, blank=True)
    error = models.TextField(blank=True)  # of the last try; "" when it was good

    # what the back end wants back to tell whether jobs have changed, and under which back end and options it holds
    jobs_mark = models.CharField(max_length=200, blank=True)
    jobs_mark_of = models.CharField(max_length=64, blank=True)
    asked_accounting_at = models.DateTimeField(null=True, blank=True)  # for attempts whose state is unknown
    accounting_silent_at = models.DateTimeField(null=True, blank=True)  # when it was last asked and did not answer
    # nobody looked between the two, and accounting has not said yet what ended unseen (recovery/pipeline/outage.py)
    outage_from = models.DateTimeField(null=True, blank=True)
    outage_until = models.DateTimeField(null=True, blank=True)

    # PartitionRecord and ReservationRecord of recovery/slurm/base.py as JSON; not known where partitions_at is None
    partitions = models.JSONField(default=list, blank=True)
    reservations = models.JSONField(default=list, blank=True)
    partitions_at = models.DateTimeField(null=True, blank=True)
    partitions_error = models.CharField(max_length=300, blank=True)  # why they can't be read; "" where they can

    # why Slurm lets us leave no key on jobs (admin comments), and when it said so; "" where it does, or was never asked
    unmarked_reason = models.CharField(max_length=300, blank=True)
    unmarked_at = models.DateTimeField(null=True, blank=True)

    # automation stopped by a person: nothing is decided by policy until it is armed again
    paused_at = models.DateTimeField(null=True, blank=True)
    paused_by = models.CharField(max_length=150, blank=True)
    paused_reason = models.CharField(max_length=300, blank=True)

    # when the breaker last made a person decide what a policy would have done, and why (recovery/pipeline/ruling.py)
    tripped_at = models.DateTimeField(null=True, blank=True)
    tripped_reason = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def tells_its_delay(self) -> bool:
        """Whether requeue_delay_s is what its controller said: where it can't be told, nor can MinJobAge."""
        told = self.min_job_age_s is not None or self.requeue_delay_s != DEFAULT_DELAY_S
        return self.health_at is not None and told

    def is_stale(self, now: datetime) -> bool:
        """True where the last good answer is too old to act on, the last try failed, or nobody asks any more."""
        if self.seen_at is None or self.error or not self.enabled:
            return True
        age = (now - self.seen_at).total_seconds()
        return abs(age) > settings.STALE_AFTER_S  # a picture of the future tells of a clock that was set back


class KillSwitch(models.Model):
    """Stops what policies do by themselves on all clusters, those that are added later too. One row, or none."""

    pulled_at = models.DateTimeField()
    pulled_by = models.CharField(max_length=150)
    reason = models.CharField(max_length=300)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(pk=1), name="one_kill_switch")]

    def __str__(self) -> str:
        return f"pulled by {self.pulled_by}"


class Node(models.Model):
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="nodes")
    name = models.CharField(max_length=100)
    state = models.CharField(max_length=20, choices=[(s.value, s.value) for s in NodeState])
    raw_state = models.CharField(max_length=100, blank=True)
    partitions = models.JSONField(default=list, blank=True)
    reason = models.CharField(max_length=300, blank=True)
    reason_by = models.CharField(max_length=100, blank=True)
    reason_at = models.DateTimeField(null=True, blank=True)
    features = models.JSONField(default=list, blank=True)  # those active now
    gpus = models.IntegerField(default=0)
    switch = models.CharField(max_length=100, blank=True, default="")  # the leaf it hangs on, where Slurm knows
    changed_at = models.DateTimeField()  # when we first saw it in this state

    class Meta:
        ordering = ["cluster", "name"]
        constraints = [models.UniqueConstraint(fields=["cluster", "name"], name="one_row_per_node")]

    def __str__(self) -> str:
        return self.name


class NodeEvent(models.Model):
    """One change of a node's state, or of the words on a state that isn't up (`old` equals `new` then).

    Written when it was seen, and forgotten after KEEP_EVENTS of recovery/pipeline/store_nodes.py.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="node_events")
    node = models.CharField(max_length=100)  # by name: the node may be gone
    at = models.DateTimeField()  # when it happened, by Slurm's own word where it gives one, else when it was seen
    seen_at = models.DateTimeField()
    old = models.CharField(max_length=20, blank=True)  # NodeState; "" where the node was not known before
    new = models.CharField(max_length=20, blank=True)  # NodeState; "" where the node is no longer listed
    raw_state = models.CharField(max_length=100, blank=True)
    reason = models.CharField(max_length=300, blank=True)
    by = models.CharField(max_length=100, blank=True)
    # who said so: "" Slurm; "kernel log" or "loki", and `reason` is a line of a kernel log; or "prometheus"
    source = models.CharField(max_length=20, blank=True, default="")
    key = models.CharField(max_length=32, blank=True, default="")  # digest of a kernel line: the same line comes once

    class Meta:
        ordering = ["-seen_at", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["cluster", "key"], condition=~Q(key=""), name="one_row_per_kernel_line")
        ]
        indexes = [
            models.Index(fields=["cluster", "node", "at"], name="node_event_by_node"),
            models.Index(fields=["seen_at"], name="node_event_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.node}: {self.old or 'new'} to {self.new or 'gone'}"
