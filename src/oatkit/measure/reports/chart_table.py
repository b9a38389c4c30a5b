"""The table of charts that each report shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oatkit.measure.reports.allocation_chart import plot_allocation
from oatkit.measure.reports.chart import Chart
from oatkit.measure.reports.dimension_chart import plot_dimensions
from oatkit.measure.reports.prefix_chart import plot_prefixes
from oatkit.measure.reports.probe_chart import plot_probe
from oatkit.measure.reports.rate_distortion_chart import plot_rate_distortion
from oatkit.measure.reports.success_chart import plot_success
from oatkit.measure.reports.time_chart import plot_success_by_time
from oatkit.measure.reports.training_chart import plot_training
from oatkit.measure.reports.vocabulary_chart import plot_vocabulary
from oatkit.types import PolicyEvaluation, TokenizerComparison

COMPARISON_CHARTS: dict[str, Callable[[TokenizerComparison], Sequence[Chart]]] = {
    "Error against tokens and bits": plot_rate_distortion,
    "A policy on these tokens": plot_probe,
    "A chunk token by token": plot_prefixes,
    "What each token tells": plot_allocation,
    "Errors per dimension": plot_dimensions,
    "Vocabulary": plot_vocabulary,
    "Training": plot_training,
}
"""Section of the report of `oatkit tokenizer compare` to what plots its charts; a section without a
chart is left out."""
EVALUATION_CHARTS: dict[str, Callable[[PolicyEvaluation], Sequence[Chart]]] = {
    "Success against time": plot_success_by_time,
    "Success by task": plot_success,
}
"""The same of the report of `oatkit policy eval`."""
