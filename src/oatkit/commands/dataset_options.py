"""Which columns of a dataset a command reads: the flags that many commands share."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from tyro.conf import arg

from oatkit.data import Dataset
from oatkit.data.column_cache import default_cache_dir
from oatkit.data.episode_numbers import parse_episodes
from oatkit.data.open import dataset_of, open_source
from oatkit.data.source import Opening, Source
from oatkit.policies import Policy
from oatkit.tokenizers import ActionTokenizer


@dataclass(frozen=True)
class ColumnOptions:
    """Which columns are the action and the state."""

    action_key: tuple[str, ...] = ()
    """Columns to read as the action; the format's own by default."""
    state_key: tuple[str, ...] = ()
    """Columns to read as the state; the format's own by default."""
    action_dims: tuple[str, ...] = ()
    """Dimensions of the action to keep, by index or name; all by default."""
    actions: tuple[str, ...] = ()
    """How actions are represented in training, such as `relative:0-5 binary:6` or `unwrap:3-5`
    (docs/data.md has all); as they are by default, or as the dataset declares."""
    fps: float | None = None
    """Number of frames in a second, where the files do not say."""
    cache: Path | None = None
    """Where decoded numbers are kept; $OATKIT_CACHE or ~/.cache/oatkit by default."""

    def open(
        self, path: str | Source, console: Console, *, allow_nonfinite: bool = False
    ) -> Dataset:
        """Open a dataset with these columns.

        Args:
            path: File, folder or hub id, or what was opened of it.
            console: Where the command prints; if that is quiet, there is no bar.
            allow_nonfinite: Open even if action or state hold NaN or infinity.
        """
        opening = self._opening(console)
        return dataset_of(
            open_source(path, opening) if isinstance(path, str) else path,
            opening,
            **self._columns(),
            allow_nonfinite=allow_nonfinite,
        )

    def arguments(self, console: Console) -> dict[str, Any]:
        """The flags as arguments of `open_dataset`."""
        opening = self._opening(console)
        return {
            **self._columns(),
            "episodes": opening.episodes,
            "cache_dir": opening.cache_dir,
            "show_progress": opening.show_progress,
        }

    def _columns(self) -> dict[str, Any]:
        return {
            "action_key": self.action_key or None,
            "state_key": self.state_key or None,
            "action_dims": self.action_dims or None,
            "actions": self.actions or None,
            "fps": self.fps,
        }

    def open_like(
        self,
        tokenizer: ActionTokenizer,
        path: str,
        console: Console,
        state_keys: Sequence[str] = (),
    ) -> Dataset:
        """Open a dataset as it was for a tokenizer; what the flags say of columns goes before that.

        Args:
            tokenizer: Tokenizer that knows the columns it was made from.
            path: Dataset, of which these columns are read if it has them.
            console: Where the command prints.
            state_keys: Columns that are the state, unless a flag names others.
        """
        facts, source = tokenizer.data, open_source(path, self._opening(console))
        if self.actions:
            own = tokenizer.normalizer.transform or "absolute"
            raise ValueError(f"the tokenizer represents actions as {own}: leave --actions out")
        columns = replace(
            self,
            state_key=self.state_key or tuple(state_keys) or facts.state_keys,
            actions=(str(tokenizer.normalizer.transform or "absolute"),),
        )
        has_known = all(key in source.features for key in facts.action_keys)
        if facts.action_keys and has_known and not self.action_key:
            dims = tuple(str(dim) for dim in facts.action_dims or ())
            columns = replace(
                columns, action_key=facts.action_keys, action_dims=self.action_dims or dims
            )
        if self.fps is None and source.fps is None:
            columns = replace(columns, fps=facts.fps)
        return columns.open(source, console)

    def open_for(self, policy: Policy, path: str, console: Console) -> Dataset:
        """Open a dataset for a trained policy, with the columns that it was trained on."""
        known = policy.extras.get("data", {}).get("state_keys", ()) if policy.spec.state_dim else ()
        dataset = self.open_like(policy.tokenizer, path, console, known)
        wanted = policy.tokenizer.action_dim
        if dataset.action_dim != wanted:
            raise ValueError(
                f"the policy is for {wanted} action dimensions, {path} has {dataset.action_dim}: "
                "name its columns with --action-key, or some of them with --action-dims"
            )
        return dataset

    def _opening(self, console: Console) -> Opening:
        return Opening(self.cache or default_cache_dir(), show_progress=not console.quiet)

    def flags(self) -> str:
        """The flags as they are typed, each after a space; nothing where none was given."""
        words: list[str] = []
        for name, value in asdict(self).items():
            if value not in ((), None):
                values = value if isinstance(value, tuple) else (value,)
                shown = (f"{one:g}" if isinstance(one, float) else str(one) for one in values)
                words += [f"--{name.replace('_', '-')}", *map(shlex.quote, shown)]
        return "".join(f" {word}" for word in words)


@dataclass(frozen=True)
class DatasetOptions(ColumnOptions):
    """Which columns are the action and the state, and which episodes are read."""

    episodes: tuple[str, ...] = ()
    """Episodes to read, by their numbers: 3, or 0:50 without the last; all by default. Of a LeRobot
    dataset on the hub only their files are downloaded."""

    def _opening(self, console: Console) -> Opening:
        wanted = parse_episodes(self.episodes) if self.episodes else None
        return replace(super()._opening(console), episodes=wanted)


Columns = Annotated[DatasetOptions, arg(name="")]
"""A field of this type adds the flags to a command, without a prefix."""
