"""One training step of an `oat` tokenizer: the way of a batch through the loop, and of its loss.

A profiler of calls between files looks at the lines between `# walk` and `# end`. The first steps
are done before, so that what happens only once is not part of it.
"""

import tempfile
from pathlib import Path

import oatkit
from oatkit.jobs.tokenizer_training import TokenizerJob
from oatkit.train import TrainConfig
from oatkit.train.loop import TrainingRun
from tests.policies import tiny

folder = Path(tempfile.mkdtemp())
dataset = oatkit.open_dataset(tiny.write_dataset(folder / "npz"), cache_dir=folder / "cache")
job = TokenizerJob(tiny.make_tokenizer("oat", dataset), *dataset.split(fraction=0.2, seed=0))
run = TrainingRun(job, TrainConfig(steps=100, batch_size=8, log_every=100), folder / "oat", {})
opened = run.log(show_progress=False).open()
log = opened.__enter__()
for step in range(2):
    log.after_step(step + 1, run.do_step(step))
# walk
log.after_step(3, run.do_step(2))
# end
opened.__exit__(None, None, None)
