"""A scripted controller that the doctor may examine."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from recovery.doctor import Result
from recovery.doctor.calls import NO_NODE
from recovery.slurm.base import NotSupported, Operation, Rights, RightsLevel, SlurmRefused
from tests.pipeline.fake_slurm import FakeSlurm


class Scripted(FakeSlurm):
    """The scripted controller, with rights of the test's choosing and Slurm's words for a node that is not there."""

    def __init__(self, level: RightsLevel = RightsLevel.FULL, *, user: str = "desk") -> None:
        super().__init__(lambda: datetime.now(UTC))
        self.level, self.user = level, user
        self.node_answer = "Invalid node name specified" if level is RightsLevel.FULL else "Invalid user id"

    def rights(self) -> Rights:
        return Rights(user=self.user, level=self.level, how="scripted")

    def resume_node(self, name: str) -> None:
        assert name == NO_NODE
        if Operation.RESUME_NODE in self.denied:
            raise NotSupported("no such call", tried="resume", permanent=True)
        raise SlurmRefused(self.node_answer, tried="scontrol update", permanent=True)


def by_what(results: Sequence[Result]) -> dict[str, Result]:
    return {result.what: result for result in results}
