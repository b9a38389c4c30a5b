"""Policies here and elsewhere are what episodes ask."""

from __future__ import annotations

from oatkit.evaluation.queried_policy import Evaluable, EvaluatedPolicy, Observed, QueriedPolicy
from oatkit.evaluation.remote_policy import RemotePolicy, RemoteSpec
from oatkit.policies import ActingPolicy
from oatkit.policies.observation.observation_spec import ObservationSpec
from tests.evaluation.pilot import Pilot


def test_a_policy_of_any_place_can_be_queried() -> None:
    """The type checker holds that these are what they are said to be."""

    def everywhere(acting: ActingPolicy, remote: RemotePolicy) -> tuple[QueriedPolicy, ...]:
        return acting, remote

    def observed(spec: ObservationSpec, remote: RemoteSpec) -> tuple[Observed, ...]:
        return spec, remote

    assert everywhere
    assert observed


def test_only_what_says_so_is_evaluated_by_its_own_words() -> None:
    class Told:
        def evaluated(self, budgets: object) -> EvaluatedPolicy:
            return EvaluatedPolicy(Pilot(), "a", "klt", (None,), None, None, None)

    assert isinstance(Told(), Evaluable)
    assert not isinstance(Pilot(), Evaluable)
    assert not isinstance("ws://host:8000", Evaluable)
