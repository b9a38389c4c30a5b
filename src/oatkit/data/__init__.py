"""Any robot dataset as episodes and chunks; statistics and normalization."""

from oatkit.data.chunks import Chunks
from oatkit.data.dataset import Dataset, Episode
from oatkit.data.mixture import Mixture, open_mixture
from oatkit.data.normalizer import Normalizer
from oatkit.data.open import open_dataset
from oatkit.data.statistics import Statistics

__all__ = [
    "Chunks",
    "Dataset",
    "Episode",
    "Mixture",
    "Normalizer",
    "Statistics",
    "open_dataset",
    "open_mixture",
]
