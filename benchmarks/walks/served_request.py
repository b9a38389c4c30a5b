"""One served request: the way of a message through the server, and of the reply back.

A profiler of calls between files looks at the lines between `# walk` and `# end`. The event loop
runs in this thread; the inference thread, which takes requests from the queue, was started before,
and the way of a prediction is in `prediction.py`.
"""

import asyncio
import atexit
import contextlib
import functools
import tempfile
from pathlib import Path

from oatkit_client import Client

from oatkit.serve import PolicyServer, ServeConfig
from tests.serve.slow import OBSERVATION, make_policy

loop = asyncio.new_event_loop()
server = PolicyServer(make_policy(Path(tempfile.mkdtemp())), ServeConfig(port=0, max_batch=1))
server.start()
stop, address = asyncio.Event(), loop.create_future()
running = loop.create_task(server.run(stop, address.set_result))
client = Client(loop.run_until_complete(address))


def close() -> None:
    """Stop the server when the program ends."""
    stop.set()
    with contextlib.suppress(RuntimeError):  # at the end of a program no thread can be started
        loop.run_until_complete(running)


atexit.register(close)
ask = functools.partial(client.infer, OBSERVATION, budget=2)
for _ in range(2):
    loop.run_until_complete(loop.run_in_executor(None, ask))
# walk
loop.run_until_complete(loop.run_in_executor(None, ask))
# end
