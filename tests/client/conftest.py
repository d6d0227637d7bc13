from __future__ import annotations

from collections.abc import Iterator

import pytest

from recovery.client import recovery_desk_client as module


@pytest.fixture(autouse=True)
def _no_client_outlives_its_test() -> Iterator[None]:
    """One that has rows left for a desk that is gone would hold up the end of the whole session by its last try."""
    yield
    for client in list(module._all):
        client.close(0)
