"""A scenario file that asks for the impossible is refused in words: nothing crashes, nothing runs for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from recovery.simulation.reading import BadScenario, read_file

SMALL = 'title = "x"\nfor_s = 60\n'


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "[" * 5000 + "]" * 5000,
        '[[job]]\nname = "a"\nat_s = nan',
        '[[job]]\nname = "a"\nat_s = inf',
        '[[job]]\nname = "a"\nat_s = -1e300',
        '[[job]]\nname = "a"\nresumes_at = -5',
        '[[job]]\nname = "a"\nresumes_at = 10000000000000000000000',
        '[[job]]\nname = "a"\njob_id = "../x"',
        '[[job]]\nname = "a"\nshards = 100000000',
        "[desk]\npoll_s = 0",
        "[desk]\npoll_s = 1e-9",
        "[cluster]\nfirst_job_id = 0\nmax_job_id = 0",
    ],
    ids=lambda text: text[:60],
)
def test_what_is_out_of_measure_is_said(tmp_path: Path, text: str) -> None:
    file = tmp_path / "hostile.toml"
    file.write_text(SMALL + text)
    with pytest.raises(BadScenario):
        read_file(file)


def test_a_file_without_an_end_is_too_long() -> None:
    with pytest.raises(BadScenario, match="more than"):
        read_file(Path("/dev/zero"))
