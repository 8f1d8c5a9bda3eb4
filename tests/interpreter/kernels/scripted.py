"""scripted.py - a kernel that does what its code says, down to the bytes: for kernels that user code has taken over.

The code is Python, run with `send` (a message), `raw` (bytes on the channel), `out` and `err` (bytes on pipes 1 and 2),
`request` (the whole request), `envs` (all environments it was told) and whatever earlier code has defined. It sends
`count` before and `done` behind by itself, unless the code defines `silent = True`."""
import json
import os
import signal
import socket
import sys

channel = socket.socket(fileno=3)
reader = channel.makefile("rb")
raw = channel.sendall
space = {"envs": [], "count": 0}


def send(**message):
    raw(json.dumps(message).encode() + b"\n")


def out(data):
    os.write(1, data)


def err(data):
    os.write(2, data)


def execute(request):
    space.update(send=send, raw=raw, out=out, err=err, request=request, silent=False, os=os, sys=sys, signal=signal)
    space["count"] += 1
    if "# raw" not in request["code"]:
        send(type="count", execution_count=space["count"])
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        exec(request["code"], space)
    except KeyboardInterrupt:
        send(type="error", name="KeyboardInterrupt", value="", traceback="interrupted")
    except SystemExit:
        raise
    except BaseException as e:
        send(type="error", name=type(e).__name__, value=str(e), traceback=f"{type(e).__name__}: {e}")
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not space["silent"]:
        send(type="done", id=request["id"])


def serve():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    send(type="ready")
    for line in reader:
        request = json.loads(line)
        if request["op"] == "env":
            space["envs"].append(request["env"])
        elif request["op"] == "execute":
            execute(request)


if __name__ == "__main__":
    serve()
