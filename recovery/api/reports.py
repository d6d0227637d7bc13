"""Reports: where the time of runs went over any window, grouped and filtered, as JSON and as CSV."""

from __future__ import annotations

import csv
import io
from datetime import timedelta
from typing import Any

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from recovery import selectors
from recovery.access import Permission
from recovery.api.authentication import actor_of
from recovery.api.base import DeskView
from recovery.api.fields import Choice, Finite, RunRef, Shape
from recovery.api.opinions import OpinionScoreShape
from recovery.api.parsing import EARLIEST, LARGEST_PAGE, LATEST, known_cluster, refuse_unknown
from recovery.core.ledger import PRODUCTIVE, Category
from recovery.core.ledger.figures import Figures
from recovery.core.ledger.incidents import GAPS
from recovery.core.ledger.spans import to_datetime
from recovery.models import Run
from recovery.pipeline.report import GROUPS, INCIDENTS_ONLY, Line, Report, report, run_report
from recovery.selectors.ledger_reads import FILTERS, Window
from recovery.selectors.scope import runs_of

DEFAULT_DAYS = 7
LARGEST_KEY = 2**31 - 1
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet computes what begins so; a run may be called anything
UNPRODUCTIVE = tuple(category for category in Category if category not in PRODUCTIVE)
PIECES = 2000  # of one run's ledger that are told one by one; the newest


class ReportQuery(Shape):
    by = Choice(
        GROUPS,
        default="cluster",
        help_text=f"What to group by. {' and '.join(INCIDENTS_ONLY)} tell of incidents only: time has none.",
    )
    since = serializers.DateTimeField(
        required=False, help_text=f"From this moment on; {DEFAULT_DAYS} days before `until` unless given."
    )
    until = serializers.DateTimeField(required=False, help_text="Up to this moment; now unless given.")
    cluster = serializers.CharField(required=False, help_text="The cluster's name.")
    user = serializers.CharField(required=False)
    account = serializers.CharField(required=False)
    partition = serializers.CharField(required=False)
    qos = serializers.CharField(required=False)
    run = serializers.IntegerField(required=False, min_value=0, max_value=LARGEST_KEY, help_text="The run's id.")
    policy = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=LARGEST_KEY,
        help_text="Number of a version: time while it held, incidents that it judged. 0: before the first.",
    )
    limit = serializers.IntegerField(
        default=LARGEST_PAGE, min_value=1, max_value=LARGEST_PAGE, help_text="At most so many groups; `total` has all."
    )

    def validate_cluster(self, name: str) -> str:
        return known_cluster(name, self.context["actor"])

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        until = attrs.get("until") or timezone.now()
        since = attrs.get("since") or until - timedelta(days=DEFAULT_DAYS)
        if not (EARLIEST <= since.year <= LATEST and EARLIEST <= until.year <= LATEST):
            raise serializers.ValidationError({"since": [f"Give moments between the years {EARLIEST} and {LATEST}."]})
        if since >= until:
            raise serializers.ValidationError({"since": ["Give a moment before `until`."]})
        return {**attrs, "since": since, "until": until}


class SpreadShape(Shape):
    """Seconds, over the interruptions of the window for which both moments were seen."""

    count = serializers.IntegerField()
    mean = Finite()
    p50 = Finite()
    p90 = Finite()
    p99 = Finite()


def _by_category(help_text: str) -> serializers.DictField:
    return serializers.DictField(child=serializers.FloatField(), help_text=help_text)


class FiguresShape(Shape):
    """Definitions: docs/ledger.md. Ratios are between 0 and 1, null where what they divide by is nothing."""

    wall_s = Finite(help_text="Wall time, the queue included.")
    held_gpu_hours = Finite(help_text="GPU-hours of all allocations.")
    seconds = _by_category("Wall time by category.")
    gpu_hours = _by_category("GPU-hours held, by category.")
    effective_training_time_ratio = Finite()
    goodput = Finite()
    badput = _by_category("Each unproductive category as a share; with goodput they sum to 1.")
    gpu_goodput = Finite()
    interruptions = serializers.IntegerField()
    interruptions_per_1000_gpu_hours = Finite()
    clocks = serializers.DictField(
        child=SpreadShape(allow_null=True),
        help_text=f"Time to {', '.join(GAPS)}; null where none was seen.",
    )
    steps_lost = serializers.IntegerField()
    lost_gpu_hours = Finite(help_text="Charged to the incidents of the window.")
    decision_wait_s = Finite(help_text="What waiting for decisions took of the runs' wall time.")
    decision_held_gpu_hours = Finite(help_text="GPU-hours that the runs held meanwhile.")
    decision_gpu_hours = Finite(help_text="GPU-hours that they would have used meanwhile, held or not.")


