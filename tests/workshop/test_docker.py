"""What can be said of the container files without an engine that runs them."""

from __future__ import annotations

import importlib.util
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.workshop.settings_names import variables

TOP = Path(__file__).parents[2]
DOCKER = TOP / "docker"
DESK = ("migrate", "web", "worker", "beat")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))
    return loaded


@pytest.fixture(scope="module")
def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions in order, continued lines joined, comments dropped."""
    text = re.sub(r"^#.*\n", "", (DOCKER / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = re.sub(r"\\\n", " ", text).splitlines()
    return [(word, rest.strip()) for line in lines if line.strip() for word, _, rest in [line.strip().partition(" ")]]


def known(name: str) -> bool:
    return name.removesuffix("_FILE") in variables()


def test_compose_names_only_variables_that_the_settings_read(compose: dict[str, Any]) -> None:
    for service in DESK:
        assert [name for name in compose["services"][service]["environment"] if not known(name)] == []


def test_compose_sets_every_variable_that_a_site_may_want_to_change(compose: dict[str, Any]) -> None:
    set_here = {name.removesuffix("_FILE") for name in compose["services"]["web"]["environment"]}
    fixed_by_the_image = {"RECOVERY_DEBUG", "RECOVERY_DATA_DIR"}
    assert set_here | fixed_by_the_image == set(variables())


def test_defaults_in_compose_are_those_of_the_settings(compose: dict[str, Any]) -> None:
    for name, value in compose["services"]["web"]["environment"].items():
        given = re.fullmatch(r"\$\{(\w+):-(.*)\}", str(value))
        if given and known(name) and variables()[name].kind == "env_float":
            assert float(given[2]) == float(variables()[name].default), name


def test_every_variable_in_compose_is_explained() -> None:
    text = (DOCKER / "compose.yaml").read_text(encoding="utf-8")
    environment = text[text.index("  environment:\n") : text.index("  secrets: [")]
    plain = ("RECOVERY_ALLOWED_HOSTS", "RECOVERY_LOG_LEVEL", "RECOVERY_LOG_ROOTS", "RECOVERY_CHECKPOINT_ROOTS")
    for line in environment.splitlines():
        name = line.strip().partition(":")[0]
        if known(name) and name not in plain:
            assert " # " in line, line


@pytest.mark.parametrize("service", DESK)
def test_our_containers_run_without_root_without_rights_and_without_writing(
    compose: dict[str, Any], service: str
) -> None:
    made = compose["services"][service]
    assert made["user"] == "${DESK_UID:-10001}:${DESK_GID:-10001}"
    assert made["read_only"] is True
    assert made["cap_drop"] == ["ALL"]
    assert made["security_opt"] == ["no-new-privileges:true"]
    assert all(str(volume).endswith(":ro") for volume in made["volumes"])


def test_secrets_are_files_never_values(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for name, value in service.get("environment", {}).items():
            if re.search("SECRET|PASSWORD|DATABASE_URL", name) and not name.endswith("_PATH"):
                assert name.endswith("_FILE"), name
                assert Path(value).name in service["secrets"]
    assert set(compose["secrets"]) == {"secret_key", "database_url", "postgres_password"}


def test_the_web_port_is_open_on_loopback_alone(compose: dict[str, Any]) -> None:
    published = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert published == ["127.0.0.1:${WEB_PORT:-8000}:8000"]


def test_nothing_starts_before_the_tables_are_up_to_date(compose: dict[str, Any]) -> None:
    for service in ("web", "worker", "beat"):
        needs = compose["services"][service]["depends_on"]
        assert needs["migrate"] == {"condition": "service_completed_successfully"}


def test_sources_that_the_image_copies_exist_and_reach_the_builder(instructions: list[tuple[str, str]]) -> None:
    ignored = (TOP / ".dockerignore").read_text(encoding="utf-8").splitlines()
    sources = [
        word for name, rest in instructions if name == "COPY" and "--from" not in rest for word in rest.split()[:-1]
    ]
    assert sources
    for source in sources:
        assert (TOP / source).exists(), source
        assert f"!{source.rstrip('/')}" in ignored, source


def test_the_last_stage_is_not_root_and_is_watched(instructions: list[tuple[str, str]]) -> None:
    last = instructions[max(index for index, (name, _) in enumerate(instructions) if name == "FROM") :]
    assert [rest for name, rest in last if name == "USER"] == ["10001:10001"]
    assert [name for name, _ in last][-2:] == ["HEALTHCHECK", "CMD"]


def test_the_base_is_named_once_by_an_argument(instructions: list[tuple[str, str]]) -> None:
    assert [rest for name, rest in instructions if name == "FROM"] == ["${BASE} AS build", "${BASE}"]


# --- the health check ------------------------------------------------------------------------------------------------


@pytest.fixture
def healthcheck(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("healthcheck", DOCKER / "healthcheck.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setenv("RECOVERY_ALLOWED_HOSTS", " .example.org, other")
    return module


@pytest.fixture
def server() -> Iterator[tuple[HTTPServer, list[dict[str, str]]]]:
    """Answers 200, or 503 once `server.ill` is set; remembers the headers of what it was asked."""
    asked: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(dict(self.headers))
            self.send_response(503 if getattr(self.server, "ill", False) else 200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made, asked
        made.shutdown()
        thread.join()


def test_a_web_server_that_is_well_is_healthy_asked_as_its_proxy_would(
    healthcheck: ModuleType, server: tuple[HTTPServer, list[dict[str, str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, asked = server
    monkeypatch.setattr(healthcheck, "URL", f"http://127.0.0.1:{made.server_port}/")
    assert healthcheck.main() == 0
    assert asked[0]["Host"] == "example.org"
    assert asked[0]["X-Forwarded-Proto"] == "https"


def test_one_that_says_it_is_ill_is_not(
    healthcheck: ModuleType, server: tuple[HTTPServer, list[dict[str, str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = server
    made.ill = True  # type: ignore[attr-defined]
    monkeypatch.setattr(healthcheck, "URL", f"http://127.0.0.1:{made.server_port}/")
    assert healthcheck.main() == 1


def test_one_that_does_not_answer_is_not(healthcheck: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(healthcheck, "URL", "http://127.0.0.1:9/")
    assert healthcheck.main() == 1
