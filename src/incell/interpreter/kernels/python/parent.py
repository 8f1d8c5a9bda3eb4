"""parent.py - the warm process: it imports what kernels need and forks one for each request.

It runs no code of the user's, has one thread, and answers on its control socket:
  {"op":"spawn","cwd":"/home/user"} with three descriptors (channel, stdout, stderr) on the first byte
  -> {"type":"spawned","pid":N}, and {"type":"exited","pid":N,"status":S} when that kernel has ended.
{"type":"ready"} comes first, when all is imported. It ends with its control socket; kernels do not.

CORDON_INTERPRETER_WARM="numpy,pandas,matplotlib.pyplot" names modules that are imported in advance, which
costs their memory once in every session. Libraries that start threads when they are imported are told to
use one, because a fork copies only the thread that calls it."""
import array
import errno
import gc
import importlib
import json
import os
import random
import select
import signal
import socket
import sys

from . import fonts, session

WARM = "CORDON_INTERPRETER_WARM"
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS",
              "VECLIB_MAXIMUM_THREADS")
LINE_MAX = 1 << 16
IDLE_MS = 500  # then there is time for the list of fonts
PR_SET_PDEATHSIG = 1


def import_extra():
    """Modules of the setting; one that is missing or fails is left to the user's code."""
    names = [name.strip() for name in os.environ.get(WARM, "").split(",") if name.strip()]
    if not names:
        return
    unset = [name for name in ONE_THREAD if name not in os.environ]
    os.environ.update((name, "1") for name in unset)
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException as error:
            print("cordon: cannot import %s in advance: %s" % (name, error), file=sys.stderr)
    for name in unset:
        os.environ.pop(name, None)


def die_with_parent(parent):
    """A kernel in an endless loop would outlive cordon-interpreter, whose end ends this process."""
    try:
        import ctypes
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        return
    if os.getppid() != parent:
        os._exit(1)


def reseed():
    random.seed()
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy.random" in sys.modules:
        numpy.random.seed()


def ends():
    """Where there are no pidfds (gVisor): a pipe that a child keeps open until it ends. Else nothing."""
    try:
        os.close(os.pidfd_open(os.getpid()))
        return ()
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        return os.pipe()


class Parent:
    def __init__(self, fd, shell):
        self.control = socket.socket(fileno=fd)
        self.control.setblocking(True)
        os.set_inheritable(fd, False)
        self.shell = shell
        self.pid = os.getpid()
        self.kernels = {}  # a descriptor that is ready when the process has ended -> pid
        self.fonts = 0     # the process that makes the list of fonts
        self.fonts_due = True
        self.poll = select.poll()
        self.poll.register(fd, select.POLLIN)
        self.unread = b""
        self.passed = []  # descriptors that came and belong to no request yet

    def send(self, **message):
        self.control.sendall(json.dumps(message).encode("ascii") + b"\n")

    def receive(self):
        """Reads what is there; False at the end of the socket."""
        space = socket.CMSG_SPACE(16 * array.array("i").itemsize)
        data, ancillary, _flags, _from = self.control.recvmsg(LINE_MAX, space, socket.MSG_CMSG_CLOEXEC)
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                numbers = array.array("i")
                numbers.frombytes(payload[:len(payload) - len(payload) % numbers.itemsize])
                self.passed += numbers
        self.unread += data
        return bool(data) and len(self.unread) <= LINE_MAX * 2

    def take_requests(self):
        while b"\n" in self.unread:
            line, _, self.unread = self.unread.partition(b"\n")
            try:
                request = json.loads(line)
            except ValueError:
                continue
            if isinstance(request, dict) and request.get("op") == "spawn" and len(self.passed) >= 3:
                fds, self.passed = self.passed[:3], self.passed[3:]
                self.spawn(fds, request.get("cwd"))

    def spawn(self, fds, cwd):
        ended = ends()
        try:
            pid = os.fork()
        except OSError as error:
            self.send(type="failed", message=str(error))
            pid = -1
        if pid == 0:
            self.become_kernel(fds, cwd)
        for fd in fds:
            os.close(fd)
        self.watch(pid, ended)
        if pid > 0:
            self.send(type="spawned", pid=pid)

    def become_kernel(self, fds, cwd):
        """In the child. Never returns."""
        try:
            os.setsid()
            die_with_parent(self.pid)
            self.control.close()
            for fd in self.kernels:
                os.close(fd)
            # The given ones have numbers above 3, because 0 to 3 were taken.
            for given, number in zip(fds, (3, 1, 2)):
                os.dup2(given, number)
                os.close(given)
            try:
                os.chdir(cwd if isinstance(cwd, str) else "/")
            except (OSError, ValueError):
                os.chdir("/")
            reseed()
            session.start(self.shell, 3)
        except BaseException as error:
            try:
                os.write(2, ("cordon: the kernel cannot start: %r\n" % error).encode())
            except OSError:
                pass
        os._exit(1)

    def make_fonts(self):
        """Starts a process that makes the list of fonts, at the lowest priority."""
        self.fonts_due = False
        if not fonts.are_wanted():
            return
        ended = ends()
        try:
            pid = os.fork()
        except OSError:
            pid = -1
        if pid == 0:
            try:
                die_with_parent(self.pid)
                self.control.close()
                os.nice(19)
                fonts.make_list()
            finally:
                os._exit(0)
        self.watch(pid, ended)
        self.fonts = max(pid, 0)

    def watch(self, pid, ended):
        """ended: of ends(), before the fork. pid -1: there is no process."""
        for fd in ended[1:]:
            os.close(fd)
        if pid < 0:
            for fd in ended[:1]:
                os.close(fd)
            return
        fd = ended[0] if ended else os.pidfd_open(pid)
        self.kernels[fd] = pid
        self.poll.register(fd, select.POLLIN)

    def reap(self, fd):
        pid = self.kernels.pop(fd)
        self.poll.unregister(fd)
        os.close(fd)
        _pid, status = os.waitpid(pid, 0)
        if pid != self.fonts:
            self.send(type="exited", pid=pid, status=status)

    def serve(self):
        self.send(type="ready")
        while True:
            ready = self.poll.poll(IDLE_MS if self.fonts_due else None)
            if not ready:
                self.make_fonts()
            for fd, _events in ready:
                if fd in self.kernels:
                    self.reap(fd)
                elif self.receive():
                    self.take_requests()
                else:
                    return


def serve(fd, writes_bytecode):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.chdir("/")
    shell = session.make_shell()
    sys.dont_write_bytecode = writes_bytecode
    import_extra()
    try:
        import ctypes  # noqa: F401  for die_with_parent()
    except ImportError:
        pass
    shell.warm()
    gc.collect()
    gc.freeze()
    try:
        Parent(fd, shell).serve()
    except (BrokenPipeError, ConnectionError):
        pass
    os._exit(0)
