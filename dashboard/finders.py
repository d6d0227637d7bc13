"""Serves plotly.js from the plotly package: nothing of it is committed, and no CDN is asked."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import plotly
from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage

FOLDER = Path(plotly.__file__).parent / "package_data"
NAME = "plotly.min.js"


class PlotlyFinder(BaseFinder):
    """Finds exactly one file, `plotly.min.js`."""

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:
        if path != NAME:
            return []
        found = str(FOLDER / NAME)
        return [found] if find_all else found

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterable[Any]:
        yield NAME, FileSystemStorage(location=str(FOLDER))

    def check(self, **kwargs: Any) -> Any:
        return []
