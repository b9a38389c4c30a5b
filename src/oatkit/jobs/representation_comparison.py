"""One dataset in several representations of its actions: which of them costs fewest tokens.

Only kinds that are fitted are compared, which takes seconds each; `oatkit tokenizer compare
--representations absolute delta relative` calls this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oatkit.data import Dataset
from oatkit.jobs.tokenizer_training import train_tokenizer
from oatkit.measure.tokenizer_metrics import measure_tokenizer
from oatkit.tokenizers.kind_table import kind_named
from oatkit.types import RepresentationMeasurement


@dataclass(frozen=True)
class RepresentationPlan:
    """What is compared.

    Attributes:
        datasets: The dataset in each representation, by what was typed.
        kinds: Kinds that are fitted.
    """

    datasets: Mapping[str, Dataset] = field(default_factory=dict)
    kinds: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, dataset: Dataset, representations: Sequence[str], kinds: Sequence[str]
    ) -> RepresentationPlan:
        """Read every representation now, so that a wrong one is an error before any training.

        Args:
            dataset: Demonstrations.
            representations: Words of `oatkit.data.action_words`, a text for each.
            kinds: Kinds of which those that are fitted are taken.
        """
        fitted = tuple(kind for kind in kinds if not kind_named(kind).is_learned and kind != "bin")
        if representations and not fitted:
            raise ValueError(
                "--representations are compared by klt and fast, which are not among the --kinds"
            )
        return cls({words: dataset.represented_as(words) for words in representations}, fitted)

    def run(
        self,
        known: Sequence[RepresentationMeasurement],
        split: Mapping[str, Any],
        sizes: Callable[[str], Mapping[str, Any]],
        say: Callable[[str], None],
    ) -> tuple[RepresentationMeasurement, ...]:
        """Fit and measure each kind in each representation, but for what is known already.

        Args:
            known: What was measured before.
            split: How episodes are split: `held_out`, `split_seed`.
            sizes: Gives the settings of a kind.
            say: Takes a line about what is done next.
        """
        found = {(one.actions, one.measurement.kind): one for one in known}
        for words, dataset in self.datasets.items():
            held_out = dataset.split(split["held_out"], seed=split["split_seed"])[1]
            for kind in self.kinds:
                if (words, kind) not in found:
                    say(f"{kind}, actions {words}")
                    tokenizer = train_tokenizer(dataset, kind, **split, **sizes(kind))
                    measured = measure_tokenizer(tokenizer, held_out, split="val")
                    found[words, kind] = RepresentationMeasurement(words, measured)
        return tuple(found.values())
