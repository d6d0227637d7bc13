"""The stage of `make demo-slurm`: a real Slurm that is found again, and jobs that go on where they were."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from recovery.demo import lab_host, slurm_scene
from recovery.demo.lab import SlurmLab
from recovery.demo.processes import wait_until
from recovery.demo.scenes import SceneError
from recovery.demo.slurm_scene import RealSlurm, hint_of, lab_folder, newest_step, node_of
from tests.daemons import short_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short, since Slurm lives there; and whatever happens, nothing of Slurm runs afterwards."""
    with short_folder() as made:
        made.chmod(0o755)
        yield made
        if (made / "lab" / "lab.json").exists():
            SlurmLab.existing(made / "lab").wipe()


def test_a_folder_in_which_slurm_could_not_live_gets_its_lab_elsewhere(tmp_path: Path) -> None:
    assert lab_folder(Path("/srv/desk")) == Path("/srv/desk/lab")
    elsewhere = lab_folder(tmp_path / "a folder with blanks")
    assert " " not in str(elsewhere)
    assert elsewhere == lab_folder(tmp_path / "a folder with blanks")


def test_in_a_private_home_the_lab_is_elsewhere(folder: Path) -> None:
    assert lab_folder(folder / "home" / "desk") == folder / "home" / "desk" / "lab"
    (folder / "home").mkdir(mode=0o700)
    assert folder not in lab_folder(folder / "home" / "desk").parents


@pytest.mark.parametrize(("text", "step"), [("120\n", 120), ("", 0), ("release", 0), (None, 0)])
def test_a_run_goes_on_from_what_its_tracker_file_names(tmp_path: Path, text: str | None, step: int) -> None:
    if text is not None:
        (tmp_path / "latest_checkpointed_iteration.txt").write_text(text)
    assert newest_step(tmp_path) == step


def test_a_machine_without_slurm_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_host, "SEARCH_PATH", "/nowhere")
    with pytest.raises(SceneError, match="apt-get install"):
        RealSlurm(tmp_path).up(lambda _: None)


@pytest.mark.slurm
def test_jobs_train_survive_a_killed_demo_and_go_on_after_a_stop(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_scene, "SAVE_EVERY", 4)
    said: list[str] = []
    first = RealSlurm(folder)
    stage = first.up(said.append)
    assert said[-1] == "4 jobs submitted"
    lab = SlurmLab.existing(folder / "lab")
    assert stage.options == {"slurm_conf": str(lab.conf)}
    saved = folder / "ckpt" / "moe-8x22b"
    assert wait_until(lambda: newest_step(saved) >= 4, timeout_s=40)

    again = RealSlurm(folder)  # the one before was killed: everything still runs
    again.up(said.append)
    assert said[-1] == "0 jobs submitted"

    again.down()
    step = newest_step(saved)
    third = RealSlurm(folder)
    third.up(said.append)
    assert said[-1] == "4 jobs submitted"
    assert wait_until(lambda: newest_step(saved) > step, timeout_s=40)
    third.down()


@pytest.mark.slurm
def test_the_unlucky_team_loses_its_node_and_the_node_comes_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_scene, "POWER_CUT_S", 0.0)
    monkeypatch.setattr(slurm_scene, "NODE_BACK_S", 0.0)
    scene = RealSlurm(folder)
    scene.up(lambda _: None)
    lab = SlurmLab.existing(folder / "lab")
    assert wait_until(lambda: bool(node_of(lab, slurm_scene.UNLUCKY)), timeout_s=20)
    node = node_of(lab, slurm_scene.UNLUCKY)
    slurmd = f"slurmd.{node} "

    def is_down() -> bool:
        return any(line.startswith(slurmd) and "not running" in line for line in lab.status())

    scene.go_on()
    assert is_down() or not any(line.startswith(slurmd) for line in lab.status())
    scene.go_on()
    assert any(line.startswith(slurmd) and "not running" not in line for line in lab.status())
    scene.down()


def test_what_the_demo_says_to_type_runs_as_it_stands(tmp_path: Path) -> None:
    spoken = hint_of(tmp_path / "my lab").splitlines()[-1]
    command = shlex.split(spoken.partition(": ")[2])
    assert command[-2:] == [str(tmp_path / "my lab"), "n3"]
    done = subprocess.run([*command[:3], "--help"], capture_output=True, text=True, check=True)
    assert "crash-node" in done.stdout
