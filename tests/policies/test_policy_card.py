"""The README of a policy."""

from __future__ import annotations

from oatkit.data import Dataset
from oatkit.policies.policy_card import PolicyCard
from tests.policies import tiny

WANTED = """---
library_name: oatkit
tags: [robotics, action-policy]
---
# a policy

Observes states. Gives chunks of 8 x 3 actions.

```python
import oatkit
policy = oatkit.load_policy("this folder or hub id")
policy.reset()
chunk = policy.predict_action_chunk(observation).chunk
```
"""


def test_a_card_says_what_the_policy_is_and_how_to_call_it(dataset: Dataset) -> None:
    tokenizer = tiny.make_tokenizer("bin", dataset)
    assert PolicyCard("a policy", "states").text(tokenizer) == WANTED
    more = PolicyCard("a policy", "states", "observation, budget=4", ("robotics",)).text(tokenizer)
    assert "predict_action_chunk(observation, budget=4).chunk" in more
    assert "tags: [robotics]" in more
