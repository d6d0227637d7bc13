"""Nothing outside the roots is ever opened, and nothing that blocks."""

from __future__ import annotations

import os
import shlex
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from recovery.sources.beneath import NotThere, Refused, open_file, open_folder, show
from tests.sources.conftest import Unprivileged, open_descriptors

SETTING = "RECOVERY_LOG_ROOTS"


def opened(path: Path | str, root: Path) -> bytes:
    descriptor = open_file(str(path), roots=[str(root)], setting=SETTING)
    try:
        return os.read(descriptor, 100)
    finally:
        os.close(descriptor)


def refusal(path: Path | str, root: Path) -> Refused:
    with pytest.raises(Refused) as caught:
        opened(path, root)
    return caught.value


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file beside the root that must never be read."""
    path = tmp_path / "secret"
    path.write_text("secret")
    return path


def test_a_file_inside_the_root_is_opened(root: Path) -> None:
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "log").write_text("hello")
    assert opened(root / "a" / "b" / "log", root) == b"hello"


def test_any_of_several_roots_will_do(root: Path, tmp_path: Path) -> None:
    (root / "log").write_text("hello")
    descriptor = open_file(str(root / "log"), roots=[str(tmp_path / "other"), str(root)], setting=SETTING)
    os.close(descriptor)


def test_a_root_that_is_a_link_itself_is_meant_as_what_it_leads_to(root: Path, tmp_path: Path) -> None:
    (root / "log").write_text("hello")
    (tmp_path / "alias").symlink_to(root)
    assert opened(tmp_path / "alias" / "log", root) == b"hello"
    assert opened(root / "log", tmp_path / "alias") == b"hello"


def test_the_whole_machine_can_be_a_root(root: Path) -> None:
    (root / "log").write_text("hello")
    assert opened(root / "log", Path("/")) == b"hello"


def test_a_link_that_stays_inside_is_followed(root: Path) -> None:
    (root / "log").write_text("hello")
    (root / "latest").symlink_to("log")
    assert opened(root / "latest", root) == b"hello"


def test_a_link_out_of_the_root_is_refused_and_named(root: Path, secret: Path) -> None:
    (root / "log").symlink_to(secret)
    refused = refusal(root / "log", root)
    assert "outside the folders" in refused.sentence
    assert str(secret) in refused.sentence
    assert SETTING in refused.remedy


def test_a_linked_folder_out_of_the_root_is_refused(root: Path, tmp_path: Path, secret: Path) -> None:
    (root / "sub").symlink_to(tmp_path)
    assert "outside" in refusal(root / "sub" / secret.name, root).sentence


def test_dots_do_not_lead_out(root: Path, secret: Path) -> None:
    assert "outside" in refusal(f"{root}/../{secret.name}", root).sentence


def test_a_folder_that_only_begins_like_the_root_is_another(root: Path) -> None:
    neighbour = root.with_name(root.name + "-not")
    neighbour.mkdir()
    (neighbour / "log").write_text("secret")
    assert "outside" in refusal(neighbour / "log", root).sentence


def test_what_is_outside_is_refused_whether_it_is_there_or_not(root: Path, secret: Path) -> None:
    there, absent = refusal(secret, root), refusal(secret.with_name("absent"), root)
    assert there.sentence.replace("secret", "absent") == absent.sentence


def test_links_in_a_circle_are_refused(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    assert "link" in refusal(root / "a", root).sentence


@pytest.mark.parametrize("path", ["", "relative/log", "a\0b", "/a\0b", "/\ud800"])
def test_what_is_no_absolute_path_is_refused(path: str, root: Path) -> None:
    assert "absolute path" in refusal(path, root).sentence


def test_what_is_not_there_is_not_an_error(root: Path) -> None:
    with pytest.raises(NotThere):
        opened(root / "later", root)
    with pytest.raises(NotThere):
        opened(root / "no" / "such" / "folder", root)


def test_a_name_too_long_for_the_file_system_is_explained(root: Path) -> None:
    assert "can't be read" in refusal(root / ("x" * 5000), root).sentence


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def make_folder(path: Path) -> None:
    path.mkdir()


def make_device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero: endless
    except PermissionError:
        pytest.skip("only root may make a device")


@pytest.mark.parametrize(
    ("make", "word"),
    [(make_pipe, "a pipe"), (make_socket, "a socket"), (make_folder, "a folder"), (make_device, "a device")],
)
def test_what_is_no_regular_file_is_refused_without_waiting(
    make: Callable[[Path], None], word: str, root: Path
) -> None:
    path = root / "x"
    make(path)
    assert word in refusal(path, root).sentence


def test_a_file_is_no_folder(root: Path) -> None:
    (root / "log").write_text("hello")
    with pytest.raises(Refused, match="not a folder"):
        open_folder(str(root / "log"), roots=[str(root)], setting=SETTING)
    assert "link or a file" in refusal(root / "log" / "below", root).sentence


def test_a_file_without_read_permission_names_the_exact_command(open_root: Path, unprivileged: Unprivileged) -> None:
    path = open_root / "my log"
    path.write_text("hello")
    path.chmod(0o000)
    with unprivileged() as account:
        refused = refusal(path, open_root)
    assert refused.sentence == f"Permission denied at {path}."
    assert f"setfacl -m u:{account}:r {shlex.quote(str(path))} " in refused.remedy
    assert "chmod o+r" in refused.remedy


def test_a_closed_folder_on_the_way_is_the_one_that_the_remedy_names(
    open_root: Path, unprivileged: Unprivileged
) -> None:
    closed = open_root / "home"
    (closed / "deep").mkdir(parents=True)
    (closed / "deep" / "log").write_text("hello")
    closed.chmod(0o700)
    if os.geteuid() != 0:
        closed.chmod(0o000)
    with unprivileged() as account:
        refused = refusal(closed / "deep" / "log", open_root)
    closed.chmod(0o700)
    assert refused.sentence == f"Permission denied at {closed} on the way to {closed / 'deep' / 'log'}."
    assert f"setfacl -m u:{account}:x {closed} " in refused.remedy


def test_a_folder_that_can_be_entered_but_not_listed_is_no_obstacle(
    open_root: Path, unprivileged: Unprivileged
) -> None:
    folder = open_root / "home"
    folder.mkdir()
    (folder / "log").write_text("hello")
    folder.chmod(0o711)
    with unprivileged():
        assert opened(folder / "log", open_root) == b"hello"


def test_a_folder_swapped_for_a_link_after_the_check_leads_nowhere(
    root: Path, tmp_path: Path, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The race of check and use: the path is swapped in the very moment between."""
    (root / "sub").mkdir()
    (root / "sub" / secret.name).write_text("harmless")
    resolve = os.path.realpath

    def resolve_then_swap(path: str) -> str:
        resolved = resolve(path)
        if path.endswith(secret.name):
            (root / "sub").rename(root / "old")
            (root / "sub").symlink_to(tmp_path)
        return resolved

    monkeypatch.setattr(os.path, "realpath", resolve_then_swap)
    assert "link" in refusal(root / "sub" / secret.name, root).sentence


