"""A real browser on the real web server. What a page's console complains of fails the test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests import daemons, needs
from tests.daemons import Daemon

if TYPE_CHECKING:
    from django.contrib.auth.models import User

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
]
PATIENCE_MS = 20_000  # of every wait for something to appear: a busy machine is slow, not wrong
WIDE, PHONE = (1440, 900), (360, 780)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The system's Chromium. Mark the test `browser`."""
    with sync_playwright() as playwright, pytest.MonkeyPatch.context() as patch:
        # Playwright's event loop belongs to this thread from now on; the tests' own queries are not made within it
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        expect.set_options(timeout=PATIENCE_MS)
        browser = playwright.chromium.launch(executable_path=needs.browser(), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def web_server(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a web server on the tests' own database."""
    from django.conf import settings  # noqa: PLC0415 - this module is loaded before Django is set up

    from tests.services import database_url  # noqa: PLC0415 - likewise

    folder = tmp_path_factory.mktemp("web")
    port = daemons.free_port()
    env = {
        "DATABASE_URL": database_url(),
        "RECOVERY_DATA_DIR": str(folder),
        "RECOVERY_DEBUG": "true",
        "RECOVERY_SECRET_KEY": settings.SECRET_KEY,  # sessions that a test makes hold at the server
    }
    server = web_daemon(folder, port=port, env=env)
    server.start()
    yield f"http://127.0.0.1:{port}"
    server.stop()


def web_daemon(folder: Path, *, port: int, env: dict[str, str]) -> Daemon:
    command = [sys.executable, "-m", "uvicorn", "recovery.asgi:application", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--timeout-graceful-shutdown", "2", "--log-level", "warning"]
    return Daemon(command, log=folder / "web.log", ready=lambda: _answers(port), env=env)


def _answers(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/login/", timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


@dataclass(kw_only=True)
class Visitor:
    """Opens pages as different people; remembers what the browser complained of."""

    browser: Browser
    url: str
    pages: list[Page] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)  # parts of complaints that the test itself provokes

    def __call__(
        self,
        user: User | None,
        *,
        size: tuple[int, int] = WIDE,
        theme: str = "light",
        javascript: bool = True,
        zone: str = "UTC",
    ) -> Page:
        """A page of that user's own browser session, logged in already."""
        context = self.browser.new_context(
            base_url=self.url,
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if theme == "dark" else "light",
            java_script_enabled=javascript,
            timezone_id=zone,
            reduced_motion="reduce",
        )
        context.set_default_timeout(PATIENCE_MS)
        if user is not None:
            context.add_cookies([{"name": "sessionid", "value": session_of(user), "url": self.url}])
        page = context.new_page()
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.pages.append(page)
        return page

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(text)

    def leave(self) -> list[str]:
        """Close everything; what was complained of and not provoked by the test."""
        for page in self.pages:
            page.context.close()
        return [text for text in self.complaints if not any(part in text for part in self.expected)]


def session_of(user: Any) -> str:
    from django.test import Client  # noqa: PLC0415 - this module is loaded before Django is set up

    client = Client()
    client.force_login(user)
    return client.cookies["sessionid"].value


@pytest.fixture
def visit(browser: Browser, web_server: str, transactional_db: None) -> Iterator[Visitor]:
    """`visit(user, size=PHONE, theme="dark")` gives a page. Mark the test `browser`."""
    visitor = Visitor(browser=browser, url=web_server)
    yield visitor
    complaints = visitor.leave()
    assert not complaints, complaints
