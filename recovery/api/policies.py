"""The policy: its versions, a check of a draft, saving it, why a rule decides, and a replay on recorded history."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from recovery import policy_drafts, policy_files, selectors
from recovery.access import EVERYTHING, Permission, require
from recovery.api.base import DeskView, Row, Rows
from recovery.api.fields import Shape, Word
from recovery.api.parsing import SmallJSONParser
from recovery.api.recommendations import PassedOverShape
from recovery.api.schema import Failure
from recovery.core.policy import Question, Traits
from recovery.core.types import FailureClass, Mode
from recovery.models import PolicyVersion
from recovery.pipeline import by_hand
from recovery.pipeline.rehearse import MOST_DAYS, figures, line_of, rehearse
from recovery.pipeline.transition import LostRace
from recovery.pipeline.why import why
from recovery.policy_drafts import Draft, rules_of
from recovery.selectors import NotFound

SHOWN = 200  # cases of a replay
EXAMPLE = (
    "rules:\n- name: hardware\n  classes: [gpu_hardware, node_fault]\n  mode: approve\ndefault: {mode: observe}\n…"
)


class PolicyParser(SmallJSONParser):
    """The largest policy has more than what people usually send us."""

    largest = policy_files.LONGEST


class PolicyShape(Shape):
    number = serializers.IntegerField(help_text="The newest holds.")
    author = serializers.CharField()
    reason = serializers.CharField()
    created_at = serializers.DateTimeField()


class PolicyOneShape(PolicyShape):
    rules = serializers.DictField(help_text="The document; docs/policies.md says what it may hold.")
    yaml = serializers.SerializerMethodField(help_text="The same as a file.")

    def get_yaml(self, version: PolicyVersion) -> str:
        return policy_files.write(version.rules)


class Policies(Rows[PolicyVersion]):
    """List versions of the policy, the newest first: that one holds."""

    queryset = selectors.policies()
    serializer_class = PolicyShape


class PolicyOne(Row[PolicyVersion]):
    """Get one version by its number."""

    queryset = selectors.policies()
    serializer_class = PolicyOneShape

    def get_object(self) -> PolicyVersion:
        found = self.get_queryset().filter(number=self.kwargs["pk"]).first()
        if found is None:
            raise NotFound(f"There is no policy version {self.kwargs['pk']}.")
        return found


class DocumentInput(Shape):
    """A draft, in one of two ways."""

    yaml = serializers.CharField(required=False, max_length=policy_files.LONGEST, help_text="The policy as text; or")
    rules = serializers.DictField(required=False, help_text="as a JSON object.")

    def validate(self, given: dict[str, Any]) -> dict[str, Any]:
        if ("yaml" in given) == ("rules" in given):
            raise serializers.ValidationError("Send the policy either as yaml or as rules.")
        return given

    def draft(self, held: PolicyVersion | None) -> Draft:
        given = self.validated_data
        return (
            policy_drafts.draft(given["yaml"], held)
            if "yaml" in given
            else policy_drafts.draft_of(given["rules"], held)
        )


def _rules_of(given: DocumentInput, held: PolicyVersion | None) -> dict[str, Any]:
    draft = given.draft(held)
    if draft.rules is None:
        raise ValidationError({"yaml" if "yaml" in given.validated_data else "rules": list(draft.errors)})
    return draft.rules


class DraftShape(Shape):
    errors = serializers.ListField(  # type: ignore[assignment]  # the base class has a property of that name
        child=serializers.CharField(), help_text="What is wrong, with the line of the text; [] if it can be saved."
    )
    warnings = serializers.ListField(child=serializers.CharField(), help_text="Rules that are never reached.")
    changes = serializers.ListField(
        child=serializers.CharField(), help_text="Lines of a unified diff against the version that holds."
    )


class PolicyCheck(DeskView):
    """Check a draft of the policy: what is wrong, what is never reached, what would change. Nothing is saved."""

    required = Permission.VIEW
    parser_classes = (PolicyParser,)

    @extend_schema(
        operation_id="policies_check", request=DocumentInput, responses=DraftShape,
        examples=[OpenApiExample("A file", value={"yaml": EXAMPLE}, request_only=True)],
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        given = DocumentInput(data=request.data)
        given.is_valid(raise_exception=True)
        draft = given.draft(selectors.current_policy())
        return Response({"errors": draft.errors, "warnings": draft.warnings, "changes": draft.changes})


class PolicyInput(DocumentInput):
    reason = serializers.CharField(max_length=300, help_text="For the audit trail.")
    base = serializers.IntegerField(
        required=False,
        min_value=0,
        help_text="The version that the draft was made from; refused unless it holds.",
    )


class PolicyApply(DeskView):
    """Save a policy as a new version, which holds at once.

    Where it says what the version that holds says, nothing is saved, and the answer (200) is that version.
    """

    required = Permission.POLICY_EDIT
    parser_classes = (PolicyParser,)

    @extend_schema(
        operation_id="policies_apply",
        request=PolicyInput,
        responses={
            201: PolicyOneShape,
            200: PolicyOneShape,
            409: OpenApiResponse(Failure, description="`out_of_date`: another version than `base` holds."),
        },
        examples=[
            OpenApiExample(
                "A reviewed file", value={"yaml": EXAMPLE, "reason": "change 4711", "base": 12}, request_only=True
            )
        ],
    )
    def post(self, request: Request) -> Response:
        given = PolicyInput(data=request.data)
        given.is_valid(raise_exception=True)
        held = selectors.current_policy()
        number, base = held.number if held else 0, given.validated_data.get("base")
        if base is not None and base != number:
            raise LostRace(f"Version {number} holds, not {base}: compare with it first.")
        rules = _rules_of(given, held)
        if held is not None and held.rules == rules:
            return Response(PolicyOneShape(held).data)
        saved = by_hand.save_policy(
            rules, base=number, reason=given.validated_data["reason"], actor=self.actor, now=timezone.now()
        )
        return Response(PolicyOneShape(saved).data, status=HTTPStatus.CREATED)


class QuestionInput(Shape):
    """What is left out is not known."""

    failure_class = Word(FailureClass)
    confidence = serializers.FloatField(default=1.0, min_value=0, max_value=1, help_text="Of the verdict.")
    cluster = serializers.CharField(default="", max_length=200)
    partition = serializers.CharField(default="", max_length=200)
    account = serializers.CharField(default="", max_length=200)
    user = serializers.CharField(default="", max_length=200)
    qos = serializers.CharField(default="", max_length=200)
    job_name = serializers.CharField(default="", max_length=300)
    labels = serializers.DictField(child=serializers.CharField(max_length=200), default=dict)
    gpus = serializers.IntegerField(default=0, min_value=0, max_value=10**6)
    nodes = serializers.IntegerField(default=0, min_value=0, max_value=10**6)


class AnswerShape(Shape):
    rule = serializers.CharField(help_text='That decides; "default" where none matches.')
    mode = Word(Mode)
    shadow = serializers.BooleanField(help_text="An automatic rule that asks all the same.")
    passed_over = PassedOverShape(many=True, help_text="The rules before it, in order.")


class PolicyWhy(DeskView):
    """Ask which rule of the policy that holds would decide about a job, and why not the ones before it."""

    required = Permission.VIEW

    @extend_schema(
        operation_id="policies_why", request=QuestionInput, responses=AnswerShape,
        examples=[
            OpenApiExample(
                "A job", value={"failure_class": "gpu_hardware", "account": "vision", "gpus": 64}, request_only=True
            )
        ],
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        given = QuestionInput(data=request.data)
        given.is_valid(raise_exception=True)
        wanted = dict(given.validated_data)
        failure_class, confidence = FailureClass(wanted.pop("failure_class")), wanted.pop("confidence")
        question = Question(
            traits=Traits(**wanted), failure_class=failure_class, confidence=confidence, at=timezone.now()
        )
        return Response(AnswerShape(why(rules_of(selectors.current_policy()), question)).data)


class ReplayInput(DocumentInput):
    number = serializers.IntegerField(required=False, min_value=1, help_text="A stored version, by its number; or")
    days = serializers.IntegerField(default=30, min_value=1, max_value=MOST_DAYS, help_text="Up to now.")

    def validate(self, given: dict[str, Any]) -> dict[str, Any]:
        if sum(key in given for key in ("yaml", "rules", "number")) > 1:
            raise serializers.ValidationError("Send one of yaml, rules and number; none: the version that holds.")
        return given


class CaseShape(Shape):
    incident = serializers.IntegerField()
    at = serializers.DateTimeField()
    failure_class = Word(FailureClass)
    action = serializers.CharField()
    mode = Word(Mode, help_text="What the draft says.")
    rule = serializers.CharField()
    reason = serializers.CharField()
    decision = serializers.CharField(allow_null=True, help_text="What was decided; null: nobody did.")
    outcome = serializers.CharField(allow_null=True, help_text="Of the incident; null: it is open.")


class ReplayShape(Shape):
    days = serializers.IntegerField()
    count = serializers.IntegerField(help_text="Recommendations that were replayed.")
    by_mode = serializers.DictField(child=serializers.IntegerField(), help_text="What the draft says to them.")
    automatic_before = serializers.IntegerField(help_text="Decided by policy in reality.")
    against_people = serializers.ListField(
        child=serializers.IntegerField(), help_text="Incidents in which it would have gone by itself against people."
    )
    went_badly = serializers.ListField(
        child=serializers.IntegerField(),
        help_text="Incidents in which it would have gone by itself, and what was really done did not end in recovery.",
    )
    saved_s = serializers.FloatField(help_text="People's time to agree with what it would have just done.")
    saved_gpu_hours = serializers.FloatField(help_text="GPUs idle meanwhile.")
    cases = CaseShape(many=True, help_text=f"Of both lists, the newest first, {SHOWN} at most.")


class PolicyReplay(DeskView):
    """Replay a draft of the policy on recorded history, before it is switched on. Nothing is changed."""

    required = Permission.POLICY_EDIT
    parser_classes = (PolicyParser,)

    @extend_schema(
        operation_id="policies_replay", request=ReplayInput, responses=ReplayShape,
        examples=[OpenApiExample("A file", value={"yaml": EXAMPLE, "days": 90}, request_only=True)],
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        given = ReplayInput(data=request.data)
        given.is_valid(raise_exception=True)
        require(self.actor, Permission.POLICY_EDIT, EVERYTHING)  # it tells of everybody's incidents
        held = selectors.current_policy()
        if {"yaml", "rules"} & set(given.validated_data):
            rules = _rules_of(given, held)
        else:
            rules = rules_of(_version(given.validated_data.get("number"), held))
        found = rehearse(rules, days=given.validated_data["days"], now=timezone.now())
        cases = [_case(line_of(each)) for each in found.otherwise[:SHOWN]]
        return Response(figures(found.told) | {"days": found.days, "cases": cases})


def _case(line: dict[str, Any]) -> dict[str, Any]:
    return {"failure_class" if key == "class" else key: value for key, value in line.items()}


def _version(number: int | None, held: PolicyVersion | None) -> PolicyVersion | None:
    if number is None:
        return held
    found = selectors.policies().filter(number=number).first()
    if found is None:
        raise ValidationError({"number": [f"There is no policy version {number}."]})
    return found
