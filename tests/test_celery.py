"""What a worker does at its start."""

from __future__ import annotations

import gc

from celery.signals import worker_init

from recovery.celery import settle


def test_the_collector_leaves_alone_what_a_workers_start_has_made() -> None:
    assert settle in [receiver() for _, receiver in worker_init.receivers]
    before = gc.get_freeze_count()
    try:
        settle()
        assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()
