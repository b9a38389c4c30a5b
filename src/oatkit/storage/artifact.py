"""The folder that holds a trained thing: `config.json`, `model.safetensors` and a model card.

Whatever happens while an artifact is written over another one, whoever opens the folder finds one
of the two, never a mixture; see `replacing`.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from oatkit.errors import ArtifactError, similar_path
from oatkit.storage.atomic_write import atomic_write, flush
from oatkit.storage.records import upgraded
from oatkit.storage.tensor_file import write_tensors

CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
CONFIG_BESIDE_LEROBOT = "oatkit.json"
"""LeRobot's checkpoints of our policies have it next to LeRobot's own `config.json`."""
WRITING = ".writing-"
"""How the name of the folder begins in which a new artifact is being written."""
COMPLETE = ".complete"
"""The folder of a complete new artifact whose files are being moved to their places."""
UNTRAINED = "untrained"
"""Key in the settings of something that was made for a dataset and never trained."""
EMBODIMENTS = "embodiments"
"""Key in the settings of an artifact for several robots: their names, which are also those of the
folders below it that hold what is theirs."""
MAX_TRIES = 20
Opened = TypeVar("Opened")


def write_artifact(
    path: Path,
    config: Mapping[str, Any],
    state: Mapping[str, Tensor] | None,
    card: str,
    files: Mapping[str, bytes] | None = None,
) -> None:
    """Write config, weights, model card and further files, all or nothing; None writes no weights,
    which then lie in the folder above."""
    with replacing(path) as aside:
        if state is not None:
            write_tensors(_plain(state), aside / WEIGHTS)
        for name, content in (files or {}).items():
            (aside / name).write_bytes(content)
        (aside / CARD).write_text(card, "utf-8")
        (aside / CONFIG).write_text(_config_text(config))


def change_config(path: Path, changes: Mapping[str, Any]) -> None:
    """Change entries of an artifact's settings, all or nothing; its weights stay."""
    file = config_file(path)
    config = json.loads(file.read_text())
    with atomic_write(file) as aside:
        aside.write_text(_config_text({**config, **changes}))
        flush(aside)
    flush(path)


def warn_of_random_weights(what: str, function: str) -> None:
    """Warn whoever uses what was never trained.

    Args:
        what: What it is, such as "oat tokenizer".
        function: Function of oatkit that trains it.
    """
    warnings.warn(
        f"this {what} is not trained: its weights are random, and so is what it gives; train it "
        f"with oatkit.{function}",
        stacklevel=3,
    )


def weights_file(state: Mapping[str, Tensor]) -> bytes:
    """What `model.safetensors` holds for these tensors."""
    return safetensors.torch.save(_plain(state))


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A folder to write an artifact into; when the block ends it replaces the one in `path`.

    Other files in `path`, such as checkpoints, stay. It goes in three steps:

        1. path/.writing-4711/    is written and flushed to the disk; a kill leaves the old artifact
        2. path/.complete/        is its name from now on: the new artifact is the one that counts
        3. path/                  is where its files are moved to, `config.json` last

    A kill during step 3 leaves `.complete` behind, and whoever opens or writes the artifact next
    moves the rest. Only one process may write at a time.
    """
    path.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(path)
    aside = path / f"{WRITING}{os.getpid()}"
    aside.mkdir()
    try:
        yield aside
        for file in aside.rglob("*"):
            flush(file)
        flush(aside)
        finish_replacing(path)
        is_beside_lerobot = (aside / CONFIG_BESIDE_LEROBOT).exists()
        aside.rename(path / COMPLETE)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    flush(path)
    finish_replacing(path)
    if not is_beside_lerobot:
        (path / CONFIG_BESIDE_LEROBOT).unlink(missing_ok=True)


def finish_replacing(path: Path) -> None:
    """Move what a killed process has written completely, but not yet moved to its place.

    Several processes may do this at once, for one artifact or for one after the other.
    """
    for _ in range(MAX_TRIES):
        if not (path / COMPLETE).exists():
            return
        try:
            _move_to_place(path)
        except OSError as error:
            # Another process was faster, or the next artifact is there already.
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
                raise ArtifactError(
                    f"{path} holds an artifact that was not moved to its place ({error}): open it "
                    "once where it can be written"
                ) from error


def _move_to_place(path: Path) -> None:
    complete = path / COMPLETE
    below = sorted(complete.rglob("*"), key=lambda p: (p == complete / CONFIG, p))
    folders = [p for p in below if p.is_dir()]
    homes = [path / folder.relative_to(complete) for folder in folders]
    for home in homes:
        home.mkdir(exist_ok=True)
    for file in below:
        if file not in folders:
            file.replace(path / file.relative_to(complete))
    for home in (*homes, path):
        flush(home)
    for folder in (*reversed(folders), complete):
        folder.rmdir()


def read_unchanged(path: Path, read: Callable[[Path], Opened]) -> Opened:
    """What `read` makes of an artifact; read again if it was replaced in the meantime."""
    for _ in range(MAX_TRIES):
        finish_replacing(path)
        before = _stamp(path)
        try:
            found = read(path)
        except (ArtifactError, OSError):
            if before is not None and before == _stamp(path):
                raise
            continue
        if before is not None and before == _stamp(path):
            return found
    raise ArtifactError(f"{path} is replaced faster than it can be read")


def config_file(path: Path) -> Path:
    """Where an artifact's settings are: beside LeRobot's `config.json` they have another name."""
    beside = path / CONFIG_BESIDE_LEROBOT
    return beside if beside.exists() and not _is_ours(path / CONFIG) else path / CONFIG


def weights_folder(path: Path) -> Path:
    """Where the weights of an artifact lie: in its folder, or in the one above, where several
    artifacts share them."""
    whole = path.resolve()
    if (path / WEIGHTS).exists():
        return path
    try:
        names = json.loads((whole.parent / CONFIG).read_text()).get(EMBODIMENTS, ())
    except (OSError, ValueError, AttributeError):
        return path
    return whole.parent if whole.name in names else path


def read_artifact(
    path: Path, what: str, version: int, *, has_weights: bool = True
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Config and tensors of an artifact whose schema is `oatkit/<what>`; no tensors unless
    `has_weights`."""
    require_config(path, what)
    try:
        config = json.loads(config_file(path).read_text())
        weights = weights_folder(path) / WEIGHTS
        state = safetensors.torch.load_file(weights) if has_weights else {}
    except (OSError, ValueError, SafetensorError) as error:
        raise ArtifactError(f"{path} is no readable {what} artifact ({error})") from error
    return upgraded(config, f"oatkit/{what}", version, str(path)), state


