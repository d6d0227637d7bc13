"""Logs and folders of real trainers, killed in a save and started again (record.py): read as they were left."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from recovery.core.diagnose.catalogue import RULES_BY_ID
from recovery.core.logs import LogParser
from recovery.core.phases import next_phase
from recovery.core.types import FailureClass, Phase, Signal, SignalKind
from recovery.offline.logs import lines_of
from recovery.sources.checkpoints import scan_checkpoints

RECORDED = Path(__file__).parent / "recorded"
RUNS = sorted({log.parent.name for log in RECORDED.glob("*/*.log")})
S = SignalKind


def signals(name: str, log: str) -> list[Signal]:
    parser = LogParser(utc_offset=timedelta(0), nodes=[])
    return [signal for line in lines_of(RECORDED / name / f"{log}.log") for signal in parser.feed(line)]


def kinds(found: list[Signal]) -> set[SignalKind]:
    return {signal.kind for signal in found}


def steps(found: list[Signal]) -> list[int | None]:
    return [signal.step for signal in found if signal.kind is S.PROGRESS]


def states(folder: Path) -> dict[int, str]:
    found = scan_checkpoints(str(folder), roots=[str(folder)])
    assert not found.error
    return {look.step: look.state.value for look in found.looks}


@pytest.mark.parametrize(
    ("name", "moment", "expected"),
    [
        ("hf", "killed", {4: "complete", 8: "complete", 12: "announced"}),
        ("hf", "resumed", {4: "complete", 8: "complete", 12: "announced"}),
        ("hf_resumes", "killed", {4: "complete", 8: "complete"}),
        ("hf_resumes", "resumed", {20: "complete", 24: "complete"}),
        ("trl", "killed", {4: "complete", 8: "complete"}),
        ("trl", "resumed", {8: "complete", 12: "complete"}),
        ("lightning", "killed", {8: "complete", 12: "complete"}),
        ("lightning", "resumed", {12: "complete", 20: "complete", 24: "complete"}),
        ("dcp", "killed", {4: "complete", 8: "announced"}),
        ("dcp", "resumed", {8: "complete", 12: "complete"}),
        ("composer", "killed", {4: "complete", 8: "complete", 12: "announced"}),
        ("orbax", "killed", {1: "complete", 4: "complete"}),
        ("orbax", "resumed", {8: "complete", 12: "complete"}),
        ("deepspeed", "killed", {4: "complete", 8: "announced"}),
        ("deepspeed", "resumed", {4: "complete", 8: "complete", 12: "complete"}),
        ("hf_deepspeed", "killed", {4: "complete", 8: "announced"}),
        ("hf_deepspeed", "resumed", {4: "complete", 8: "announced"}),
        ("olmo_core", "killed", {4: "complete"}),  # step8-tmp/ has every shard, but not its name yet
        ("olmo_core", "resumed", {4: "complete", 8: "complete", 12: "complete"}),
    ],
)
def test_each_folder_reads_as_its_trainer_left_it(name: str, moment: str, expected: dict[int, str]) -> None:
    assert states(RECORDED / name / moment) == expected


@pytest.mark.parametrize(
    "name", ["hf", "trl", "lightning", "dcp", "composer", "orbax", "deepspeed", "hf_deepspeed", "olmo_core"]
)
def test_no_true_checkpoint_that_is_cut_anywhere_reads_as_complete(name: str, tmp_path: Path) -> None:
    """Each file of it once emptied, once lost its second half; those that nothing is restored from aside."""
    moment = "resumed" if (RECORDED / name / "resumed").is_dir() and name != "composer" else "killed"
    folder = tmp_path / name
    shutil.copytree(RECORDED / name / moment, folder, symlinks=True)
    newest = max(step for step, state in states(folder).items() if state == "complete")
    path = next(
        Path(look.path) for look in scan_checkpoints(str(folder), roots=[str(folder)]).looks if look.step == newest
    )
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    for file in files:
        if (
            file.suffix not in (".pt", ".pth", ".ckpt", ".safetensors", ".distcp", ".metadata")
            and file.name != ".metadata"
        ):
            continue
        whole = file.read_bytes()
        for cut in (b"", whole[: len(whole) // 2]):
            file.write_bytes(cut)
            assert states(folder)[newest] != "complete", (file.name, len(cut))
        file.write_bytes(whole)
    assert states(folder)[newest] == "complete"


def test_hugging_face_saves_are_read_though_they_stand_upon_the_bar() -> None:
    found = signals("hf", "killed")
    assert [signal.step for signal in found if signal.kind is S.SAVE_STARTED] == [4, 8, 12]
    assert {signal.path for signal in found if signal.kind is S.SAVE_STARTED} == {"/tmp/ckpt/hf"}
    assert max(step or 0 for step in steps(found)) == 12
    assert all(signal.loss is None or 2 < signal.loss < 3 for signal in found)


@pytest.mark.parametrize("name", ["hf", "hf_deepspeed"])
def test_hugging_face_dies_on_the_torn_folder_that_it_chooses_blindly(name: str) -> None:
    found = signals(name, "resumed")
    assert "checkpoint.missing" in {signal.rule for signal in found if signal.kind is S.FAILURE}
    assert steps(found) == []


def test_a_nan_loss_is_no_loss_and_the_steps_go_on() -> None:
    found = [signal for signal in signals("hf_nan", "whole") if signal.kind is S.PROGRESS]
    assert {signal.loss for signal in found} == {None}
    assert found[-1].step == 24


def test_with_hugging_faces_filter_a_nan_loss_reads_as_a_number() -> None:
    """What docs/trainers.md warns of: the filter is on by default, and the log alone looks healthy."""
    losses = {signal.loss for signal in signals("hf_nan_filtered", "whole") if signal.kind is S.PROGRESS}
    assert 0.0 in losses


@pytest.mark.parametrize(
    ("name", "log", "last"),
    [
        ("trl", "killed", 8),
        ("trl", "resumed", 12),
        ("composer", "killed", 12),
        ("dcp", "killed", 8),
        ("orbax", "resumed", 12),
        ("lightning_tqdm", "killed", 12),
        ("lightning_tqdm", "resumed", 24),  # the last epoch's bar has a total of 4, as max_steps ends it there
        ("deepspeed", "killed", 8),
        ("deepspeed", "resumed", 12),
        ("hf_deepspeed", "killed", 8),
        ("olmo_core", "killed", 8),
        ("olmo_core", "resumed", 12),
    ],
)
def test_the_last_step_that_was_printed_is_the_last_that_is_read(name: str, log: str, last: int) -> None:
    assert steps(signals(name, log))[-1] == last


@pytest.mark.parametrize("name", ["hf_resumes", "lightning_tqdm", "trl", "olmo_core"])
def test_a_training_that_ended_is_not_taken_up_by_a_bar_that_is_drawn_once_more(name: str) -> None:
    phase = Phase.STARTING
    for signal in signals(name, "resumed"):
        phase = next_phase(phase, signal)
    assert phase is Phase.FINISHING


def test_each_loss_stands_at_its_own_step_where_the_bar_is_drawn_at_each() -> None:
    folder = RECORDED / "hf_deepspeed" / "killed" / "checkpoint-4"
    told = {
        each["step"]: each["loss"] for each in json.loads((folder / "trainer_state.json").read_text())["log_history"]
    }
    found = [signal for signal in signals("hf_deepspeed", "killed") if signal.kind is S.PROGRESS]
    read = {signal.step: signal.loss for signal in found if signal.loss is not None}
    assert {step: read[step] for step in told} == {step: pytest.approx(loss, abs=1e-3) for step, loss in told.items()}


@pytest.mark.parametrize("name", RUNS)
def test_no_step_is_read_that_was_not_done_or_comes_before_another(name: str) -> None:
    """What is printed before the first step, and what counts anew in each process, is no step."""
    for log in (RECORDED / name).glob("*.log"):
        read = [step for step in steps(signals(name, log.stem)) if step is not None]
        assert read == sorted(read), log.stem
        assert 0 not in read, log.stem


@pytest.mark.parametrize(("name", "loaded"), [("deepspeed", 4), ("olmo_core", 4), ("hf_resumes", 8)])
def test_a_load_is_told_with_its_step_and_training_goes_on_from_there(name: str, loaded: int) -> None:
    found = signals(name, "resumed")
    loads = [signal for signal in found if signal.kind is S.LOADED]
    assert {(signal.step, signal.path) for signal in loads} == {(loaded, f"/tmp/ckpt/{name}")}
    assert steps(found)[0] == loaded + 2  # each second step is printed


@pytest.mark.parametrize("name", RUNS)
def test_no_run_without_a_failure_reads_as_one(name: str) -> None:
    """The lines before a kill, and those of a run that came to its end, name no cause; NaN is an alarm."""
    logs = [log.stem for log in (RECORDED / name).glob("*.log") if (name, log.stem) not in FAILED]
    for log in logs:
        causes = {RULES_BY_ID[s.rule].failure_class for s in signals(name, log) if s.kind is S.FAILURE}
        assert causes <= ({FailureClass.NUMERICS} if name.startswith("hf_nan") else set()), log


# torchrun reports its killed rank, in its own words
FAILED = {
    ("hf", "resumed"), ("composer", "resumed"), ("dcp", "killed"), ("deepspeed", "killed"), ("olmo_core", "killed"),
    ("hf_deepspeed", "killed"), ("hf_deepspeed", "resumed"),
}  # fmt: skip


def test_lightnings_rich_bar_leaves_nothing_to_read_in_a_file() -> None:
    """Its steps are drawn on terminals only: such a job is blind, never hung or wrong."""
    assert steps(signals("lightning", "killed")) == []
    found = signals("lightning", "resumed")
    assert {S.LOADED, S.FINISHED} <= kinds(found)


def test_lightnings_tqdm_bar_is_read() -> None:
    assert steps(signals("lightning_tqdm", "killed")) != []


def test_each_recording_names_its_versions() -> None:
    for name in RUNS:
        versions = json.loads((RECORDED / name / "about.json").read_text())
        assert all(version[0].isdigit() for version in versions.values()), name
