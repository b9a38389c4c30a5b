"""The folder that holds a trained thing: `config.json`, `model.safetensors` and a model card."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from oatkit.errors import ArtifactError

CONFIG_BESIDE_LEROBOT = "oatkit.json"
"""LeRobot's checkpoints of our policies have it next to LeRobot's own `config.json`."""


def write_artifact(path: Path, config: Any, state: Mapping[str, Tensor], card: str) -> None:
    """Write the three files; the config last, for it is what says that an artifact is there."""
    path.mkdir(parents=True, exist_ok=True)
    save_file({k: v.contiguous().cpu() for k, v in state.items()}, path / "model.safetensors")
    (path / "README.md").write_text(card)
    (path / CONFIG_BESIDE_LEROBOT).unlink(missing_ok=True)
    (path / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def config_file(path: Path) -> Path:
    """Where an artifact's settings are: beside LeRobot's `config.json` they have another name."""
    beside = path / CONFIG_BESIDE_LEROBOT
    return beside if beside.exists() else path / "config.json"


def read_artifact(path: Path, what: str, version: int) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Config and tensors of an artifact whose schema is `oatkit/<what>`."""
    require_config(path, what)
    try:
        config: dict[str, Any] = json.loads(config_file(path).read_text())
        state = load_file(path / "model.safetensors")
    except (OSError, ValueError, SafetensorError) as error:
        raise ArtifactError(f"{path} is no readable {what} artifact ({error})") from error
    found = str(config.get("schema", "something else")).removeprefix("oatkit/")
    if found != what:
        raise ArtifactError(f"{path} is of the kind {found!r}, expected a {what} artifact")
    if config["version"] > version:
        raise ArtifactError(
            f"{path} is a {what} of version {config['version']}, this oatkit reads up to "
            f"{version}: update oatkit"
        )
    return config, state


def require_config(path: Path, what: str) -> None:
    """Refuse a folder that holds no artifact at all."""
    if not (path / "config.json").exists():
        raise ArtifactError(
            f"{path} is no {what} artifact, it has no config.json: `oatkit {what} train` writes one"
        )


def load_state(load: Callable[[dict[str, Tensor]], object], state: Any, path: Path) -> None:
    """Give the tensors to a module's `load_state_dict`."""
    try:
        load(state)
    except RuntimeError as error:
        raise ArtifactError(f"{path}: model.safetensors is of another config") from error


def upload(save: Callable[[str], object], repo_id: str, *, private: bool) -> str:
    """Put what `save` writes into a folder on the Hugging Face hub; gives its address."""
    import tempfile

    from huggingface_hub import HfApi

    api = HfApi()
    api.create_repo(repo_id, private=private, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        save(folder)
        return str(api.upload_folder(repo_id=repo_id, folder_path=folder))


def local_folder(folder: str | os.PathLike[str]) -> Path:
    """Where an artifact lies: the folder itself, or a download from the Hugging Face hub."""
    path = Path(folder)
    if path.exists():
        return path
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        return Path(snapshot_download(str(folder)))
    except (OSError, HfHubHTTPError, HFValidationError) as error:
        raise ArtifactError(
            f"{folder} is no folder here and could not be fetched from the Hugging Face hub"
        ) from error