class LineShape(FiguresShape):
    key = serializers.CharField(allow_null=True, help_text="The group: a name, an id, a date; null for the total.")
    label = serializers.CharField(help_text="What people call it.")  # type: ignore[assignment]  # as in schema.py

    def to_representation(self, line: Line) -> dict[str, Any]:
        key = None if line.key is None else str(line.key)
        return {"key": key, "label": line.label, **FiguresShape(line.figures).data}


class ReportShape(Shape):
    by = serializers.CharField()
    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    groups = serializers.IntegerField(help_text="How many there are; `lines` has at most `limit` of them.")
    total = LineShape()
    lines = LineShape(many=True)
    second_opinion = OpinionScoreShape(
        allow_null=True, help_text="Of an external diagnostic service with our verdicts; counted in no other figure."
    )


class PieceShape(Shape):
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    category = serializers.ChoiceField(choices=[str(category) for category in Category])


class RunLedgerShape(Shape):
    run = RunRef()
    kept_at = serializers.DateTimeField(
        allow_null=True, help_text="When it was last kept anew; what follows goes on as it did then. null: not yet."
    )
    figures = FiguresShape()
    pieces = PieceShape(many=True, help_text=f"What it did, in order; the newest {PIECES}.")


def ask(request: Request) -> tuple[Report, int]:
    """The report that the parameters ask for, and how many lines of it."""
    query = ReportQuery(data=request.query_params, context={"actor": actor_of(request)})
    refuse_unknown(request.query_params.keys(), query.fields)
    query.is_valid(raise_exception=True)
    wanted: dict[str, Any] = query.validated_data
    only = {name: wanted[name] for name in FILTERS if name in wanted}
    window = Window(start=wanted["since"], end=wanted["until"], only=only, runs=runs_of(actor_of(request)))
    return report(window, by=wanted["by"], now=timezone.now()), wanted["limit"]


class Reports(DeskView):
    """Get where the time of runs went over a window.

    Every second of a run's wall time is in exactly one category; the categories of a line sum to its wall time.
    """

    required = Permission.VIEW

    @extend_schema(parameters=[ReportQuery], responses=ReportShape)
    def get(self, request: Request) -> Response:
        found, limit = ask(request)
        given = {
            "by": found.by, "since": found.window.start, "until": found.window.end, "groups": len(found.lines),
            "total": found.total, "lines": found.lines[:limit], "second_opinion": selectors.opinion_score(found.window),
        }  # fmt: skip
        return Response(ReportShape(given).data)


class ReportsCsv(DeskView):
    """Get the same as CSV: one row per group, and the total last."""

    required = Permission.VIEW

    @extend_schema(parameters=[ReportQuery], responses={(200, "text/csv"): OpenApiTypes.STR})
    def get(self, request: Request) -> HttpResponse:
        found, limit = ask(request)
        answer = HttpResponse(as_csv(found, limit), content_type="text/csv; charset=utf-8")
        answer["Content-Disposition"] = f'attachment; filename="recovery-desk-by-{found.by}.csv"'
        answer["Cache-Control"] = "no-store"
        return answer


class RunLedgerOne(DeskView):
    """Get the ledger of one run: its figures, and what it did from moment to moment."""

    required = Permission.VIEW
    of = Run

    @extend_schema(responses=RunLedgerShape)
    def get(self, request: Request, pk: int) -> Response:
        run = selectors.run(run_id=pk)
        found = run_report(run_id=pk, now=timezone.now())
        pieces = [
            {"start": to_datetime(start), "end": to_datetime(end), "category": category}
            for start, end, category in found.pieces[-PIECES:]
        ]
        given = {"run": run, "kept_at": found.kept_at, "figures": found.line.figures, "pieces": pieces}
        return Response(RunLedgerShape(given).data)


# --- CSV -------------------------------------------------------------------------------------------------------------
def as_csv(found: Report, limit: int) -> str:
    text = io.StringIO()
    rows = [row_of(line) for line in (*found.lines[:limit], found.total)]
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def row_of(line: Line) -> dict[str, Any]:
    figures = line.figures
    row: dict[str, Any] = {"group": _cell(line.key), "label": _cell(line.label)}
    for name in Figures.__dataclass_fields__:
        value = getattr(figures, name)
        if name == "clocks":
            row |= _clock_cells(figures)
        elif name == "badput":
            row |= {f"badput_{category}": value.get(category) for category in UNPRODUCTIVE}
        elif name in ("seconds", "gpu_hours"):
            row |= {f"{category}_{name}": value[category] for category in Category}
        else:
            row[name] = value
    return row


def _clock_cells(figures: Figures) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for name in GAPS:
        spread = figures.clocks[name]
        for part in ("count", "mean", "p50", "p90", "p99"):
            unit = "" if part == "count" else "_s"
            cells[f"{name}_{part}{unit}"] = getattr(spread, part) if spread else None
    return cells


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(FORMULA) else text