def require_config(path: Path, what: str) -> None:
    """Refuse a folder that holds no artifact at all."""
    if not (path / CONFIG).exists():
        if (path / "checkpoints").exists():
            raise ArtifactError(
                f"{path} is no {what} artifact yet, its training was stopped: the command that "
                "started it continues it"
            )
        raise ArtifactError(
            f"{path} is no {what} artifact, it has no config.json: `oatkit {what} train` writes one"
        )


def require_free(folder: Path, record: Path) -> None:
    """Refuse a folder with an artifact or checkpoints that the record does not account for."""
    if (folder / CONFIG).exists() or (folder / "checkpoints").exists():
        raise ArtifactError(
            f"{folder} holds an artifact, but {record} does not say how it was made: use another "
            "--out, or remove it"
        )


def load_state(load: Callable[[dict[str, Tensor]], object], state: Any, path: Path) -> None:
    """Give the tensors to a module's `load_state_dict`."""
    try:
        load(state)
    except RuntimeError as error:
        raise ArtifactError(f"{path}: model.safetensors is of another config") from error


def upload(save: Callable[[str], object], repo_id: str, *, private: bool) -> str:
    """Put what `save` writes into a folder on the Hugging Face hub; returns its address."""
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
        finish_replacing(path)
        return path
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        return Path(snapshot_download(str(folder)))
    except (OSError, HfHubHTTPError, HFValidationError) as error:
        raise ArtifactError(
            f"{folder} is no folder here and could not be fetched from the Hugging Face hub"
            f"{similar_path(folder)}"
        ) from error


def _config_text(config: Mapping[str, Any]) -> str:
    return json.dumps(config, indent=2) + "\n"


def _plain(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.contiguous().cpu() for name, tensor in state.items()}


def _remove_leftovers(path: Path) -> None:
    """Remove what killed processes were writing."""
    for leftover in path.glob(f"{WRITING}*"):
        writer = leftover.name.removeprefix(WRITING)
        if not writer.isdigit() or int(writer) == os.getpid() or not _is_running(int(writer)):
            shutil.rmtree(leftover, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it runs, for someone else
        pass
    return True


def _stamp(path: Path) -> tuple[int, int] | None:
    """Changes when the artifact is replaced; None while it is being replaced."""
    if (path / COMPLETE).exists():
        return None
    try:
        config = (path / CONFIG).stat()
    except OSError:
        return 0, 0
    return config.st_ino, config.st_mtime_ns


def _is_ours(config: Path) -> bool:
    """Whether a `config.json` is that of an oatkit artifact."""
    try:
        return str(json.loads(config.read_text())["schema"]).startswith("oatkit/")
    except (OSError, ValueError, KeyError, TypeError):
        return False
