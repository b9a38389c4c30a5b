"""The table of charts that the report of `oatkit tokenizer compare` shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oatkit.measure.reports.allocation_chart import plot_allocation
from oatkit.measure.reports.chart import Chart
from oatkit.measure.reports.dimension_chart import plot_dimensions
from oatkit.measure.reports.prefix_chart import plot_prefixes
from oatkit.measure.reports.probe_chart import plot_probe
from oatkit.measure.reports.rate_distortion_chart import plot_rate_distortion
from oatkit.measure.reports.training_chart import plot_training
from oatkit.measure.reports.vocabulary_chart import plot_vocabulary
from oatkit.types import TokenizerComparison

COMPARISON_CHARTS: dict[str, Callable[[TokenizerComparison], Sequence[Chart]]] = {
    "Error against tokens and bits": plot_rate_distortion,
    "A policy on these tokens": plot_probe,
    "A chunk token by token": plot_prefixes,
    "What each token tells": plot_allocation,
    "Errors per dimension": plot_dimensions,
    "Vocabulary": plot_vocabulary,
    "Training": plot_training,
}
"""Section of the report to what plots its charts; a section without a
chart is left out."""
