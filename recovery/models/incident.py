from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import ActionKind, DecisionKind, FailureClass, FindingKind, Mode, Outcome
from recovery.models.fleet import Outbreak
from recovery.models.job import Attempt, Run
from recovery.models.leased import Leased
from recovery.models.policy import PolicyVersion


class Incident(Leased):
    """The open case on a run, from detection to the next complete checkpoint.

    `state` is written by recovery/pipeline/transition.py alone.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="incidents")
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="incidents")  # the one that failed
    previous = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )  # the case that this one follows on
    outbreak = models.ForeignKey(
        Outbreak, on_delete=models.SET_NULL, null=True, blank=True, related_name="incidents"
    )  # other runs failed with it
    state = models.CharField(max_length=20, choices=[(s.value, s.value) for s in IncidentState])
    kind = models.CharField(max_length=20, choices=[(k.value, k.value) for k in FindingKind])
    headline = models.CharField(max_length=300, blank=True)
    alarm = models.CharField(max_length=500, blank=True)  # what is not as expected; shown on top
    error = models.TextField(blank=True)  # why the last look at this case failed; it is looked at again later
    failed_looks = models.IntegerField(default=0)  # so many looks failed one after the other

    # the diagnosis that holds now (recovery.core.types.Diagnosis)
    failure_class = models.CharField(max_length=30, choices=[(c.value, c.value) for c in FailureClass], blank=True)
    restart = models.CharField(max_length=20, blank=True)
    exclude = models.CharField(max_length=20, blank=True)
    confidence = models.FloatField(null=True, blank=True)
    reason = models.CharField(max_length=500, blank=True)
    diagnosis = models.JSONField(default=dict, blank=True)
    evidence_key = models.CharField(
        max_length=64, blank=True
    )  # digest of the facts it rests on: another one means a new look

    # the moments
    failed_at = models.DateTimeField()  # when the fault began, as far as can be told
    detected_at = models.DateTimeField()
    recommended_at = models.DateTimeField(null=True, blank=True)
    decided_at = models.DateTimeField(null=True, blank=True)
    acted_at = models.DateTimeField(null=True, blank=True)  # the action was seen to have converged
    restored_at = models.DateTimeField(null=True, blank=True)
    checkpoint_at = models.DateTimeField(null=True, blank=True)  # the next checkpoint was complete
    closed_at = models.DateTimeField(null=True, blank=True)
    deadline_at = models.DateTimeField(null=True, blank=True)  # by when the moment now waited for is expected

    # verification
    new_attempt = models.ForeignKey(
        Attempt, on_delete=models.SET_NULL, null=True, blank=True, related_name="verified_by"
    )
    resolved_by_others = models.BooleanField(default=False)  # someone else restarted it
    failed_step = models.IntegerField(null=True, blank=True)  # last step seen before the fault
    expected_step = models.IntegerField(null=True, blank=True)  # of the newest complete checkpoint before the fault
    restored_step = models.IntegerField(null=True, blank=True)
    next_checkpoint_step = models.IntegerField(null=True, blank=True)
    # what was expected, seen, where and by when, one entry for each of the three (recovery.core.verify.Check)
    verification = models.JSONField(default=list, blank=True)
    # what the verification says went wrong so far, and what to do about it; "" while all is as expected
    trouble = models.CharField(max_length=30, choices=[(o.value, o.value) for o in Outcome], blank=True)
    advice = models.CharField(max_length=500, blank=True)
    # set while the restarted job is about to destroy the good checkpoint: which one, when about, and how
    danger_at = models.DateTimeField(null=True, blank=True, db_index=True)
    danger_step = models.IntegerField(null=True, blank=True)
    danger = models.CharField(max_length=500, blank=True)
    # out of the queue until then, unless something new is seen
    snoozed_until = models.DateTimeField(null=True, blank=True)
    snoozed_by = models.CharField(max_length=150, blank=True)
    outcome = models.CharField(max_length=30, choices=[(o.value, o.value) for o in Outcome], blank=True)
    outcome_reason = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering = ["-detected_at"]
        constraints = [
            models.UniqueConstraint(fields=["run"], condition=~Q(state="closed"), name="one_open_incident_per_run"),
            models.CheckConstraint(
                condition=Q(state__in=[s.value for s in IncidentState]), name="known_incident_state"
            ),
        ]
        indexes = [models.Index(fields=["next_look_at"], condition=~Q(state="closed"), name="incident_due")]

    def __str__(self) -> str:
        return f"incident {self.pk}"


class Finding(models.Model):
    """What a detector concluded at one moment."""

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="findings")
    # the attempt that it is about, where that is another one of the run than the case's own
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, null=True, blank=True, related_name="findings")
    kind = models.CharField(max_length=20, choices=[(k.value, k.value) for k in FindingKind])
    at = models.DateTimeField()
    since = models.DateTimeField()
    reason = models.CharField(max_length=500)
    confidence = models.FloatField()
    evidence = models.JSONField(default=list, blank=True)

    class Meta:
        ordering = ["at"]


class Recommendation(models.Model):
    """One proposed action. A later one supersedes it; it is never edited, so its hash is what a person saw."""

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="recommendations")
    action = models.CharField(max_length=30, choices=[(k.value, k.value) for k in ActionKind])
    exclude_nodes = models.JSONField(default=list, blank=True)
    parameters = models.JSONField(default=dict, blank=True)  # those of recovery/core/plans/, by action
    proposed_by = models.CharField(max_length=150, blank=True)  # the person who proposed it; "": the product
    headline = models.CharField(max_length=300)
    reasons = models.JSONField(default=list)
    operations = models.JSONField(default=list)  # the exact scheduler operations
    restore_step = models.IntegerField(null=True, blank=True)
    restore_path = models.CharField(max_length=1000, blank=True)
    steps_at_stake = models.IntegerField(null=True, blank=True)
    gpu_hours_at_stake = models.FloatField(null=True, blank=True)
    gpus_idle = models.IntegerField(default=0)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    superseded_at = models.DateTimeField(null=True, blank=True)
    superseded_reason = models.CharField(max_length=300, blank=True)
    hash = models.CharField(max_length=64)  # of job, attempt, nodes, action and parameters, as shown
    # which policy judged it, and how
    policy = models.ForeignKey(PolicyVersion, on_delete=models.PROTECT, null=True, blank=True)
    mode = models.CharField(max_length=20, choices=[(m.value, m.value) for m in Mode], blank=True)
    mode_reason = models.CharField(max_length=300, blank=True)
    rule = models.CharField(max_length=100, blank=True)  # of the policy: the one that decided
    passed_over = models.JSONField(default=list, blank=True)  # [{"rule", "why"}] of those before it
    shadow = models.BooleanField(default=False)  # it would have gone by itself; its rule is in shadow
    # what deciding takes (recovery.core.policy.Approval), and what happens where nobody does
    approval = models.JSONField(default=dict, blank=True)
    on_expiry = models.CharField(max_length=20, blank=True)
    escalate_at = models.DateTimeField(null=True, blank=True)  # None: never, or done
    escalate_to = models.JSONField(default=list, blank=True)  # channels
    amends = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, blank=True, related_name="amended_by")

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["incident"], condition=Q(superseded_at=None), name="one_current_recommendation"
            )
        ]


class Agreement(models.Model):
    """One person's approval of one recommendation. The last one that the policy asks for makes the decision."""

    recommendation = models.ForeignKey(Recommendation, on_delete=models.CASCADE, related_name="agreements")
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    actor_name = models.CharField(max_length=150)  # kept when the account goes
    as_owner = models.BooleanField(default=False)  # counted as the job's user, not by a role
    comment = models.CharField(max_length=500, blank=True)
    hash = models.CharField(max_length=64)  # of what was shown
    at = models.DateTimeField()

    class Meta:
        ordering = ["at"]
        constraints = [
            models.UniqueConstraint(fields=["recommendation", "actor_name"], name="one_agreement_per_person")
        ]


