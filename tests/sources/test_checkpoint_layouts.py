"""What all layouts promise: whole is whole, damaged is never whole, and nothing is opened that must not be."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryFile

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recovery.core.types import CheckpointState
from recovery.slurm.simulator.effects import Effect, EffectKind, carry_out
from recovery.slurm.simulator.spec import Trainer
from recovery.sources.checkpoints import scan_checkpoints
from recovery.sources.checkpoints.ends import MOST_INDEX, Kind, read_ends
from recovery.sources.checkpoints.listing import MOST_INSIDE
from tests.sources.folders import scan
from tests.sources.trainer_folders import TRAINERS, Build, put, tensors

COMPLETE = CheckpointState.COMPLETE
STEPS = (100, 200, 300)
# Of Orbax: the sign of the commit is there twice, and values have no form of their own.
PROVEN_OTHERWISE = ("commit_success.txt", "_CHECKPOINT_METADATA", f"{301:032x}")


@pytest.fixture(params=list(TRAINERS.values()), ids=list(TRAINERS))
def build(request: pytest.FixtureRequest) -> Build:
    build: Build = request.param
    return build


@pytest.fixture
def run(root: Path) -> Path:
    path = root / "run"
    path.mkdir()
    return path


def states(run: Path) -> dict[int, CheckpointState]:
    got = scan(run)
    assert got.error == ""
    return {each.step: each.state for each in got.looks}


def test_three_whole_checkpoints_are_complete(run: Path, build: Build) -> None:
    paths = [build(run, step) for step in STEPS]
    got = scan(run)
    assert [(each.step, each.path, each.state, each.detail) for each in got.looks] == [
        (step, str(path), COMPLETE, "") for step, path in zip(STEPS, paths, strict=True)
    ]
    assert got.whole


def test_a_single_whole_checkpoint_is_complete(run: Path, build: Build) -> None:
    build(run, 5)
    assert states(run) == {5: COMPLETE}


def test_an_empty_folder_of_that_name_is_not_complete(run: Path, build: Build) -> None:
    path = build(run, 100)
    for file in files(run, path):
        file.unlink()
    path.mkdir(exist_ok=True)
    assert states(run).get(100) is not COMPLETE


def files(run: Path, checkpoint: Path) -> list[Path]:
    """All that belongs to the newest checkpoint, trackers in the run's folder included."""
    if checkpoint.is_dir():
        own = [path for path in checkpoint.rglob("*") if path.is_file()]
        return sorted([*own, *(path for path in (run / "latest",) if path.exists())])
    stem = checkpoint.name.removesuffix("-rank0.pt")
    return sorted(path for path in run.iterdir() if path.name.startswith(stem))


def test_whatever_is_cut_or_lost_the_checkpoint_never_reads_as_complete(run: Path, build: Build) -> None:
    newest = [build(run, step) for step in STEPS][-1]
    victims = [path for path in files(run, newest) if path.name not in PROVEN_OTHERWISE]

    @given(victim=st.sampled_from(victims), part=st.none() | st.floats(0, 1, exclude_max=True))
    @settings(max_examples=30, deadline=None)
    def damage(victim: Path, part: float | None) -> None:
        content = victim.read_bytes()
        if part is None and victim.parent.match("ocdbt.process_*/d"):
            return  # a small one of many: by no name, and by no size
        if part is None:
            victim.unlink()
        elif victim.name == "latest":  # what is left of a name can be another name
            victim.write_bytes(b"")
        else:
            victim.write_bytes(content[: int(part * len(content))])
        got = scan(run)
        victim.write_bytes(content)
        assert not any(each.step == 300 and each.state is COMPLETE for each in got.looks), (victim, part)
        if victim.parent != run or victim.name != "latest":
            assert [each.state for each in got.looks if each.step < 300] == [COMPLETE, COMPLETE]

    damage()


def test_a_cut_off_checkpoint_that_is_not_the_newest_is_torn(run: Path, build: Build) -> None:
    first, *_ = [build(run, step) for step in STEPS]
    victim = next(path for path in files(run, first) if path.name not in ("latest", "commit_success.txt"))
    os.truncate(victim, 0)
    assert states(run)[100] is CheckpointState.TORN


def test_a_file_that_is_a_link_is_not_followed(run: Path, build: Build) -> None:
    path = build(run, 100)
    victim = next(
        file for file in files(run, path) if file.suffix in (".pt", ".distcp", ".ckpt", ".safetensors", ".ocdbt")
    )
    kept = run.parent / "kept"
    victim.rename(kept)
    victim.symlink_to(kept)
    (each,) = (each for each in scan(run).looks if each.step == 100)
    assert each.state is CheckpointState.UNKNOWN
    assert "link" in each.detail or "folder" in each.detail


