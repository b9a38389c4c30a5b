"""A benchmark of vla-eval against our server; run by an interpreter that has vla-eval.

    python drive.py ws://127.0.0.1:8000 API_KEY OUT

Prints the results of vla-eval, what its benchmark got and what went wrong on purpose, as JSON.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from oatkit_client.vla_eval_server import VlaEvalServer
from vla_eval.api import evaluate
from vla_eval.benchmarks.base import StepBenchmark, StepResult
from vla_eval.specs import IMAGE_RGB, LANGUAGE, RAW

GOT: list[dict[str, Any]] = []


class Table(StepBenchmark):
    """Ends after six steps, with success if all actions had three finite numbers."""

    render_backends = frozenset({"gpu", "cpu"})

    @classmethod
    def configure_render(cls, mode: str) -> dict[str, str]:
        return {}

    def __init__(self, send_state: bool = False, send_wrist_image: bool = False) -> None:
        super().__init__()
        GOT.append({"asked": [send_state, send_wrist_image]})

    def get_tasks(self) -> list[dict[str, Any]]:
        return [{"name": "open the door", "suite": "table"}]

    def reset(self, task: dict[str, Any]) -> int:
        GOT.append({"actions": []})
        return 0

    def step(self, action: dict[str, Any]) -> StepResult:
        GOT[-1]["actions"].append(np.asarray(action["actions"]).tolist())
        done = len(GOT[-1]["actions"]) == 6
        return StepResult(obs=len(GOT[-1]["actions"]), reward=0.0, done=done, info={})

    def make_obs(self, raw_obs: int, task: dict[str, Any]) -> dict[str, Any]:
        image = np.full((40, 60, 3), raw_obs, np.uint8)
        return {
            "images": {"agentview": image},
            "states": np.arange(5.0) + raw_obs,
            "task_description": task["name"],
        }

    def get_step_result(self, step_result: StepResult) -> dict[str, Any]:
        return {"success": bool(np.isfinite(GOT[-1]["actions"]).all())}

    def get_metadata(self) -> dict[str, Any]:
        return {"max_steps": 6}

    def get_action_spec(self) -> dict[str, Any]:
        return {"actions": RAW}

    def get_observation_spec(self) -> dict[str, Any]:
        return {"agentview": IMAGE_RGB, "state": RAW, "language": LANGUAGE}


def main(url: str, api_key: str, out: str) -> None:
    cameras = ["front=agentview"]
    config = {
        "benchmarks": [
            {"benchmark": f"{Path(__file__).stem}:Table", "episodes_per_task": 2, "params": {}}
        ],
        "output_dir": out,
        "render": "cpu",
    }
    sys.modules[Path(__file__).stem] = sys.modules["__main__"]
    results = []
    for how in ({"execute": 4}, {"execute": 2, "blend": 0.1, "draws": 2}):
        server = VlaEvalServer(url, api_key, cameras=cameras, **how)
        results += evaluate(server, config, docker=False, no_save=True)
    errors = []
    wrongs = [{"cameras": ["side=agentview"]}, {"cameras": ["front"]}, {"execute": "auto"}]
    for wrong in wrongs:
        try:
            VlaEvalServer(url, api_key, **wrong)
        except ValueError as error:
            errors.append(str(error))
    report = {
        "got": GOT,
        "errors": errors,
        "results": json.loads(json.dumps(results, default=str)),
    }
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
