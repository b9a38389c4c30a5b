"""The smallest demo."""

from __future__ import annotations

from oatkit.jobs.demo_plan import DemoPlan

TINY = DemoPlan(
    demonstrations=5,
    tokenizer_minutes=0.01,
    policy_until=0.0,
    policy_minutes=0.03,
    episodes=1,
    tasks=("drawer-close",),
    kinds=("oat-pow2", "bin"),
    videos=0,
    budgets=(1, 2, "auto"),
    preset="tiny",
)
