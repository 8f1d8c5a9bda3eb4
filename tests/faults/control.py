"""control.py - which call of a program of the fault build fails, and how often it was made (faults.c has the other
side)."""
import errno
import mmap
import os
import struct

KINDS = (
    "epoll_add", "open", "write", "read", "pipe", "socketpair", "socket", "splice", "accept", "send", "truncate", "sync",
    "dup", "step",
)  # fmt: skip
FULL, BUSY, IOERR = 13, 5, 10  # of SQLite
# What each of them may fail with; the first is what a short run tries.
ERRORS = {
    "epoll_add": (errno.ENOSPC, errno.ENOMEM),
    "open": (errno.EMFILE, errno.EIO, errno.ENOSPC),
    "write": (errno.ENOSPC, errno.EIO),
    "read": (errno.EIO,),
    "pipe": (errno.EMFILE,),
    "socketpair": (errno.EMFILE,),
    "socket": (errno.EMFILE, errno.ENOBUFS),
    "splice": (errno.ENOMEM, errno.EIO, errno.ENOSPC),
    "accept": (errno.EMFILE, errno.ECONNABORTED, errno.ENOMEM),
    "send": (errno.ENOBUFS, errno.EPIPE),
    "truncate": (errno.EIO,),
    "sync": (errno.EIO,),
    "dup": (errno.EMFILE,),
    "step": (FULL, BUSY, IOERR),
}
FORM = struct.Struct(f"<4IQ{2 * len(KINDS)}I{2 * len(KINDS)}QQ")
NO_SEED = 0


def error_name(kind, error):
    if kind == "step":
        return {FULL: "SQLITE_FULL", BUSY: "SQLITE_BUSY", IOERR: "SQLITE_IOERR"}[error]
    return errno.errorcode[error]


class Control:
    """Of one program. It maps the file when it starts, so this is made before."""

    def __init__(self, folder, program):
        path = os.path.join(folder, "faults-" + program)
        with open(path, "wb") as f:
            f.write(bytes(4096))
        os.chmod(path, 0o666)
        with open(path, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), 4096)

    def write(self, armed, kind=0, nth=0, error=0, seed=NO_SEED, every=None):
        every = every or {}
        rates = [every.get(k, (0, 0))[0] for k in KINDS]
        errors = [every.get(k, (0, 0))[1] for k in KINDS]
        old = FORM.unpack_from(self.map)
        # the switch last: the program looks at any time
        self.map[0:4] = struct.pack("<I", 0)
        self.map[4 : FORM.size] = FORM.pack(
            0, kind, nth, error, seed, *rates, *errors, *([0] * (2 * len(KINDS))), old[-1]
        )[4:]
        self.map[0:4] = struct.pack("<I", armed)

    def arm(self, kind, nth, error):
        """The nth call of this kind fails, counted from now."""
        self.write(1, KINDS.index(kind), nth, error)

    def arm_random(self, seed, every):
        """About one call in every[kind][0] fails with every[kind][1]."""
        self.write(1, 0, 0, 0, seed, every)

    def count(self):
        """Nothing fails, calls are counted."""
        self.write(1)

    def disarm(self):
        self.map[0:4] = struct.pack("<I", 0)

    def calls(self):
        values = FORM.unpack_from(self.map)
        return dict(zip(KINDS, values[-1 - 2 * len(KINDS) : -1 - len(KINDS)]))

    def failed(self):
        """How many calls were made to fail since it was armed."""
        return sum(FORM.unpack_from(self.map)[-1 - len(KINDS) : -1])

    def allocated(self):
        """Bytes, as of the last call while it was armed."""
        return FORM.unpack_from(self.map)[-1]
