"""background.py - the event loop of the user's code: top-level await, and tasks between cells.

asyncio is imported with the first cell that needs it."""
import sys

loop = None
interrupted = False  # the last cell that awaited was cancelled by an interrupt
CANCEL_TURNS = 1000


def get_loop():
    global loop
    import asyncio
    if loop is None or loop.is_closed():
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
    return loop


def run(coroutine):
    """Runs a coroutine to its end. An interrupt cancels it first, so that nothing of it goes on later."""
    global interrupted
    interrupted = False
    its_loop = get_loop()
    task = its_loop.create_task(coroutine)
    try:
        return its_loop.run_until_complete(task)
    except KeyboardInterrupt:
        if task.done():
            raise
        interrupted = True
        task.cancel()
        for _ in range(CANCEL_TURNS):
            if task.done():
                break
            its_loop.call_soon(its_loop.stop)
            its_loop.run_forever()
        if task.done() and not task.cancelled() and task.exception() is None:
            return task.result()  # the shell has reported it
        raise


def run_until(channel):
    """Runs tasks that cells left behind, until a request is there to be read."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or loop is None or loop.is_closed():
        return
    if channel.unread or channel.is_readable() or not asyncio.all_tasks(loop):
        return
    try:
        loop.add_reader(channel.fd, loop.stop)
        loop.run_forever()
    except Exception:
        pass
    finally:
        try:
            loop.remove_reader(channel.fd)
        except Exception:
            pass
