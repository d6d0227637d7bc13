"""The scenario of ten thousand jobs at a time, with few of its healthy ones; `make bench` plays all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.ten_thousand import FILE, with_fewer
from recovery.models import Attempt
from recovery.simulation.judging import differences
from recovery.simulation.reading import read_file
from recovery.simulation.running import play

HEALTHY, STRUCK = 40, 3


def test_it_is_about_ten_thousand_jobs_at_a_time() -> None:
    scenario = read_file(FILE)
    assert len(scenario.jobs) >= 9_999
    assert len(scenario.cluster.nodes) > len(scenario.jobs)
    assert {job.at_s for job in scenario.jobs} == {0.0}


@pytest.mark.django_db
@pytest.mark.timeout(300)
def test_of_many_jobs_those_that_fail_are_found_and_no_other(tmp_path: Path) -> None:
    scenario = with_fewer(read_file(FILE), HEALTHY + STRUCK)
    assert differences(scenario.expect, play(scenario, tmp_path)) == []
    healthy = Attempt.objects.filter(job__name__startswith="healthy")
    assert healthy.count() == HEALTHY
    assert not healthy.exclude(blind_reason="").exists()
