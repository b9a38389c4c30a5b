"""The smallest demo."""

from __future__ import annotations

from oatkit.jobs.demo_plan import DemoPlan

TINY = DemoPlan(
    demonstrations=5,
    tokenizer_steps=8,
    policy_steps=8,
    episodes=1,
    tasks=("drawer-close",),
    kinds=("oat-pow2", "bin"),
    videos=0,
    budgets=(1, 2, "auto"),
    preset="tiny",
)
