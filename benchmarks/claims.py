"""The paper's claims, each with the function that reads what was measured here about it."""

from __future__ import annotations

from benchmarks.claim_findings import (
    Claim,
    calls,
    cannot,
    falls,
    grouping,
    is_larger,
    is_nothing,
    nearly_lossless,
    swept,
    taught_by,
    than_oat,
    tracks,
)
from benchmarks.vlm_pipeline import POST_HOC

ONE, GROUPED = "vlm-ar/oat/{}", "vlm-ar/oat-pow2/{}"
NORMAL = "as it is"
CLAIMS = (
    Claim(
        "rate-distortion",
        "The error of `oat` falls with every budget",
        "731 / 110 / 38.1 / 32.7 / 32.1 x 0.001 on its MetaWorld",
        falls("oat"),
    ),
    Claim(
        "rate-distortion",
        "The error of `oat-pow2` falls with every budget",
        "735 / 107 / 44.4 / 27.7 / 26.4 x 0.001 on its MetaWorld",
        falls("oat-pow2"),
    ),
    Claim(
        "rate-distortion",
        "`oat-pow2` closely tracks `oat`",
        "within a factor of 1.22 on its MetaWorld",
        tracks,
    ),
    Claim(
        "rate-distortion",
        "`bin` is nearly lossless",
        "1.2 x 0.001 on its MetaWorld, the next 8.2",
        nearly_lossless,
    ),
    Claim(
        "rate-distortion",
        "The errors themselves",
        "see the table in the paper",
        cannot(
            "our MetaWorld actions are clipped to [-1, 1], so that errors are not comparable; the "
            "other datasets are not here"
        ),
    ),
    Claim(
        "light-policies",
        "`oat`: 8 tokens succeed more often than 1",
        "24.4 against 11.3 % on MetaWorld",
        than_oat("oat", is_larger, budget=1),
    ),
    Claim(
        "light-policies",
        "`oat`: 8 tokens succeed more often than 4",
        "24.4 against 19.5 % on MetaWorld",
        than_oat("oat", is_larger, budget=4),
    ),
    Claim(
        "light-policies",
        "`oat` at 8 tokens succeeds more often than `quest`",
        "24.4 against 17.9 % on MetaWorld",
        than_oat("quest", is_larger),
    ),
    Claim(
        "light-policies",
        "`oat` at 8 tokens succeeds more often than `bin`",
        "24.4 against 14.5 % on MetaWorld",
        than_oat("bin", is_larger),
    ),
    Claim(
        "light-policies",
        "`oat` at 8 tokens succeeds more often than `fast`, strict",
        "24.4 against 7.1 % on MetaWorld",
        than_oat("fast", is_larger),
    ),
    Claim(
        "light-policies",
        "`oat` at 8 tokens is best on LIBERO-Long, RoboMimic and RoboCasa",
        "56.3, 73.1 and 54.6 %",
        cannot("their demonstrations and simulators are not here"),
    ),
    Claim(
        "light-policies",
        "`oat` at 8 tokens is best on two tasks of a real arm",
        "16 of 20 each",
        cannot("there is no robot: the real half of the table is absent"),
    ),
    Claim(
        "ordering",
        "`oat` at 8 tokens succeeds more often than without nested dropout",
        "24.4 against 17.6 % on MetaWorld",
        than_oat("oat, no nesting", is_larger),
    ),
    Claim(
        "horizons-half",
        "With as many tokens, longer chunks succeed less often",
        "56.3 % at 32 actions, 19.4 % at 64, 8 tokens",
        swept("horizons-half", "64 actions, 8 tokens", "32 actions, 8 tokens", is_larger),
    ),
    Claim(
        "horizons-fixed",
        "Executing 8 actions, chunks of 32 succeed more often than chunks of 8, with 8 tokens",
        "62.5 against 54.5 %",
        swept("horizons-fixed", "8 actions, 8 tokens", "32 actions, 8 tokens", is_larger),
    ),
    Claim(
        "codebook",
        "1000 codes succeed more often than 240",
        "56.3 against 29.2 %",
        swept("codebook", "levels 8 6 5", "levels 8 5 5 5", is_larger),
    ),
    Claim(
        "codebook",
        "1000 codes succeed more often than 4375",
        "56.3 against 46.9 %",
        swept("codebook", "levels 7 5 5 5 5", "levels 8 5 5 5", is_larger),
    ),
    Claim(
        "vlm-policies",
        "Success of PaliGemma 2 and Qwen3-VL on four benchmarks",
        "63.7 and 56.8 % on average, `oat` at 16 tokens",
        cannot("no GPU, no published weights, none of its simulators"),
    ),
    Claim(
        "vlm-policies",
        "PaliGemma 2: `oat-pow2` is as good as `oat`",
        "63.8 and 63.7 %",
        grouping(
            (ONE.format("paligemma2"), NORMAL), (GROUPED.format("paligemma2"), NORMAL), is_nothing
        ),
    ),
    Claim(
        "vlm-policies",
        "Qwen3-VL: `oat` is better than `oat-pow2`",
        "56.8 against 50.6 %",
        grouping((GROUPED.format("qwen3-vl"), NORMAL), (ONE.format("qwen3-vl"), NORMAL), is_larger),
    ),
    Claim("vlm-policies", "16 tokens take 5 calls instead of 16", "16 and 5 calls", calls),
    Claim(
        "grouped-generation",
        "PaliGemma 2: powers of two forced on `oat` at inference cost success",
        "79.7 against 66.3 % on LIBERO",
        grouping(
            (ONE.format("paligemma2"), POST_HOC), (ONE.format("paligemma2"), NORMAL), is_larger
        ),
    ),
    Claim(
        "grouped-generation",
        "PaliGemma 2: `oat-pow2` is better than `oat` with powers of two forced",
        "80.8 against 66.3 % on LIBERO",
        grouping(
            (ONE.format("paligemma2"), POST_HOC), (GROUPED.format("paligemma2"), NORMAL), is_larger
        ),
    ),
    *(
        Claim(
            "co-training",
            f"PaliGemma 2: `oat` teaches better than `{kind}`",
            f"59.0 against {rate} % on average",
            taught_by(kind, is_larger),
        )
        for kind, rate in (("bin", 53.1), ("fast", 56.5))
    ),
    *(
        Claim(
            "co-training",
            f"PaliGemma 2: `oat` teaches as well as `{kind}`",
            f"59.0 and {rate} % on average",
            taught_by(kind, is_nothing),
        )
        for kind, rate in (("quest", 59.4), ("acodec", 58.3))
    ),
    Claim(
        "co-training",
        "Qwen3-VL: `oat` teaches better than `quest`, the next best",
        "62.5 %, the next 58.3 %, on average",
        taught_by("quest", is_larger, "qwen3-vl"),
    ),
)
