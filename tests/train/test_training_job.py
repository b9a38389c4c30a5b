"""The protocol of a job: those of tokenizers and policies, and the tests' own, keep to it."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from oatkit.jobs.policy_batches import PolicyBatches
from oatkit.jobs.policy_training import PolicyJob
from oatkit.jobs.tokenizer_training import NormalizedBatches, TokenizerJob
from oatkit.train import TrainingJob
from tests.train.regression import Regression

METHODS = ["batch", "loss", "after_step", "evaluate"]


@pytest.mark.parametrize("job", [PolicyJob, TokenizerJob, Regression])
@pytest.mark.parametrize("method", METHODS[1:])
def test_methods_take_what_the_loop_gives(job: type, method: str) -> None:
    wanted, found = (inspect.signature(getattr(kind, method)) for kind in (TrainingJob, job))
    assert list(found.parameters) == list(wanted.parameters)
    assert found.return_annotation == wanted.return_annotation


@pytest.mark.parametrize(
    "read", [PolicyBatches.__call__, NormalizedBatches.__call__, Regression.batch]
)
def test_batches_are_read_by_indices(read: Callable[..., object]) -> None:
    wanted, found = inspect.signature(TrainingJob.batch), inspect.signature(read)
    assert list(found.parameters) == list(wanted.parameters)
    assert found.return_annotation == wanted.return_annotation


def test_the_protocol_has_nothing_else() -> None:
    public = {name for name in vars(TrainingJob) if not name.startswith("_")}
    assert public == {*METHODS, "module", "num_samples"}
