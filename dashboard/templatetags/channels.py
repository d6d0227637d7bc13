"""Who is told of what, as the policy page and the page of channels show it; and channels that deliver nothing."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils import timezone

from recovery.access import EVERYTHING, Actor, Permission
from recovery.core.notices import MOST_URGENT_FIRST, Severity
from recovery.core.types import FailureClass
from recovery.core.words import FAILURE_LABELS
from recovery.models import Channel, PolicyVersion
from recovery.selectors import channel_reads

register = template.Library()
SEVERITY_LABELS = {
    Severity.URGENT: ("Urgent", "work is being lost now, or automation stands still"),
    Severity.DECISION: ("Decision", "the desk waits for a person"),
    Severity.WARNING: ("Warning", "somebody should look, in working hours"),
    Severity.INFO: ("Info", "nobody has to do anything"),
}


@register.inclusion_tag("notifications/told.html")
def who_is_told(version: PolicyVersion | None) -> dict[str, Any]:
    """{% who_is_told version %}"""
    routing = channel_reads.routing(version, now=timezone.now())
    # the many classes of which the same is told are the last row, without their names
    told_last = sorted(routing.told, key=lambda told: len(told.classes))
    rows = [
        {
            "classes": ["of no case" if each is None else FAILURE_LABELS[each][0] for each in told.classes],
            "every": len(told.classes) == len(FailureClass) + 1,
            "others": told is told_last[-1],
            "no_case": None in told.classes,
            "cells": [
                {"label": SEVERITY_LABELS[severity][0].lower(), "always": always, "perhaps": perhaps}
                for severity, always, perhaps in zip(MOST_URGENT_FIRST, told.always, told.perhaps, strict=True)
            ],
        }
        for told in told_last
    ]
    return {"routing": routing, "rows": rows, "severities": [SEVERITY_LABELS[each] for each in MOST_URGENT_FIRST]}


@register.simple_tag
def dead_channels(actor: Actor | None) -> list[Channel]:
    """Those by which nothing arrives, for whoever can do something about it; a query for them alone."""
    if actor is None or not actor.can(Permission.CHANNEL_MANAGE, EVERYTHING):
        return []
    return channel_reads.dead_channels(now=timezone.now())
