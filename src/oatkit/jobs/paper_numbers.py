"""The numbers of the paper's tables and figures, as printed; success is in percent.

A row of a text is its name, the budget it decodes (or nothing for all tokens), and a number for
each column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

PaperNumbers = Mapping[tuple[str, str], Mapping[str, float]]
"""Row and budget to column to number; the budget is a word of `budget_name`."""

LIGHT_BENCHMARKS = ("light-libero", "light-robomimic", "light-metaworld", "light-robocasa")
VLM_BENCHMARKS = ("vlm-libero", "vlm-robomimic", "vlm-robocasa365", "vlm-simpler")
TOKENIZER_BENCHMARKS = (
    *("vlm-libero", "vlm-robomimic", "light-metaworld", "vlm-robocasa365", "vlm-simpler"),
)
RANKED_LIGHT = (*LIGHT_BENCHMARKS, "Pick-and-Place Ball", "Stack Cups")
"""Columns that the mean ranks of the light table are printed over; the last are on a real robot."""
LIBERO_LONG = ("light-libero",)
LIBERO = ("vlm-libero",)


def read_numbers(columns: Sequence[str], text: str) -> PaperNumbers:
    """The numbers of a text whose lines are `name | budget | number number ...`."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for line in text.strip().splitlines():
        name, budget, values = (part.strip() for part in line.split("|"))
        numbers = map(float, values.split())
        found[name, budget or "all"] = dict(zip(columns, numbers, strict=True))
    return found