def test_what_settled_is_opened_again_only_when_it_has_changed(run: Path) -> None:
    folder = TRAINERS["huggingface"](run, 5)
    (look,) = scan(run).looks
    weights = folder / "model-00001-of-00003.safetensors"
    info = weights.stat()
    weights.write_bytes(b"\0" * info.st_size)  # nothing that a fingerprint shows
    os.utime(weights, ns=(info.st_atime_ns, info.st_mtime_ns))
    again = scan_checkpoints(str(run), roots=[str(run)], settled={look.path: look.fingerprint})
    assert [each.state for each in again.looks] == [COMPLETE]
    os.utime(weights)
    again = scan_checkpoints(str(run), roots=[str(run)], settled={look.path: look.fingerprint})
    assert [each.state for each in again.looks] == [CheckpointState.TORN]


def test_reading_is_bounded_however_many_and_large_the_files_are(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = TRAINERS["huggingface"](run, 5)
    for number in range(200):
        put(folder / f"rng_state_{number}.pth", b"PK\3\4")
    with (folder / "optimizer.pt").open("r+b") as file:
        file.truncate(1 << 40)
    asked: list[int] = []
    opened: list[str] = []
    pread, open_ = os.pread, os.open

    def counted_read(descriptor: int, length: int, offset: int) -> bytes:
        asked.append(length)
        return pread(descriptor, length, offset)

    def counted_open(path: str, flags: int, *, dir_fd: int | None = None) -> int:
        opened.append(path)
        return open_(path, flags, dir_fd=dir_fd)

    monkeypatch.setattr(os, "pread", counted_read)
    monkeypatch.setattr(os, "open", counted_open)
    scan(run)
    assert MOST_INSIDE <= len(opened) < MOST_INSIDE + 20
    assert sum(asked) < 3 * MOST_INDEX


@pytest.mark.parametrize("header", [b"\xff" * 8, (1 << 40).to_bytes(8, "little"), b"", b"\1"])
def test_a_header_that_lies_about_its_length_is_torn(header: bytes, run: Path) -> None:
    folder = TRAINERS["huggingface"](run, 5)
    put(folder / "model-00002-of-00003.safetensors", header + tensors()[8:])
    assert states(run)[5] is CheckpointState.TORN


_BEGINNINGS = (b"PK\3\4", b"\x80\4\x95", b"\x0c\xdb\x3a\x2a", b"\x0c\xdb\x20\xde", b"{", b"")
_NUMBERS = st.sampled_from([0, 1, 30, 2**31, 2**63 - 12, 2**63, 2**64 - 1]).map(
    lambda number: number.to_bytes(8, "little")
)
_ENDINGS = st.sampled_from([b"", b".", b"}", b"PK\5\6" + b"\xff" * 18, b"PK\5\6" + b"\0" * 18])


@given(
    st.sampled_from(Kind), st.sampled_from(_BEGINNINGS), st.lists(_NUMBERS | st.binary(max_size=20)), _ENDINGS,
    st.integers(-3, 50),
)  # fmt: skip
@example(Kind.METADATA, b"\x80\4\x95", [b"\xff" * 8], b".", 0)
def test_whatever_a_file_holds_it_is_judged(
    kind: Kind, begin: bytes, pieces: list[bytes], end: bytes, grew: int
) -> None:
    data = begin + b"".join(pieces) + end
    with TemporaryFile() as file:
        file.write(data)
        file.flush()
        (state, why), _ = read_ends(file.fileno(), max(0, len(data) + grew), kind)
    assert (state is COMPLETE) is (why == "")


@pytest.mark.parametrize("simulated", Trainer, ids=str)
def test_what_the_simulated_trainers_write_is_read(root: Path, simulated: Trainer) -> None:
    def save(kind: EffectKind, step: int) -> CheckpointState | None:
        carry_out([Effect(kind=kind, path="run", step=step, shards=4, trainer=simulated)], root)
        shown = step - 1 if simulated is Trainer.NEMO else step  # NeMo counts from 0
        return states(root / "run").get(shown)

    assert save(EffectKind.SAVE_BEGIN, 10) is CheckpointState.ANNOUNCED
    assert save(EffectKind.SAVE_END, 10) is COMPLETE
    assert save(EffectKind.SAVE_TORN, 20) in (CheckpointState.TORN, CheckpointState.ANNOUNCED)
    assert save(EffectKind.SAVE_END, 30) is COMPLETE
    shown = 19 if simulated is Trainer.NEMO else 20
    assert states(root / "run")[shown] is CheckpointState.TORN
