"""level_differences.py - what a level does in another way than a container: {name: {level: what happens there}}.

Each name is a row of the table of its level in doc/levels.md, and is asked for by at least one test (level.differs() or
level.instead()), which shows what happens there. tests/levels/test_differences.py compares the three."""

LEVELS = ("gvisor", "microvm")
DIFFERENCES = {
    "set-user-id": {"gvisor": "sudo is refused; programs run as root with user: root"},
    "memory": {
        "gvisor": "the program or the whole guest ends, told as the limit memory or the reason oom",
        "microvm": "programs are killed by the guest's kernel, which never ends by it",
    },
    "random addresses": {"microvm": "programs of an emulated guest are at the same addresses each time"},
    "least memory": {"microvm": "below 128 MiB: refused"},
    "pids": {"gvisor": "fork fails with EAGAIN near the limit, and no limit is told"},
    "/proc/PID": {"gvisor": "environment and map of root's programs can be read"},
    "raw terminals": {"gvisor": "^C, ^Z and ^\\ send their signals where kilobytes of input wait before them"},
    "PID 1": {"gvisor": "root's kill ends the session: engine_exited"},
    "writable directories of the machine, volumes": {"gvisor": "refused"},
    "mounts": {"microvm": "refused"},
    "storage on disk": {"microvm": "refused, and so are persistent sessions"},
    "extended attributes": {"gvisor": "EOPNOTSUPP", "microvm": "user.*: EOPNOTSUPP, before Linux 6.6"},
    "/dev/shm": {"gvisor": "in no diff, and counts as memory"},
    "/dev, /proc, /sys": {"gvisor": "/sys has entries, /dev can be written by root, NoNewPrivs is not shown"},
    "FIFOs and sockets in files": {"gvisor": "in no diff"},
    "controlling terminal": {"gvisor": "/dev/tty: EIO; ps names no terminal"},
    "size of a terminal": {"gvisor": "no SIGWINCH for another process group than the program's own"},
    "no network access": {"microvm": "ECONNRESET, and other addresses do not lead to the session's own servers"},
    "root in the profile locked": {"microvm": "refused"},
    "size of files": {"microvm": "a result of cordon run does not count those of the guest"},
    "open files of the machine": {"gvisor": "EMFILE for programs, if those of cordon's caller are few"},
    "records of the network": {"gvisor": "execution_id is null"},
    "system calls": {"gvisor": "no pidfd_open, kernel 4.4.0"},
    "long arguments": {"gvisor": "ENAMETOOLONG"},
    "kernel": {"microvm": "Debian's kernel for virtual machines"},
    "uploads that break off": {"gvisor": "a file .cordon-new-* stays", "microvm": "a file .cordon-new-* stays, before Linux 6.10"},
    "watchers of files": {"gvisor": "end at the next change"},
    "secrets as a socket": {"gvisor": "are not answered"},
    "removing a file that is not there": {"gvisor": "EACCES"},
    "times of files": {"microvm": "by the guest's clock: report_changes lists what changed up to 2 s before, too"},
    "values printed byte by byte": {"microvm": "the beginning is shown, if that takes longer than 25 ms"},
    "memory images": {"microvm": "programs of a snapshot run in its sessions"},
}
