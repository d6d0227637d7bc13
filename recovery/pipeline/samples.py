"""Part of ingest: progress samples on their way into the table."""

from __future__ import annotations

from collections.abc import Sequence

from recovery.models import Sample


def store_samples(rows: Sequence[Sample]) -> None:
    """Store each sample once: a row whose key is there already is left as it is."""
    Sample.objects.bulk_create(rows, ignore_conflicts=True, batch_size=500)
