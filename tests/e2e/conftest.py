from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import Browser, ConsoleMessage, Page

from recovery.demo.lab import SlurmLab
from recovery.demo.lab_conf import LabError
from recovery.demo.processes import wait_until
from recovery.models import Incident
from recovery.pipeline.report import incident_report
from tests import ledger_balance
from tests.daemons import Daemon
from tests.e2e.site import Site

PASSWORD = "correct horse battery"
FIGURES = pytest.StashKey[list[dict[str, Any]]]()


@pytest.fixture
def site(
    slurm_lab: SlurmLab, transactional_db: None, redis_server: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Site]:
    """The product beside the lab, not started yet. After the test every ledger balances, and the lab is idle again."""
    tmp_path.chmod(0o755)
    site = Site(lab=slurm_lab, folder=tmp_path, redis_url=redis_server)
    yield site
    site.stop()
    ledger_balance.assert_all_balanced(f"real Slurm, {request.node.name}", now=site.now)
    _tidy(slurm_lab)


@pytest.fixture
def stormy(site: Site, own_redis: tuple[Daemon, str]) -> Site:
    """A site that acts by itself, with a Redis of its own that may be broken."""
    site.redis_url = own_redis[1]
    site.policy(gpu_hardware="auto")
    site.connect()
    return site


def _tidy(lab: SlurmLab) -> None:
    with contextlib.suppress(LabError):
        lab.run("scancel", "--user=root")
    for name in lab.node_names:
        if "down" in lab.run("sinfo", "-h", "-n", name, "-o", "%T"):
            lab.start_node(name)
    idle = wait_until(lambda: set(lab.run("sinfo", "-h", "-o", "%T").split()) == {"idle"}, timeout_s=30)
    assert idle, lab.run("sinfo")


@pytest.fixture
def log_in(browser: Browser, site: Site) -> Iterator[Callable[[Any], Page]]:
    """`log_in(user)`: a page of that user's own browser session. Script errors and blocked content fail it."""
    pages: list[Page] = []
    problems: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text:
            problems.append(message.text)

    def enter(user: Any) -> Page:
        user.set_password(PASSWORD)
        user.save()
        page = browser.new_context().new_page()
        page.on("console", note)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(f"{site.url}/login/")
        page.get_by_label("Name").fill(user.username)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(f"{site.url}/")
        pages.append(page)
        return page

    yield enter
    for page in pages:
        page.context.close()
    assert not problems


@pytest.fixture
def figures(site: Site, request: pytest.FixtureRequest) -> Iterator[None]:
    """Notes the clocks of the test's incident; they are printed at the end of the run."""
    yield
    incident = Incident.objects.last()
    if incident is None:
        return
    report = incident_report(incident, now=timezone.now())
    seconds = {
        "scenario": request.node.name,
        "fault → detection": report.detect_s,
        "→ recommendation": report.recommend_s,
        "→ decision": report.decide_s,
        "→ action": report.act_s,
        "→ restore": report.restore_s,
        "→ next checkpoint": report.next_checkpoint_s,
        "total": report.total_s,
        "steps lost": report.steps_lost,
    }
    request.config.stash.setdefault(FIGURES, []).append(seconds)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for row in config.stash.get(FIGURES, []):
        rounded = {name: round(value, 1) if isinstance(value, float) else value for name, value in row.items()}
        terminalreporter.write_line(f"measured on real Slurm, in seconds: {json.dumps(rounded, ensure_ascii=False)}")
