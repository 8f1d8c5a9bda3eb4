"""The scripted kernel behind a parent that forks, as the one of Python is. A directory called "fail" is refused."""
import array
import json
import os
import pathlib
import signal
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
control = socket.socket(fileno=3)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
control.sendall(b'{"type":"ready"}\n')
while True:
    data, ancillary, _, _ = control.recvmsg(65536, socket.CMSG_SPACE(12))
    if not data:
        break
    fds = array.array("i")
    for _, _, part in ancillary:
        fds.frombytes(part[:12])
    request = json.loads(data)
    if request["cwd"].endswith("/fail"):
        control.sendall(b'{"type":"failed","message":"refused by the test"}\n')
    else:
        pid = os.fork()
        if pid == 0:
            os.setsid()
            os.chdir(request["cwd"])
            control.detach()
            for fd, at in zip(fds, (3, 1, 2)):
                os.dup2(fd, at)
            import scripted
            scripted.serve()
            os._exit(0)
        control.sendall(json.dumps({"type": "spawned", "pid": pid}).encode() + b"\n")
    for fd in fds:
        os.close(fd)
