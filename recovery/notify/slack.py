"""A message for Slack's incoming webhooks, and for those that understand the same (Mattermost, Rocket.Chat, …)."""

from __future__ import annotations

import json
from datetime import datetime

from recovery.core.notices import Message
from recovery.notify.base import Address, link
from recovery.notify.post import post

MOST_CHARS = 2900  # of one section; Slack takes 3,000


def send(message: Message, address: Address, *, now: datetime) -> None:
    """Raises NotSent."""
    post(address, json.dumps(payload(message, address), ensure_ascii=False).encode(), headers={})


def payload(message: Message, address: Address) -> dict[str, object]:
    """The message as blocks, with a plain text for where those aren't shown."""
    title = escaped(message.title)
    text = "\n".join(escaped(line) for line in message.lines)[:MOST_CHARS]
    where = f" · {escaped(message.cluster)}" if message.cluster else ""
    open_it = f"<{link(message, address)}|Open in Recovery Desk>"
    return {
        "text": f"{title}: {escaped(message.lines[0]) if message.lines else ''}"[:MOST_CHARS],
        "blocks": [
            {"type": "section", "text": {"type": "mrkdwn", "text": f"*{title}*{where}\n{text}"}},
            {
                "type": "section",
                "text": {"type": "mrkdwn", "text": open_it},
            },
        ],
    }


def escaped(text: str) -> str:
    """What a job or a person wrote makes no link, no mention and no formatting that hides something."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
