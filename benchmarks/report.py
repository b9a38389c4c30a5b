"""Writes the pages and drawings of the docs that are made from `benchmarks/results/`.

    python -m benchmarks.report

No number of these pages is typed by hand.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks import (
    record,
    report_control,
    report_data,
    report_expert,
    report_feeding,
    report_libero,
    report_mixture,
    report_neighbors,
    report_policies,
    report_readme,
    report_regression,
    report_robosuite,
    report_signals,
    report_tokenizers,
    report_vlm,
    reproduction,
)
from benchmarks.drawings import DRAWINGS
from benchmarks.record import read_result

DOCS = Path(__file__).parent.parent / "docs"

INTRODUCTION = """\
# Results

This page is written by `python -m benchmarks.report` from the JSON files in `benchmarks/results/`;
`make bench` measures everything again. Each JSON file holds the commit, the seed, the versions and
the machine.
"""

SECTIONS = {
    "data_memory": report_tokenizers.data_memory,
    "data_sampling": report_tokenizers.data_sampling,
    "feeding": report_feeding.feeding,
    "tokenizer_rate_distortion": report_tokenizers.tokenizer_rate_distortion,
    "decodability": report_tokenizers.decodability,
    "token_predictability": report_tokenizers.token_predictability,
    "oat_convergence": report_tokenizers.oat_convergence,
    "oat_curves": report_tokenizers.oat_curves,
    "klt_variants": report_tokenizers.klt_variants,
    "klt_speed": report_tokenizers.klt_speed,
    "tokenizer_speed": report_tokenizers.tokenizer_speed,
    "fast_speed": report_tokenizers.fast_speed,
    "tokenizer_sweep": report_tokenizers.tokenizer_sweep,
    "fit_streams": report_data.fit_streams,
    "mixture": report_mixture.mixture,
    "real_data": report_data.real_data,
    "policy_table": report_policies.policy_table,
    "policy_sweep": report_policies.policy_sweep,
    "control": report_control.control,
    "control_times": report_control.control_times,
    "execution_signals": report_signals.execution_signals,
    "regression": report_regression.regression,
    "neighbors": report_neighbors.neighbors,
    "policy_pusht": report_policies.policy_pusht,
    "robosuite_experts": report_robosuite.robosuite_experts,
    "robosuite_replay": report_robosuite.robosuite_replay,
    "policy_robosuite": report_robosuite.policy_robosuite,
    "libero": report_libero.libero,
    "libero_spatial": report_libero.libero,
    "policy_latency": report_policies.policy_latency,
    "auto_depth": report_policies.auto_depth,
    "serve_load": report_policies.serve_load,
    "vlm_pipeline": report_vlm.vlm_pipeline,
    "vlm_expert": report_expert.vlm_expert,
    "vlm_rows": report_vlm.vlm_rows,
    "vlm_padding": report_vlm.vlm_padding,
    "vlm_speed": report_vlm.vlm_speed,
    "flow_speed": report_vlm.flow_speed,
}
"""Result to what writes its section; results that are not measured yet are left out."""


def main() -> None:
    for path, text in written().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        print(f"wrote {path}")


def written() -> dict[Path, str]:
    """Paths in the docs to the texts that are made from results."""
    return {
        report_readme.README: report_readme.render(),
        DOCS / "results.md": results_page(),
        DOCS / "reproduction.md": reproduction.reproduction_page(),
        **{DOCS / "drawings" / f"{name}.svg": draw() for name, draw in DRAWINGS.items()},
    }


def results_page() -> str:
    """The page with the sections of all results that are there."""
    measured = (name for name in SECTIONS if _result(name).exists())
    return "\n".join([INTRODUCTION, *map(section, measured)])


def section(name: str) -> str:
    """The section about one result."""
    return SECTIONS[name](read_result(name))


def _result(name: str) -> Path:
    return record.RESULTS / f"{name}.json"


if __name__ == "__main__":
    main()
