"""Sealing while others write: no event ever appears below one that is sealed."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import close_old_connections, connection, transaction
from django.utils import timezone

from recovery.models import Event, Seal
from recovery.pipeline import audit_chain
from tests.factories import make_event


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite has one writer at a time")
def test_nothing_is_sealed_past_an_event_that_is_still_being_written() -> None:
    written, commit = threading.Event(), threading.Event()

    def slow_writer() -> int:
        try:
            with transaction.atomic():
                early = make_event()
                written.set()
                assert commit.wait(10)
            return early.pk
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(slow_writer)
        assert written.wait(10)
        late = make_event()
        assert audit_chain.seal(now=timezone.now()) == 0
        commit.set()
        early = slow.result(10)
    assert early < late.pk
    assert audit_chain.seal(now=timezone.now()) == 2
    assert list(Seal.objects.values_list("pk", flat=True)) == [early, late.pk]


@pytest.mark.django_db(transaction=True)
def test_many_writers_and_two_sealers_make_one_chain() -> None:
    def write(_: int) -> None:
        try:
            for turn in range(10):
                with transaction.atomic():
                    make_event()
                    if turn % 5 == 4:
                        transaction.set_rollback(True)  # leaves a gap in the ids on PostgreSQL
        finally:
            close_old_connections()
            connection.close()

    def seal(_: int) -> None:
        try:
            while not done.wait(0.02):  # SQLite's writers wait for each other in whole steps
                audit_chain.seal(now=timezone.now())
        finally:
            connection.close()

    done = threading.Event()
    with ThreadPoolExecutor(6) as pool:
        sealers = [pool.submit(seal, n) for n in range(2)]
        for each in [pool.submit(write, n) for n in range(4)]:
            each.result(60)
        done.set()
        for each in sealers:
            each.result(60)
    verdict = audit_chain.verify(now=timezone.now())
    assert (verdict.whole, verdict.broken, verdict.here.number) == (True, None, 32)
    assert Event.objects.count() == Seal.objects.count() == 32
