"""What an evaluation will run, checked before the first episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from oatkit.envs.simulator import SimulatorKind
from oatkit.envs.simulator_table import SIMULATORS, simulator_kind
from oatkit.evaluation.action_plan import not_calibrated
from oatkit.evaluation.policy_view import require_tasks
from oatkit.evaluation.rollout import Rollout
from oatkit.policies import Policy
from oatkit.policies.generation.budget_limits import policy_budget
from oatkit.policies.generation.early_stop import require_thresholds
from oatkit.types import Budget, Execution, Sampling, Schedule
from oatkit.types.observation_keys import STATE


@dataclass(frozen=True)
class EvaluationPlan:
    """What an evaluation runs.

    Attributes:
        policy: What acts.
        simulator: Where it acts.
        tasks: Names of the tasks, as the simulator spells them.
        budgets: Budgets; those of all tokens are numbers.
        rollout: Protocol of an episode.
    """

    policy: Policy
    simulator: SimulatorKind
    tasks: tuple[str, ...]
    budgets: tuple[Budget, ...]
    rollout: Rollout

    def settings(self) -> dict[str, Any]:
        """All that decides an episode, beside its task, budget and number, as JSON values."""
        policy, simulator, rollout = self.policy, self.simulator, self.rollout
        execution = rollout.execution
        has_shadows = simulator.make is not simulator.make_without_shadows
        return {
            "env": self.simulator.name,
            "execute": execution.steps,
            "blend": execution.blend,
            "delay": execution.delay,
            "draws": execution.draws,
            "sampling": asdict(rollout.sampling),
            "state_keys": list(rollout.state_keys),
            "endpoints": rollout.endpoints,
            "horizon": policy.tokenizer.horizon,
            "history": policy.spec.history,
            "max_steps": self.simulator.max_steps,
            "shadows": has_shadows if policy.spec.cameras else None,
            **({"head": policy.head} if "flow" in policy.heads else {}),
            "digest": policy.digest,
            "packages": simulator.package_versions(),
        }


def plan_evaluation(
    policy: Policy,
    named: str | SimulatorKind,
    rollout: Rollout,
    tasks: Sequence[str],
    budgets: Sequence[Budget],
    *,
    shadows: bool = True,
) -> EvaluationPlan:
    """The plan of an evaluation; what the policy or the simulator cannot do is a `ValueError`."""
    simulator = _choose_simulator(named, policy, shadows=shadows)
    asked = tasks or _known_tasks(policy, simulator)
    names = tuple(simulator.task_name(task) for task in asked)
    if len(set(names)) < len(names):
        raise ValueError(f"tasks are [{', '.join(names)}], expected each once")
    action_dim = policy.tokenizer.action_dim
    if action_dim != len(simulator.action_low):
        raise ValueError(
            f"the policy is for {action_dim} action dimensions, {simulator.name} has "
            f"{len(simulator.action_low)}"
        )
    require_tasks(policy.spec, simulator, names)
    return EvaluationPlan(policy, simulator, names, _budgets(policy, rollout, budgets), rollout)


def _choose_simulator(
    simulator: str | SimulatorKind, policy: Policy, *, shadows: bool
) -> SimulatorKind:
    """A simulator by its name, with or without shadows in the images that the policy reads."""
    kind = simulator_kind(simulator) if isinstance(simulator, str) else simulator
    if shadows:
        return kind
    if kind.make_without_shadows is None or not policy.spec.cameras:
        names = [name for name, known in SIMULATORS.items() if known.make_without_shadows]
        raise ValueError(
            f"--no-shadows is for policies that read images of {' or '.join(names)}: leave it out"
        )
    return replace(kind, make=kind.make_without_shadows)


def make_rollout(
    policy: Policy,
    execution: Execution,
    sampling: Sampling,
    state_keys: Sequence[str],
    schedule: Schedule | None,
) -> Rollout:
    """The protocol of an episode; what is left open is as the policy was trained."""
    if execution.steps == "auto" and policy.execution is None:
        raise ValueError(not_calibrated())
    trained_on = policy.extras.get("data", {}).get("state_keys", (STATE,))
    return Rollout(
        execution=execution.within(policy.tokenizer.horizon),
        sampling=replace(sampling, seed=sampling.seed or 0),
        state_keys=tuple(state_keys) or tuple(trained_on),
        endpoints=None if schedule is None else schedule.endpoints,
        scale=tuple(policy.tokenizer.raw_normalizer.scale.tolist()),
    )


def _known_tasks(policy: Policy, simulator: SimulatorKind) -> tuple[str, ...]:
    known = [task for task, text in simulator.tasks.items() if text in policy.spec.tasks]
    return tuple(known) or simulator.default_tasks


def _budgets(policy: Policy, rollout: Rollout, budgets: Sequence[Budget]) -> tuple[Budget, ...]:
    """The budgets as numbers or "auto"; one that the policy cannot have is an error."""
    schedule = Schedule(rollout.endpoints) if rollout.endpoints else policy.schedule
    numbers = {budget: policy_budget(policy, budget, schedule) for budget in budgets}
    found: list[Budget] = [b if b == "auto" else numbers[b] for b in budgets]
    if len(set(found)) < len(found):
        raise ValueError(f"budgets are {list(budgets)}, expected each once")
    if "auto" in found:
        require_thresholds(policy.auto)
    return tuple(found)
