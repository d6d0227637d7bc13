"""`make test-newslurm`: what it says and does where the newer Slurm can't be had, or can't be built."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.newslurm import __main__ as newslurm
from tests.newslurm import host, recipe
from tests.newslurm.chroot import BuildError, Chroot

NEWEST, OLDER = recipe.EDITIONS


@pytest.mark.parametrize(
    ("ci", "for_good", "code"), [("true", False, 1), ("true", True, 0), ("", False, 0), ("", True, 0)]
)
def test_leaving_it_out_is_a_failure_in_ci_only_where_it_could_be_had(
    ci: str, for_good: bool, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CI", ci)
    assert newslurm.leave_out(NEWEST, host.Obstacle(words="no mirror", for_good=for_good)) == code
    assert capsys.readouterr().out.splitlines() == [
        "Left out: newslurm (the back ends on Slurm 26.05, with pyslurm): no mirror"
    ]


def test_without_root_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    obstacle = host.obstacle(NEWEST, built=False)
    assert obstacle is not None
    assert obstacle.for_good
    assert "root" in obstacle.words


def test_the_mirror_is_the_one_of_the_machines_own_release() -> None:
    targets = "http://a.test/security/ stable-security main\nhttp://a.test/debian/ stable contrib\n"
    assert host.mirror_of(targets, "stable") == ""
    assert host.mirror_of(targets + "http://a.test/debian/ stable main\n", "stable") == "http://a.test/debian"


def test_pip_reaches_its_index_in_the_chroot_as_it_does_outside() -> None:
    config = (
        "global.index-url='https://index.test/simple'\n"
        "global.extra-index-url='file:///srv/simple\\nhttps://more.test/simple'\n"
        ":env:.find-links='/srv/wheels'\nglobal.cert='/etc/own.pem'\nglobal.trusted-host='index.test'\n"
    )
    assert host.pip_settings_of(config) == {
        "PIP_INDEX_URL": "https://index.test/simple",
        "PIP_EXTRA_INDEX_URL": "https://more.test/simple",
        "PIP_TRUSTED_HOST": "index.test",
    }


def test_a_layer_is_made_anew_when_what_it_is_made_from_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    before = recipe.digests(NEWEST)
    assert len(set(before.values())) == 3
    monkeypatch.setattr(recipe, "PYSLURM", "something else")
    after = recipe.digests(NEWEST)
    assert [layer for layer in before if after[layer] != before[layer]] == ["pyslurm"]
    monkeypatch.setattr(recipe, "PACKAGES", ("another",))
    assert not set(recipe.digests(NEWEST).values()) & {*before.values(), *after.values()}


def test_each_release_has_a_chroot_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert newslurm.chosen([]) == (NEWEST, [])
    assert newslurm.chosen(["--release", "24.11", "enter", "true"]) == (OLDER, ["enter", "true"])
    assert host.cache_folder(NEWEST) != host.cache_folder(OLDER)
    assert not set(recipe.digests(NEWEST).values()) & set(recipe.digests(OLDER).values())
    with pytest.raises(SystemExit, match=r"one of 26\.05, 24\.11"):
        newslurm.chosen(["--release", "21.08"])


def test_a_build_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """mmdebstrap here makes half a root, and gives up."""
    tools = tmp_path / "tools"
    tools.mkdir()
    stub = tools / "mmdebstrap"
    stub.write_text(f'#!/bin/sh\nmkdir -p "{tmp_path}/cache/root.draft/etc"; echo "no such suite" >&2; exit 7\n')
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    monkeypatch.setattr(host, "ENCLOSED", ())
    monkeypatch.setattr(host, "mirror", lambda: "http://a.test/debian")
    chroot = Chroot(tmp_path / "cache", NEWEST)
    with pytest.raises(BuildError, match="ended with 7:\nno such suite"):
        chroot.build()
    assert not chroot.is_complete()
    assert sorted(path.name for path in chroot.folder.iterdir()) == ["lock", "root.log"]


@pytest.mark.parametrize(
    ("code", "closing", "good"),
    [
        (0, "97 passed in 60.00s (0:01:00)", True),
        (0, "96 passed, 1 skipped in 60.00s (0:01:00)", False),
        (0, "no tests ran in 0.01s", False),
        (1, "1 failed, 96 passed in 60.00s (0:01:00)", False),
    ],
)
def test_only_a_run_that_passed_whole_has_passed(code: int, closing: str, good: bool, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(f"....\n{closing}\n")
    process = subprocess.Popen([sys.executable, "-c", f"raise SystemExit({code})"])
    process.wait()
    assert newslurm.Run(name="cli", release="26.05", process=process, log=log).verdict()[0] is good
