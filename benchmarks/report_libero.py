"""The sections of the results page on LIBERO: its expert, and a policy trained on what it shows."""

from __future__ import annotations

from typing import Any

from benchmarks.markdown import paragraph, section, table
from benchmarks.report_policies import rate

TITLES = {"official": "LIBERO", "repaired": "LIBERO, repaired assets"}
"""Assets of the simulator to what results on them are called."""
REPAIRED = (
    "Some meshes and textures are stand-ins, and the masses of the black bowl and of the basket "
    "are not those of the published ones: these are not results on LIBERO itself."
)
AT_REST = (
    "This was run before demonstrations began with the arm displaced as it is in the official "
    "states, and before actions that never change, as the turns of the hand, were decoded exactly."
)


def libero(record: dict[str, Any]) -> str:
    settings, results = record["settings"], record["results"]
    experts = results["expert"]
    policy = results.get("policy")
    budgets = [] if policy is None else policy["budgets"]
    rows = []
    for task, expert in experts.items():
        tried = expert["solved"] + expert["failed"]
        by_budget = ({t["task"]: t["success"] for t in b["tasks"]} for b in budgets)
        shown = [found.get(task) for found in by_budget]
        cells = ["" if s is None else f"{s['successes']} of {s['episodes']}" for s in shown]
        rows.append((task.replace("_", " "), f"{expert['solved']} of {tried}", *cells))
    if budgets:
        together = [rate(b["success"]) for b in budgets]
        rows.append(("**all tasks, %**", "", *together))
    names = [f"policy, {b['budget']} tokens" for b in budgets]
    return section(
        f"{TITLES[settings['assets']]}: {settings['suite']}",
        paragraph(
            *([REPAIRED] if settings["assets"] == "repaired" else []),
            "A scripted expert picks and places from the state, until a task has its "
            f"{settings['episodes']} successes or has failed too often.",
            *([] if "arm_noise" in settings else [AT_REST]),
            *([] if policy is None else [_trained(policy)]),
        ),
        table(("task", "expert", *names), rows),
        script="libero",
    )


def _trained(policy: dict[str, Any]) -> str:
    """How the policy was trained, and the episodes it acts in, in words."""
    recipe, execute = policy.get("recipe", policy), policy["settings"]["execute"]
    steps, preset = recipe.get("steps"), recipe.get("preset")
    size = "" if preset is None else f" of the preset `{preset}`"
    long = "" if steps is None else f" for {steps:,} steps"
    tokenizer = ""
    if "tokenizer_steps" in recipe:
        long += f" ({recipe['seconds'] / 60:.0f} minutes)"
        tokenizer = f", its tokenizer for {recipe['tokenizer_steps']:,}"
    return (
        f"A light policy{size} from the state on `{policy['kind']}` tokens is trained{long} on its "
        f"successes{tokenizer}, and acts from LIBERO's official initial states in another process, "
        f"by way of `oatkit serve`; {execute} steps of a chunk are executed at temperature "
        f"{policy['settings']['sampling']['temperature']:g}."
    )