LIGHT = """
bin   |   | 14.4 39.5 14.5 27.7
fast  |   | 23.0 24.0  7.1 13.2
quest |   | 48.2 66.9 17.9 52.3
oat   | 1 | 11.7 50.8 11.3 47.7
oat   | 2 | 39.8 52.5 16.4 50.3
oat   | 4 | 46.4 65.3 19.5 51.7
oat   | 8 | 56.3 73.1 24.4 54.6
"""
LIGHT_RANKS = """
bin   |   | 5.8
fast  |   | 6.2
quest |   | 2.8
oat   | 1 | 6.0
oat   | 2 | 3.8
oat   | 4 | 2.5
oat   | 8 | 1.0
"""
"""Mean ranks over the columns of `RANKED_LIGHT`."""
ORDERING = """
oat             | 1 | 11.7 50.8 11.3 47.7
oat             | 2 | 39.8 52.5 16.4 50.3
oat             | 4 | 46.4 65.3 19.5 51.7
oat             | 8 | 56.3 73.1 24.4 54.6
oat, no nesting |   | 35.2 61.1 17.6 48.5
"""
VLM_AR = """
paligemma2, bin      |    | 14.2  7.0  3.2 20.5
paligemma2, fast     |    | 70.2 62.0 44.4 17.0
paligemma2, quest    |    | 65.9 64.5 49.6 54.0
paligemma2, acodec   |    | 78.7 54.0 51.2 26.5
paligemma2, oat      |  1 | 28.2 10.0 24.8 16.0
paligemma2, oat      |  2 | 72.5 29.0 44.8 35.5
paligemma2, oat      |  4 | 73.4 42.0 48.0 35.5
paligemma2, oat      |  8 | 78.0 65.0 58.8 39.0
paligemma2, oat      | 16 | 79.7 66.0 60.4 48.5
paligemma2, oat-pow2 |  1 | 31.4  8.5 28.4 18.0
paligemma2, oat-pow2 |  2 | 73.7 24.5 49.2 44.5
paligemma2, oat-pow2 |  4 | 76.3 48.0 62.4 49.0
paligemma2, oat-pow2 |  8 | 78.2 53.5 62.8 56.5
paligemma2, oat-pow2 | 16 | 80.8 60.0 60.4 54.0
qwen3-vl, bin        |    |  0.0  0.5  1.6  1.0
qwen3-vl, fast       |    | 62.8 27.5 32.8  5.0
qwen3-vl, quest      |    | 58.4 49.0 14.8  6.0
qwen3-vl, acodec     |    | 76.5 63.5 45.2 23.5
qwen3-vl, oat        |  1 | 33.0 12.0 27.2  5.5
qwen3-vl, oat        |  2 | 70.9 29.5 48.4 11.0
qwen3-vl, oat        |  4 | 76.4 34.5 55.2 12.0
qwen3-vl, oat        |  8 | 78.5 52.5 57.6 13.5
qwen3-vl, oat        | 16 | 82.0 67.0 62.0 16.0
qwen3-vl, oat-pow2   |  1 | 31.1  8.5 32.8  3.5
qwen3-vl, oat-pow2   |  2 | 72.7 20.0 52.4 13.0
qwen3-vl, oat-pow2   |  4 | 78.8 31.0 53.2 15.0
qwen3-vl, oat-pow2   |  8 | 79.3 47.0 55.6 19.0
qwen3-vl, oat-pow2   | 16 | 81.8 48.0 57.6 15.0
"""
VLM_AR_RANKS = """
paligemma2, bin      |    | 13.3
paligemma2, fast     |    |  9.5
paligemma2, quest    |    |  5.9
paligemma2, acodec   |    |  6.3
paligemma2, oat      |  1 | 13.0
paligemma2, oat      |  2 |  9.4
paligemma2, oat      |  4 |  8.6
paligemma2, oat      |  8 |  4.8
paligemma2, oat      | 16 |  2.9
paligemma2, oat-pow2 |  1 | 12.3
paligemma2, oat-pow2 |  2 |  8.0
paligemma2, oat-pow2 |  4 |  5.0
paligemma2, oat-pow2 |  8 |  3.3
paligemma2, oat-pow2 | 16 |  3.0
qwen3-vl, bin        |    | 14.0
qwen3-vl, fast       |    | 10.6
qwen3-vl, quest      |    |  9.5
qwen3-vl, acodec     |    |  4.5
qwen3-vl, oat        |  1 | 11.8
qwen3-vl, oat        |  2 |  8.8
qwen3-vl, oat        |  4 |  6.8
qwen3-vl, oat        |  8 |  4.1
qwen3-vl, oat        | 16 |  1.5
qwen3-vl, oat-pow2   |  1 | 12.4
qwen3-vl, oat-pow2   |  2 |  8.3
qwen3-vl, oat-pow2   |  4 |  5.6
qwen3-vl, oat-pow2   |  8 |  3.8
qwen3-vl, oat-pow2   | 16 |  3.5
"""
"""Mean ranks among the rows of a backbone."""
CO_TRAINING = """
paligemma2, oat    | | 89.7 61.0 51.2 34.0
paligemma2, bin    | | 86.9 58.5 34.8 32.0
paligemma2, fast   | | 88.3 60.0 46.8 31.0
paligemma2, quest  | | 89.4 68.5 46.8 33.0
paligemma2, acodec | | 88.0 60.5 51.6 33.0
qwen3-vl, oat      | | 91.6 76.0 54.8 27.5
qwen3-vl, bin      | | 85.2 54.5 25.2 18.0
qwen3-vl, fast     | | 90.7 61.5 48.4 23.5
qwen3-vl, quest    | | 90.1 59.5 50.4 33.0
qwen3-vl, acodec   | | 91.5 67.0 46.4 28.0
"""
GROUPED = """
oat, 16 tokens                             | 16 | 79.7
oat, 16 tokens, powers of two at inference | 16 | 66.3
oat-pow2, 16 tokens                        | 16 | 80.8
"""
CODEBOOK = """
levels 8 6 5     | | 29.2
levels 8 8 8     | | 53.5
levels 8 5 5 5   | | 56.3
levels 8 8 6 5   | | 54.6
levels 7 5 5 5 5 | | 46.9
"""
HORIZONS_HALF = (
    (38.3, 26.0, 6.4, 2.8),
    (50.2, 45.9, 26.6, 12.9),
    (68.1, 54.8, 37.7, 13.1),
    (63.0, 57.1, 56.3, 19.4),
)
"""Rows are 1, 2, 4 and 8 tokens, columns 8, 16, 32 and 64 actions; half of a chunk is executed."""
HORIZONS_FIXED = (
    (28.7, 26.0, 7.6, 0.8),
    (37.1, 45.9, 28.4, 17.5),
    (64.6, 54.8, 42.9, 18.3),
    (54.5, 57.1, 62.5, 27.3),
)
"""The same where 8 actions are executed."""
RATE_DISTORTION = """
bin      |    |  0.0  0.0   1.2  0.0 0.00
fast     |    |  0.3  0.4  67.9  0.2 0.19
quest    |    |  2.8  3.1  24.9  1.5 0.94
acodec   |    |  0.7  2.3   8.2  1.4 0.04
oat      |  1 | 14.7 12.4 731.4 16.0 0.81
oat      |  2 |  7.3  7.8 110.0  8.9 0.35
oat      |  4 |  3.8  5.3  38.1  5.2 0.21
oat      |  8 |  2.1  3.1  32.7  2.5 0.11
oat      | 16 |  1.0  1.9  32.1  1.3 0.05
oat-pow2 |  1 | 16.2 12.9 734.6 16.2 0.82
oat-pow2 |  2 |  7.4  7.8 107.1  8.9 0.35
oat-pow2 |  4 |  3.6  5.3  44.4  4.9 0.20
oat-pow2 |  8 |  1.9  3.0  27.7  2.4 0.11
oat-pow2 | 16 |  0.9  1.8  26.4  1.2 0.06
"""
"""Mean squared errors x 1000 in raw units."""
