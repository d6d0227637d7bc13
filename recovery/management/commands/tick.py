"""One whole pass of the path in this process: what beat and workers do together, without a broker."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from recovery.core.speech import counted
from recovery.doctor import stored as examinations
from recovery.pipeline import audit_chain, measure, notices, reconcile, second_opinion, upkeep
from recovery.tasks import client_of


class Command(BaseCommand):
    help = "Do everything that is due now, once, in this process and without a broker."

    def handle(self, *args: Any, **options: Any) -> None:
        done = reconcile.tick(client_for=client_of, clock=reconcile.utc_now)
        for pk in examinations.due(reconcile.utc_now()):
            examinations.examine_and_store(pk, client_for=client_of, clock=reconcile.utc_now)
        for pk in measure.due(reconcile.utc_now()):
            measure.measure_source(pk, clock=reconcile.utc_now)
        for pk in second_opinion.due(reconcile.utc_now()):
            second_opinion.ask_next(pk, clock=reconcile.utc_now)
        for pk in upkeep.due(reconcile.utc_now()):
            upkeep.keep(pk, clock=reconcile.utc_now)
        for pk in audit_chain.due(reconcile.utc_now()):
            audit_chain.keep(pk, clock=reconcile.utc_now)
        notices.route(now=reconcile.utc_now())
        for pk in notices.due(reconcile.utc_now()):
            notices.deliver(pk, clock=reconcile.utc_now)
        seen = [
            counted(len(keys), word)
            for keys, word in ((done.clusters, "cluster"), (done.attempts, "attempt"), (done.incidents, "incident"))
        ]
        self.stdout.write(f"Looked at {seen[0]}, {seen[1]} and {seen[2]}.")
