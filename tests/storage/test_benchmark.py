from __future__ import annotations

import pytest

from benchmarks import samples


@pytest.mark.django_db
def test_samples_are_stored_drawn_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "ROWS", 60)
    monkeypatch.setattr(samples, "BATCH", 50)
    monkeypatch.setattr(samples, "DAYS", 1)
    monkeypatch.setattr(samples, "EVERY_S", 600)
    figures = samples.measure()
    assert figures["chart_rows"] == 144
    assert figures["minutes"] == 144
    assert set(figures["chart_ms"]) == {str(width) for width in samples.WIDTHS}