def test_a_file_swapped_for_a_link_or_a_pipe_after_the_look_is_not_opened(
    root: Path, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = root / "log"
    look = os.stat

    def swap_after_look(replacement: Callable[[], None]) -> None:
        log.unlink(missing_ok=True)
        log.write_text("harmless")

        def look_then_swap(path: str, *, dir_fd: int, follow_symlinks: bool) -> os.stat_result:
            info = look(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
            log.unlink()
            replacement()
            return info

        monkeypatch.setattr(os, "stat", look_then_swap)
        refused = refusal(log, root)
        monkeypatch.setattr(os, "stat", look)
        assert "not opened" in refused.sentence

    swap_after_look(lambda: log.symlink_to(secret))
    swap_after_look(lambda: os.mkfifo(log))


def test_no_descriptor_is_left_open(root: Path) -> None:
    (root / "a").mkdir()
    (root / "a" / "log").write_text("hello")
    os.mkfifo(root / "a" / "pipe")
    before = open_descriptors()
    for _ in range(50):
        opened(root / "a" / "log", root)
        refusal(root / "a" / "pipe", root)
        refusal("/etc/passwd", root)
        with pytest.raises(NotThere):
            opened(root / "a" / "absent", root)
    assert open_descriptors() == before


@pytest.mark.parametrize(
    ("path", "shown"), [("/a\x1b[31mb", "/a?[31mb"), ("/x\udcff", "/x?"), ("/" + "a" * 500, "…" + "a" * 109)]
)
def test_a_path_in_a_sentence_is_harmless_and_short(path: str, shown: str) -> None:
    assert show(path) == shown
