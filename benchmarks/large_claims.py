"""The paper's claims on vision-language policies: those that generate tokens, and those that are
taught by them."""

from __future__ import annotations

from benchmarks.call_findings import calls_of_16_tokens
from benchmarks.claim_findings import Claim, cannot, is_larger, is_nothing
from benchmarks.large_findings import (
    NORMAL,
    best_with_all,
    generated,
    generates,
    is_least,
    rises,
    taught_by,
)
from benchmarks.row_commands import generating, script, teaching
from benchmarks.vlm_pipeline import OTHER_KINDS, POST_HOC

ONE, GROUPED = "vlm-ar/oat/paligemma2", "vlm-ar/oat-pow2/paligemma2"
FORCED_COSTS = generated((ONE, POST_HOC), (ONE, NORMAL), is_larger)
GROUPED_GAINS = generated((ONE, POST_HOC), (GROUPED, NORMAL), is_larger)
VLM_RATES = (
    (
        *("PaliGemma 2", "paligemma2"),
        "19.8 / 45.5 / 49.7 / 60.2 / 63.7 % on average with 1 / 2 / 4 / 8 / 16 tokens",
    ),
    (
        *("Qwen3-VL", "qwen3-vl"),
        "19.4 / 40.0 / 44.5 / 50.5 / 56.8 % on average with 1 / 2 / 4 / 8 / 16 tokens",
    ),
)
"""Backbones, with what the paper has of `oat` at every budget."""
GROUPED_RATES = (
    (
        *("PaliGemma 2", "paligemma2"),
        "21.6 / 48.0 / 58.9 / 62.8 / 63.8 % on average with 1 / 2 / 4 / 8 / 16 tokens",
    ),
    (
        *("Qwen3-VL", "qwen3-vl"),
        "19.0 / 39.5 / 44.5 / 50.2 / 50.6 % on average with 1 / 2 / 4 / 8 / 16 tokens",
    ),
)
"""The same of `oat-pow2`."""

LARGE_CLAIMS = (
    Claim(
        "vlm-policies",
        "Success of PaliGemma 2 and Qwen3-VL on four benchmarks",
        "63.7 and 56.8 % on average, `oat` at 16 tokens",
        cannot("there is no GPU, and no weights of these models"),
    ),
    Claim(
        "vlm-policies",
        "The average ranks of PaliGemma 2 and Qwen3-VL over four benchmarks",
        "2.9 and 1.5, `oat` at 16 tokens, the best of all rows",
        cannot("there is no GPU, and no weights of these models"),
    ),
    *(
        Claim(
            "vlm-policies",
            f"{name}: success of `{kind}` generally rises with its tokens",
            rates,
            rises(family, kind),
            generating(f"vlm-ar/{kind}/{family}"),
        )
        for kind, backbones in (("oat", VLM_RATES), ("oat-pow2", GROUPED_RATES))
        for name, family, rates in backbones
    ),
    *(
        Claim(
            "vlm-policies",
            f"{name}: `oat` is best with all of its tokens",
            rates,
            best_with_all(family),
            generating(f"vlm-ar/oat/{family}"),
        )
        for name, family, rates in VLM_RATES
    ),
    *(
        Claim(
            "vlm-policies",
            f"{name}: `bin` is worst of all kinds",
            rates,
            is_least(family, "bin"),
            generating(*(f"vlm-ar/{kind}/{family}" for kind in ("oat", *OTHER_KINDS))),
        )
        for name, family, rates in (
            ("PaliGemma 2", "paligemma2", "11.2 % on average, the next 48.4"),
            ("Qwen3-VL", "qwen3-vl", "0.8 % on average, the next 32.0"),
        )
    ),
    Claim(
        "vlm-policies",
        "PaliGemma 2: `oat-pow2` is as good as `oat`",
        "63.8 and 63.7 %",
        generated((ONE, NORMAL), (GROUPED, NORMAL), is_nothing),
        generating(ONE, GROUPED),
    ),
    Claim(
        "vlm-policies",
        "Qwen3-VL: `oat` is better than `oat-pow2`",
        "56.8 against 50.6 %",
        generates("qwen3-vl", "oat-pow2", is_larger),
        generating("vlm-ar/oat/qwen3-vl", "vlm-ar/oat-pow2/qwen3-vl"),
    ),
    *(
        Claim(
            "vlm-policies",
            f"{name}: policies on `oat` are better than on `{kind}`",
            f"{own} against {rate} % on average",
            generates(family, kind, is_larger),
            generating(f"vlm-ar/oat/{family}", f"vlm-ar/{kind}/{family}"),
        )
        for name, family, own, others in (
            (
                *("PaliGemma 2", "paligemma2", 63.7),
                {"bin": 11.2, "fast": 48.4, "quest": 58.5, "acodec": 52.6},
            ),
            (
                *("Qwen3-VL", "qwen3-vl", 56.8),
                {"bin": 0.8, "fast": 32.0, "quest": 32.1, "acodec": 52.2},
            ),
        )
        for kind, rate in others.items()
    ),
    Claim(
        "vlm-policies",
        "16 tokens take 5 calls instead of 16",
        "16 and 5 calls",
        calls_of_16_tokens,
        script("policy_latency"),
    ),
    Claim(
        "grouped-generation",
        "PaliGemma 2: powers of two forced on `oat` at inference cost success",
        "79.7 against 66.3 % on LIBERO",
        FORCED_COSTS,
        generating(ONE),
    ),
    Claim(
        "grouped-generation",
        "PaliGemma 2: `oat-pow2` is better than `oat` with powers of two forced",
        "80.8 against 66.3 % on LIBERO",
        GROUPED_GAINS,
        generating(ONE, GROUPED),
    ),
    *(
        Claim(
            "co-training",
            f"PaliGemma 2: `oat` teaches better than `{kind}`",
            f"59.0 against {rate} % on average",
            taught_by(kind, is_larger),
            teaching("paligemma2", "oat", kind),
        )
        for kind, rate in (("bin", 53.1), ("fast", 56.5))
    ),
    *(
        Claim(
            "co-training",
            f"PaliGemma 2: `oat` teaches as well as `{kind}`",
            f"59.0 and {rate} % on average",
            taught_by(kind, is_nothing),
            teaching("paligemma2", "oat", kind),
        )
        for kind, rate in (("quest", 59.4), ("acodec", 58.3))
    ),
    *(
        Claim(
            "co-training",
            f"Qwen3-VL: `oat` teaches better than `{kind}`",
            f"62.5 against {rate} % on average",
            taught_by(kind, is_larger, "qwen3-vl"),
            teaching("qwen3-vl", "oat", kind),
        )
        for kind, rate in (("quest", 58.3), ("acodec", 58.2), ("fast", 56.0), ("bin", 45.7))
    ),
    *(
        Claim("co-training", says, rates, cannot("there is no GPU, and no weights of these models"))
        for says, rates in (
            (
                "PaliGemma 2: `oat` teaches best on LIBERO and SimplerEnv",
                "89.7 and 34.0 %, the next 89.4 and 33.0",
            ),
            ("PaliGemma 2: `quest` teaches better than `oat` on RoboMimic", "68.5 against 61.0 %"),
            (
                "Qwen3-VL: `oat` teaches best on RoboMimic and RoboCasa365",
                "76.0 and 54.8 %, the next 67.0 and 50.4",
            ),
            ("Qwen3-VL: `quest` teaches better than `oat` on SimplerEnv", "33.0 against 27.5 %"),
        )
    ),
)
