"""Worker processes that end when their parent does, however it ends."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from oatkit.evaluation.worker_processes import END_AFTER_S, require_guard, starting


@contextmanager
def worker_pool(num_workers: int) -> Iterator[ProcessPoolExecutor]:
    """A pool whose workers end at once when the block fails or this process dies.

    Workers read from a pipe whose other end only this process holds, and end when it closes.
    """
    context = multiprocessing.get_context("spawn")
    lifeline, held_end = context.Pipe(duplex=False)
    with lifeline, held_end:
        pool = ProcessPoolExecutor(
            num_workers, mp_context=context, initializer=_prepare_worker, initargs=(lifeline,)
        )
        others, workers = set(multiprocessing.active_children()), set[BaseProcess]()
        try:
            with starting():
                for _ in range(num_workers):
                    pool.submit(os.getpid)  # starts a worker, unless one has ended already
                    workers |= set(multiprocessing.active_children()) - others
            yield pool
        except BrokenProcessPool:
            for worker in workers:
                worker.join(END_AFTER_S)
                require_guard(worker.exitcode)
            raise
        except BaseException:
            held_end.close()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _prepare_worker(lifeline: Connection) -> None:
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()


def _end_with(lifeline: Connection) -> None:
    try:
        lifeline.recv_bytes()
    except EOFError:
        os._exit(1)
