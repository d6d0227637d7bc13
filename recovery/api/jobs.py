"""Jobs and their attempts."""

from __future__ import annotations

import django_filters
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from recovery import selectors
from recovery.access import Permission
from recovery.api.base import DeskView, Rows
from recovery.api.fields import ClusterRef, Finite, JobRef, RunRef, Shape, Word
from recovery.api.parsing import ClusterFilter, FlagFilter, KeyFilter, OneOf, SomeOf
from recovery.core.types import TERMINAL_STATES, JobState, Phase
from recovery.models import Attempt, Job

STATES = [(state.value, state.value) for state in JobState]


class JobFilters(django_filters.FilterSet):
    state = SomeOf(choices=STATES, help_text="One state, or several by repeating it.")
    job_id = django_filters.CharFilter(help_text="Slurm's id; several jobs may have had it.")
    cluster = ClusterFilter(field_name="cluster__name", help_text="The cluster's name.")
    run = KeyFilter(help_text="The run's id.")
    user = django_filters.CharFilter()

    class Meta:
        model = Job
        fields: list[str] = []


class AttemptFilters(django_filters.FilterSet):
    state = SomeOf(choices=STATES, help_text="One state, or several by repeating it.")
    phase = OneOf(choices=[(phase.value, phase.value) for phase in Phase])
    job = KeyFilter(help_text="The job's id (ours).")
    run = KeyFilter(field_name="job__run", help_text="The run's id.")
    cluster = ClusterFilter(field_name="job__cluster__name", help_text="The cluster's name.")
    blind = FlagFilter(method="filter_blind", help_text="true: not ended, and can't be observed; false: all others.")

    class Meta:
        model = Attempt
        fields: list[str] = []

    def filter_blind(self, rows: QuerySet[Attempt], name: str, value: bool) -> QuerySet[Attempt]:
        blind = selectors.blind_attempts().order_by().values("pk")
        return rows.filter(pk__in=blind) if value else rows.exclude(pk__in=blind)


class JobShape(Shape):
    id = serializers.IntegerField(help_text="Ours: it never names another job.")
    job_id = serializers.CharField(help_text="Slurm's, which it reuses one day.")
    first_submitted_at = serializers.DateTimeField()
    cluster = ClusterRef()
    run = RunRef()
    name = serializers.CharField()
    user = serializers.CharField()
    account = serializers.CharField()
    partition = serializers.CharField()
    state = Word(JobState)
    state_reason = serializers.CharField(help_text="Slurm's own word.")
    held = serializers.BooleanField()
    requeueable = serializers.BooleanField()
    restart_count = serializers.IntegerField()
    node_count = serializers.IntegerField()
    gpus = serializers.IntegerField()
    excluded_nodes = serializers.ListField(child=serializers.CharField())
    required_nodes = serializers.ListField(child=serializers.CharField())
    features = serializers.CharField(help_text="The constraint as it was written.")
    reservation = serializers.CharField()
    qos = serializers.CharField()
    time_limit_s = Finite()
    options = serializers.DictField(help_text="What the job's comment asks of us.")
    comment_error = serializers.CharField(
        help_text='What is wrong with the comment, and whether it counts; "" if all is well.'
    )
    seen_at = serializers.DateTimeField(help_text="Of the scheduler's answer that this rests on.")
    vanished_at = serializers.DateTimeField(
        allow_null=True, help_text="When Slurm stopped knowing a job that had not ended."
    )
    unknown_reason = serializers.CharField(help_text='Why its state is unknown since then; "" where it is known.')


class LogShape(Shape):
    path = serializers.CharField()
    offset = serializers.IntegerField(help_text="Bytes read so far.")
    line = serializers.IntegerField(help_text="Lines read so far.")
    grew_at = serializers.DateTimeField(allow_null=True)
    error = serializers.CharField(help_text='Why it can\'t be read; "" where it can.')


class AttemptShape(Shape):
    id = serializers.IntegerField()
    number = serializers.IntegerField(help_text="Slurm's restart count.")
    job = JobRef()
    run = RunRef(source="job.run")
    cluster = ClusterRef(source="job.cluster")
    state = Word(JobState)
    state_reason = serializers.CharField()
    phase = Word(Phase)
    phase_since = serializers.DateTimeField(allow_null=True)
    blind = serializers.SerializerMethodField(help_text="It has not ended and can't be observed.")
    blind_reason = serializers.CharField()
    blind_remedy = serializers.CharField()
    submitted_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    exit_code = serializers.IntegerField(allow_null=True)
    exit_signal = serializers.IntegerField(allow_null=True)
    cancelled_by = serializers.CharField(help_text='"" where nobody is known to have cancelled it.')
    nodes = serializers.ListField(child=serializers.CharField())
    first_step = serializers.IntegerField(allow_null=True)
    last_step = serializers.IntegerField(allow_null=True)
    last_progress_at = serializers.DateTimeField(allow_null=True)
    restored_step = serializers.IntegerField(allow_null=True, help_text="0 where it started from scratch.")
    restored_at = serializers.DateTimeField(allow_null=True)
    fresh_start = serializers.BooleanField(help_text="The trainer said that it starts without a checkpoint.")
    seen_at = serializers.DateTimeField(help_text="Of the scheduler's answer that this rests on.")
    read_at = serializers.DateTimeField(allow_null=True, help_text="When its log was last read.")

    def get_blind(self, attempt: Attempt) -> bool:
        return bool(attempt.blind_reason) and attempt.closed_at is None and attempt.state not in TERMINAL_STATES


class JobDetailShape(JobShape):
    attempts = serializers.SerializerMethodField(help_text="Their ids, oldest first.")

    def get_attempts(self, job: Job) -> list[int]:
        return [attempt.pk for attempt in job.attempts.all()]


class AttemptDetailShape(AttemptShape):
    logs = LogShape(many=True, help_text="The files it writes, and how far they were read.")


class Jobs(Rows[Job]):
    """List jobs, newest submission first."""

    queryset = selectors.jobs()
    serializer_class = JobShape
    filterset_class = JobFilters


class JobOne(DeskView):
    """Get one job with its attempts."""

    required = Permission.VIEW
    of = Job

    @extend_schema(responses=JobDetailShape)
    def get(self, request: Request, pk: int) -> Response:
        return Response(JobDetailShape(selectors.job_detail(job_pk=pk)).data)


class Attempts(Rows[Attempt]):
    """List attempts, newest first."""

    queryset = selectors.attempts()
    serializer_class = AttemptShape
    filterset_class = AttemptFilters


class AttemptOne(DeskView):
    """Get one attempt with the log files it writes."""

    required = Permission.VIEW
    of = Attempt

    @extend_schema(responses=AttemptDetailShape)
    def get(self, request: Request, pk: int) -> Response:
        return Response(AttemptDetailShape(selectors.attempt_detail(attempt_id=pk)).data)
