"""A summary of a dataset, as a record."""

from __future__ import annotations

import numpy as np

from oatkit.data.columns import Table
from oatkit.data.dataset import Dataset
from oatkit.types import CameraSummary, DatasetInfo, DimensionSummary, TaskSummary

HISTOGRAM_BINS = 12


def summarize_dataset(dataset: Dataset) -> DatasetInfo:
    """Counts, lengths, tasks, cameras, and every dimension of action and state."""
    lengths = np.quantile(dataset.episode_lengths, [0, 0.25, 0.5, 0.75, 1]).round().astype(int)
    used = (*dataset.action.keys, *(dataset.state.keys if dataset.state else ()))
    return DatasetInfo(
        path=str(dataset.path),
        format=dataset.format,
        num_episodes=len(dataset),
        num_frames=dataset.num_frames,
        length_quantiles=tuple(lengths.tolist()),
        fps=dataset.fps,
        cameras=tuple(
            CameraSummary(name, c.height, c.width, c.missing is None)
            for name, c in dataset.cameras.items()
        ),
        tasks=_tasks(dataset),
        action_keys=dataset.action.keys,
        action=_dimensions(dataset, dataset.action),
        state_keys=dataset.state.keys if dataset.state else (),
        state=_dimensions(dataset, dataset.state) if dataset.state else (),
        other_columns=tuple(key for key in dataset.columns if key not in used),
        fingerprint=dataset.fingerprint,
        actions=str(dataset.transform or "absolute"),
    )


def _tasks(dataset: Dataset) -> tuple[TaskSummary, ...]:
    """Tasks by how many episodes begin with them, most first."""
    counts = np.bincount(dataset.task_index[dataset.episode_starts], minlength=len(dataset.tasks))
    order = np.argsort(-counts, kind="stable")
    return tuple(TaskSummary(dataset.tasks[i], int(counts[i])) for i in order if counts[i])


def _dimensions(dataset: Dataset, table: Table) -> tuple[DimensionSummary, ...]:
    statistics = dataset.statistics(table)
    counts_AN = np.zeros((table.dim, HISTOGRAM_BINS), np.int64)
    for block in dataset.blocks(table):
        for dim in range(table.dim):
            span = (statistics.min[dim], statistics.max[dim])
            counts_AN[dim] += np.histogram(block[:, dim], HISTOGRAM_BINS, span)[0]
    return tuple(
        DimensionSummary(
            name=name,
            histogram=tuple(counts_AN[dim].tolist()),
            **{
                word: float(getattr(statistics, word)[dim])
                for word in ("min", "max", "mean", "std", "q01", "q99")
            },
        )
        for dim, name in enumerate(table.names)
    )
