"""Demonstrations written by TensorFlow Datasets itself; imported only where it is installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from tests.data.datasets import HEIGHT, WIDTH, Demo


def write_with_tfds(folder: Path, demos: list[Demo]) -> Path:
    """A dataset with every kind of column that RLDS datasets have, in two files."""
    features = tfds.features
    step = features.FeaturesDict(
        {
            "action": features.Tensor(shape=(3,), dtype=np.float32),
            "is_first": features.Scalar(dtype=np.bool_),
            "packed": features.Tensor(shape=(2,), dtype=np.float32, encoding="zlib"),
            "wide": features.Tensor(shape=(2,), dtype=np.float64),
            "small": features.Scalar(dtype=np.int32),
            "language_instruction": features.Text(),
            "observation": features.FeaturesDict(
                {
                    "state": features.Tensor(shape=(2,), dtype=np.float32),
                    "front": features.Image(shape=(HEIGHT, WIDTH, 3), encoding_format="png"),
                }
            ),
        }
    )

    def episodes() -> Iterator[tuple[str, dict[str, Any]]]:
        for number, demo in enumerate(demos):
            images = demo.images()
            steps = [
                {
                    "action": demo.actions[t],
                    "is_first": t == 0,
                    "packed": demo.state[t],
                    "wide": demo.state[t].astype(np.float64),
                    "small": t - 3,
                    "language_instruction": demo.task,
                    "observation": {"state": demo.state[t], "front": images[t]},
                }
                for t in range(len(demo.actions))
            ]
            yield str(number), {"steps": steps, "episode_metadata": {"number": number}}

    class Cups(tfds.core.GeneratorBasedBuilder):  # type: ignore[misc]
        """A dataset that is not shuffled, so that episodes can be compared."""

        VERSION = tfds.core.Version("1.0.0")

        def _info(self) -> Any:
            return tfds.core.DatasetInfo(
                builder=self,
                features=features.FeaturesDict(
                    {
                        "steps": features.Dataset(step),
                        "episode_metadata": {"number": features.Scalar(dtype=np.int64)},
                    }
                ),
                disable_shuffling=True,
            )

        def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
            return {"train": enumerated(episodes())}

        def _generate_examples(self) -> Any:
            raise NotImplementedError

    def enumerated(pairs: Iterator[tuple[str, dict[str, Any]]]) -> Iterator[tuple[int, Any]]:
        yield from ((int(key), value) for key, value in pairs)

    config = tfds.download.DownloadConfig(num_shards=2)
    builder = Cups(data_dir=str(folder))
    builder.download_and_prepare(download_config=config)
    return Path(str(builder.data_dir))