class Decision(models.Model):
    """One decision on one recommendation: the database allows no second."""

    recommendation = models.OneToOneField(Recommendation, on_delete=models.CASCADE, related_name="decision")
    kind = models.CharField(max_length=20, choices=[(k.value, k.value) for k in DecisionKind])
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    actor_name = models.CharField(max_length=150)  # kept when the account goes
    reason = models.CharField(max_length=500, blank=True)
    # why it was rejected, one of a short list (recovery.core.types.Rejection); "" for other decisions and older ones
    rejection = models.CharField(max_length=20, blank=True)
    overrode = models.CharField(max_length=100, blank=True)  # name of the freeze that it was made in spite of
    hash = models.CharField(max_length=64)  # of what was shown
    at = models.DateTimeField()

    class Meta:
        ordering = ["-at"]


class Action(models.Model):
    """An intent to change the scheduler, committed before the first call, then its observed outcome."""

    recommendation = models.OneToOneField(Recommendation, on_delete=models.PROTECT, related_name="carried_out")
    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="actions")
    key = models.CharField(max_length=100, unique=True)  # idempotency key
    kind = models.CharField(max_length=30, choices=[(k.value, k.value) for k in ActionKind])
    exclude_nodes = models.JSONField(default=list, blank=True)
    parameters = models.JSONField(default=dict, blank=True)
    state = models.CharField(max_length=20, choices=[(s.value, s.value) for s in ActionState])
    # every scheduler call in order: {"operation", "command", "begun_at", "ended_at", "result", "answer"}; `answer` is
    # what the call gave (the new job's id). That it is begun is committed before the call
    calls = models.JSONField(default=list, blank=True)
    detail = models.CharField(max_length=500, blank=True)
    intended_at = models.DateTimeField()
    called_at = models.DateTimeField(null=True, blank=True)
    observed_at = models.DateTimeField(null=True, blank=True)  # when its outcome was seen
    deadline_at = models.DateTimeField()

    class Meta:
        ordering = ["intended_at"]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=[s.value for s in ActionState]), name="known_action_state")
        ]
