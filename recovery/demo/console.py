"""What the person at the terminal sees of a start: steps with their time, the programs' lines, a box at the end."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

COLOURS = {"broker": "35", "worker": "36", "beat": "33", "web": "32"}


class Console:
    """Plain lines where the output is no terminal or NO_COLOR is set."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._is_terminal = self._stream.isatty()
        self._coloured = self._is_terminal and not os.environ.get("NO_COLOR")

    def say(self, text: str = "") -> None:
        print(text, file=self._stream, flush=True)

    @contextmanager
    def step(self, what: str) -> Iterator[list[str]]:
        """Show what is being done, then that it is done, how long it took, and whatever the block appends."""
        began = time.monotonic()
        found: list[str] = []
        if self._is_terminal:
            print(f"  … {what}", end="", file=self._stream, flush=True)
        done = False
        try:
            yield found
            done = True
        finally:
            mark = self._paint("✓", "32") if done else self._paint("✕", "31")
            start = "\r" if self._is_terminal else ""
            words = "".join(f", {item}" for item in found)
            print(f"{start}  {mark} {what}{words} ({time.monotonic() - began:.1f} s)", file=self._stream, flush=True)

    def line(self, program: str, text: str) -> None:
        """One line that a program wrote."""
        self.say(f"{self._paint(f'{program:>6} │', COLOURS.get(program, '0'))} {text}")

    def box(self, lines: Sequence[str]) -> None:
        width = max(len(line) for line in lines)
        self.say(f"╭{'─' * (width + 4)}╮")
        for line in lines:
            self.say(f"│  {line:<{width}}  │")
        self.say(f"╰{'─' * (width + 4)}╯")

    def _paint(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._coloured else text
