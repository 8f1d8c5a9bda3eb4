"""ipykernel driven by jupyter_client, as code interpreters on Jupyter do it. Called by interpreter.py with Debian's Python; prints
one JSON object: milliseconds of each step, and the memory of the kernel and of this process, which drives it.

    jupyter_peer.py ROUNDS WARM
"""
import json
import os
import pathlib
import sys
import time

from jupyter_client.manager import KernelManager

ROUNDS, WARM = int(sys.argv[1]), int(sys.argv[2])
PLOT = "import matplotlib; matplotlib.use('module://matplotlib_inline.backend_inline')\nimport matplotlib.pyplot as plt; plt.plot([1, 2, 3]); plt.show()"


def execute(client, code):
    """Milliseconds until the kernel is idle again, and the types of what it sent."""
    begin, kinds = time.perf_counter(), []
    wanted = client.execute(code)
    while True:
        message = client.get_iopub_msg(timeout=60)
        if message["parent_header"].get("msg_id") != wanted:
            continue
        kinds.append(message["msg_type"])
        if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
            return (time.perf_counter() - begin) * 1e3, kinds


def pss(pid):
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))


def start():
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    return manager, client


times = {"first": [], "warm": [], "plot": [], "kib": [], "driver_kib": []}
for _ in range(ROUNDS):
    begin = time.perf_counter()
    manager, client = start()
    _, kinds = execute(client, "1+1")
    times["first"].append((time.perf_counter() - begin) * 1e3)
    assert "execute_result" in kinds, kinds
    times["warm"] += [execute(client, "1+1")[0] for _ in range(WARM)]
    times["kib"].append(pss(manager.provisioner.pid))
    times["driver_kib"].append(pss(os.getpid()))
    took, kinds = execute(client, PLOT)
    if "display_data" in kinds:
        times["plot"].append(took)
    client.stop_channels()
    manager.shutdown_kernel(now=True)
print(json.dumps(times))
