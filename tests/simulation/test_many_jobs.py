"""The scenario of ten thousand jobs at a time, with few of its healthy ones; `make bench` plays all of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from recovery.models import Attempt
from recovery.simulation.judging import differences
from recovery.simulation.reading import read_file
from recovery.simulation.running import play
from recovery.simulation.scenario import Scenario

FILE = Path(__file__).parents[2] / "scenarios" / "large" / "ten-thousand.toml"
HEALTHY = 60


def with_fewer(scenario: Scenario, healthy: int) -> Scenario:
    """Without all but `healthy` of the jobs that nothing happens to, and without the nodes that they would need."""
    healthy_ones = [job for job in scenario.jobs if not job.spec.faults]
    struck = [job for job in scenario.jobs if job.spec.faults]
    spare = len(scenario.cluster.nodes) - len(scenario.jobs)
    kept = (*healthy_ones[:healthy], *struck)
    cluster = replace(scenario.cluster, nodes=scenario.cluster.nodes[: len(kept) + spare], partitions=())
    return replace(scenario, jobs=kept, cluster=cluster)


def test_it_is_about_ten_thousand_jobs_at_a_time() -> None:
    scenario = read_file(FILE)
    assert len(scenario.jobs) >= 9_999
    assert len(scenario.cluster.nodes) > len(scenario.jobs)
    assert {job.at_s for job in scenario.jobs} == {0.0}


@pytest.mark.django_db
@pytest.mark.timeout(300)
def test_of_many_jobs_those_that_fail_are_found_and_no_other(tmp_path: Path) -> None:
    scenario = with_fewer(read_file(FILE), HEALTHY)
    assert differences(scenario.expect, play(scenario, tmp_path)) == []
    healthy = Attempt.objects.filter(job__name__startswith="healthy")
    assert healthy.count() == HEALTHY
    assert not healthy.exclude(blind_reason="").exists()
