"""Functions that run in several processes at once, which form a process group of torch."""

import multiprocessing
import pickle
import traceback

from torch import distributed

# Usual seconds until a process that does not answer is given up.
PATIENCE = 120


def together(folder, size, work, patience=PATIENCE, *, backend="gloo", start="fork"):
    """Return what `work(group)` returns in each of several processes, or its error.

    Args:
        folder: An empty folder, where the processes find each other.
        size: How many processes.
        work: The function; its result must survive pickling.
        patience: Seconds until a process that does not answer is given up.
        backend: How they exchange numbers.
        start: How they are started; "spawn" if they use a GPU, and `work` must be pickled then.
    """
    context = multiprocessing.get_context(start)
    running = []
    for rank in range(size):
        here, there = context.Pipe(duplex=False)
        arguments = (folder / "group", backend, size, rank, work, there)
        process = context.Process(target=_run, args=arguments, daemon=True)
        process.start()
        there.close()
        running.append((process, here))
    found = [_receive(here, patience) for _, here in running]
    for process, _ in running:
        process.join(PATIENCE)
    return found


def _receive(pipe, patience):
    if not pipe.poll(patience):
        return TimeoutError("a process did not answer")
    try:
        return pickle.loads(pipe.recv_bytes())
    except EOFError:
        return EOFError("a process was killed")


def _run(file, backend, size, rank, work, pipe):
    try:
        distributed.init_process_group(backend, f"file://{file}", rank=rank, world_size=size)
        found = work(distributed.group.WORLD)
    except BaseException as error:
        error.add_note(traceback.format_exc())
        found = error
    pipe.send_bytes(pickle.dumps(found))
    pipe.close()
