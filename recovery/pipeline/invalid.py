from __future__ import annotations


class Invalid(Exception):
    """Input that can't be accepted; `errors` are sentences that name the field and the remedy."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__(" ".join(errors))
        self.errors = errors
