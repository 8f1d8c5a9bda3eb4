"""cells.py - what can be seen of processes and cells from outside: /proc, the cgroups, ports."""
import os
import re
import socket


def comm(pid):
    try:
        with open(f"/proc/{pid}/comm") as f:
            return f.read().strip()
    except OSError:
        return ""


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return [int(word) for word in f.read().split()]
    except OSError:
        return []


def rss(pid):
    """Bytes of memory that the process really has."""
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cgroups_of(ids):
    """Directories of these cells, in any hierarchy."""
    names = {"cordon-" + i for i in ids}
    return [os.path.join(f, n) for f, dirs, _ in os.walk("/sys/fs/cgroup") for n in dirs if n in names]


def processes_of(ids):
    """{pid: id} of the processes that are in these cells."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cgroup") as f:
                match = re.search(r"/cordon-([a-z0-9]+)", f.read())
        except OSError:
            continue
        if match and match[1] in ids:
            found[int(pid)] = match[1]
    return found


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
