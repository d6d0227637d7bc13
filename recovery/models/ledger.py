"""The ledger as it is stored: entries, their sums by day, and what must outlive samples to keep it anew.

Times are integer microseconds since 1970 as in recovery/core/ledger/, so that a database adds them without rounding.
Only recovery/pipeline/account.py writes here, and everything can be written again from what is known of a run.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from recovery.core.ledger import Category
from recovery.models.incident import Incident
from recovery.models.job import Attempt, Job, Run
from recovery.models.leased import Leased

CATEGORY_CHOICES = [(category.value, category.value) for category in Category]


class RunLedger(Leased):
    """Up to when the ledger of a run is kept, from what, and how it goes on from there."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="ledger", primary_key=True)
    kept_us = models.BigIntegerField(default=0)  # the moment of the ledger
    first_start_us = models.BigIntegerField(null=True, blank=True)  # when the run first left the queue
    facts_key = models.CharField(max_length=64, blank=True)  # digest of what it was kept from
    changed_at = models.DateTimeField(null=True, blank=True)  # when that was last seen to differ

    # how a run that isn't over goes on while nothing happens; "": it is over
    tail_category = models.CharField(max_length=20, choices=CATEGORY_CHOICES, blank=True)
    tail_gpus = models.IntegerField(default=0)
    tail_job = models.ForeignKey(Job, on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    tail_policy = models.IntegerField(default=0)

    def __str__(self) -> str:
        return f"ledger of {self.run_id}"


class LedgerEntry(models.Model):
    """What a run did from one moment up to another. Entries are cut at midnight (UTC), and where `job`, `policy` or
    `before_start` change, so that sums over any of them are sums of rows.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="ledger_entries", db_index=False)
    start_us = models.BigIntegerField()
    end_us = models.BigIntegerField()
    day = models.DateField()
    category = models.CharField(max_length=20, choices=CATEGORY_CHOICES)
    gpus = models.IntegerField()
    # of the run the one submitted last: whose account and partition the time counts for
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+", db_index=False)
    policy = models.IntegerField(default=0)  # number of the policy version that held; 0: there was none yet
    before_start = models.BooleanField(default=False)  # the run had never left the queue

    class Meta:
        ordering = ["run", "start_us"]
        constraints = [models.UniqueConstraint(fields=["run", "start_us"], name="one_entry_per_moment")]
        indexes = [models.Index(fields=["day"], name="ledger_entry_by_day")]


class LedgerDay(models.Model):
    """The sums of a run's entries of one day: for each category `<category>_us` and `<category>_gpu_us`."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="ledger_days", db_index=False)
    day = models.DateField()
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+", db_index=False)
    policy = models.IntegerField(default=0)
    before_start_us = models.BigIntegerField(default=0)

    class Meta:
        ordering = ["run", "day"]
        constraints = [models.UniqueConstraint(fields=["run", "day", "job", "policy"], name="one_sum_per_day")]
        indexes = [models.Index(fields=["day"], name="ledger_day_by_day")]


for _category in Category:
    LedgerDay.add_to_class(f"{_category}_us", models.BigIntegerField(default=0))
    LedgerDay.add_to_class(f"{_category}_gpu_us", models.BigIntegerField(default=0))


class AttemptTrace(models.Model):
    """What the ledger must know of an attempt once its samples and signals are gone: thinned, and small."""

    attempt = models.OneToOneField(Attempt, on_delete=models.CASCADE, related_name="trace", primary_key=True)
    rank = models.IntegerField(null=True, blank=True)  # of the samples taken: the lowest that reports
    until_us = models.BigIntegerField(default=0)  # samples up to here were taken, and are not read again
    marks = models.JSONField(default=list, blank=True)  # [[us, step], …] by time
    signals = models.JSONField(default=list, blank=True)  # [[us, kind, step or null], …]: what tells its phases
    slow = models.JSONField(default=list, blank=True)  # [[from us, up to us or null], …]
    final = models.BooleanField(default=False)  # the attempt has ended and was read: nothing more will come

    def __str__(self) -> str:
        return f"trace of {self.attempt_id}"


class BlindSpell(models.Model):
    """An attempt couldn't be observed from one moment up to another."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="blind_spells")
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)  # None: still
    reason = models.CharField(max_length=300)

    class Meta:
        ordering = ["started_at"]
        constraints = [
            models.UniqueConstraint(fields=["attempt"], condition=Q(ended_at=None), name="one_open_blind_spell")
        ]

    def __str__(self) -> str:
        return self.reason


class IncidentCost(models.Model):
    """What one incident cost (recovery.core.ledger.IncidentAccount); gaps are null where a moment was not seen."""

    incident = models.OneToOneField(Incident, on_delete=models.CASCADE, related_name="cost", primary_key=True)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="incident_costs")
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+", db_index=False)
    policy = models.IntegerField(default=0)  # number of the policy version that judged it; 0: none did
    rule = models.CharField(max_length=100, blank=True)  # its rule that decided
    fault_at = models.DateTimeField(db_index=True)
    interruption = models.BooleanField()

    detect_us = models.BigIntegerField(null=True)
    recommend_us = models.BigIntegerField(null=True)
    decide_us = models.BigIntegerField(null=True)
    act_us = models.BigIntegerField(null=True)
    restore_us = models.BigIntegerField(null=True)
    next_checkpoint_us = models.BigIntegerField(null=True)
    total_us = models.BigIntegerField(null=True)

    steps_lost = models.IntegerField(null=True)
    lost_us = models.BigIntegerField(default=0)
    lost_gpu_us = models.BigIntegerField(default=0)
    stalled_us = models.BigIntegerField(default=0)
    stalled_gpu_us = models.BigIntegerField(default=0)
    deciding_us = models.BigIntegerField(default=0)
    deciding_gpu_us = models.BigIntegerField(default=0)
    acting_us = models.BigIntegerField(default=0)
    acting_gpu_us = models.BigIntegerField(default=0)
    deciding_run_gpu_us = models.BigIntegerField(default=0)  # in GPUs that the run would have used, held or not

    def __str__(self) -> str:
        return f"cost of incident {self.incident_id}"
