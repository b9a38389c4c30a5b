from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oatkit.envs.simulator import evaluation_seed
from oatkit.evaluation.rollout import EpisodePlan, Rollout, joint_seed
from oatkit.types import Execution, Sampling, Schedule


def seeds(seed: int | None) -> Rollout:
    return Rollout(Execution(4), sampling=Sampling(seed=seed))


def test_the_random_numbers_of_budgets_are_the_same() -> None:
    same = [seeds(0).query_seed(EpisodePlan("near", budget, 1), 2) for budget in (1, "auto", None)]
    others = [
        seeds(seed).query_seed(plan, query)
        for seed, plan, query in (
            (1, EpisodePlan("near", 1, 1), 2),
            (0, EpisodePlan("far", 1, 1), 2),
            (0, EpisodePlan("near", 1, 0), 2),
            (0, EpisodePlan("near", 1, 1), 3),
        )
    ]
    assert len(set(same)) == 1
    assert len({same[0], *others}) == 5


def test_one_seed_decides_goals_and_random_numbers() -> None:
    plan = EpisodePlan("near", 1, 3)
    assert seeds(7).goal_seed(plan) == evaluation_seed(7, 3)
    assert seeds(None).goal_seed(plan) == seeds(0).goal_seed(plan)
    unseeded, zero = (seeds(s).query_seed(plan, 0) for s in (None, 0))
    assert unseeded == zero


def test_a_schedule_is_made_of_endpoints() -> None:
    assert Rollout(Execution(4)).schedule is None
    assert Rollout(Execution(4), endpoints=(1, 2, 4)).schedule == Schedule((1, 2, 4))


@given(st.lists(st.integers(0, 2**32), min_size=1, max_size=4), st.integers(0, 3))
def test_all_numbers_count(entropy: list[int], place: int) -> None:
    other = [*entropy]
    other[place % len(other)] += 1
    assert joint_seed(*entropy) == joint_seed(*entropy) != joint_seed(*other)


def test_random_numbers_stay_what_they_were() -> None:
    """Records of earlier versions are compared with episodes of today."""
    assert joint_seed(0, 1, 2, 3) == 8371474694061404559
