"""Work cut into units that any scheduler can run, and their records joined again.

work.py           what a piece of work says of itself: its units, how some of them are run
shard_number.py   which units are one shard's, as `--shard 3/8` says it
shard_folder.py   the folder of a run: its plan, and one record for each finished unit
shard_run.py      run one shard; join the records of all
full_disk.py      no room left, told in one sentence
unit_arrays.py    arrays that a unit writes beside its record
"""

from oatkit.shards.shard_folder import ShardFolder, ShardPlan
from oatkit.shards.shard_number import ShardNumber
from oatkit.shards.shard_run import Merge, merge_folder, run_shard
from oatkit.shards.work import Work

__all__ = [
    "Merge",
    "ShardFolder",
    "ShardNumber",
    "ShardPlan",
    "Work",
    "merge_folder",
    "run_shard",
]
