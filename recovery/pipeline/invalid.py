from __future__ import annotations


class Invalid(Exception):
    """Input that can't be accepted; `errors` are sentences that name the field and the remedy."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__(" ".join(errors))
        self.errors = errors


def needs_reason(reason: str) -> str:
    """What somebody gave as their reason. Raises Invalid where it is empty."""
    if not reason.strip():
        raise Invalid(["reason: say why; it stands in the audit trail."])
    return reason.strip()
