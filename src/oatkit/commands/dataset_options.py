"""Which columns of a dataset a command reads: the flags that many commands share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from oatkit.data import Dataset, open_dataset
from oatkit.policies import Policy


@dataclass(frozen=True)
class DatasetOptions:
    """Which columns are the action and the state."""

    action_key: tuple[str, ...] = ()
    """Columns to read as the action; the format's own by default."""
    state_key: tuple[str, ...] = ()
    """Columns to read as the state; the format's own by default."""
    action_dims: tuple[str, ...] = ()
    """Dimensions of the action to keep, by index or name; all by default."""
    fps: float | None = None
    """Number of frames in a second, where the files do not say."""
    cache: Path | None = None
    """Where decoded numbers are kept; $OATKIT_CACHE or ~/.cache/oatkit by default."""

    def open(self, path: str, *, allow_nonfinite: bool = False) -> Dataset:
        """Open the dataset at `path` with these columns."""
        return open_dataset(
            path,
            action_key=self.action_key or None,
            state_key=self.state_key or None,
            action_dims=self.action_dims or None,
            fps=self.fps,
            cache_dir=self.cache,
            allow_nonfinite=allow_nonfinite,
            show_progress=True,
        )

    def open_for(self, policy: Policy, path: str) -> Dataset:
        """Open a dataset for a trained policy; its state is by default what the policy reads."""
        known = policy.extras.get("data", {}).get("state_keys", ())
        reads_known = policy.spec.state_dim and not self.state_key
        columns = replace(self, state_key=tuple(known)) if reads_known else self
        dataset = columns.open(path)
        wanted = policy.tokenizer.action_dim
        if dataset.action_dim != wanted:
            raise ValueError(
                f"the policy is for {wanted} action dimensions, {path} has {dataset.action_dim}"
            )
        return dataset


Columns = Annotated[DatasetOptions, arg(name="")]
"""A field of this type adds the flags to a command, without a prefix."""
