"""One prediction of a light policy from two tokens.

A profiler of calls between files looks at the lines between `# walk` and `# end`. The first
predictions are made before, so that what happens only once is not part of it.
"""

import tempfile
from pathlib import Path

import oatkit
from oatkit.types.observation_keys import STATE, TASK
from tests.policies import tiny

folder = Path(tempfile.mkdtemp())
dataset = oatkit.open_dataset(tiny.write_dataset(folder / "npz"), cache_dir=folder / "cache")
policy = tiny.make_policy("oat-pow2", dataset)
policy.extras, policy.tokenizer.extras = {}, {}  # nothing says any more that it is untrained
batch = tiny.batch(policy, dataset, 1)
observation = {key: batch[key] for key in (STATE, TASK)}
for _ in range(2):
    policy.predict_action_chunk(observation, budget=2)
# walk
policy.predict_action_chunk(observation, budget=2)
# end
