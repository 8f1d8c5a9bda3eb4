"""session.py - one kernel: takes requests from the channel, one after the other, and answers them.

For each {"op":"execute"}: "count", then what the code prints, gives and raises, at the end always "done".
A shell (ishell.py, plain.py) runs the code and calls report_result() and report_error() here."""
import builtins
import os
import signal
import sys
import traceback

from . import agg, background, commands, environment, fields, images, late, values
from .channel import Channel, move_high
from .interrupts import Interrupts, watch_lost, wrap_signal_functions
from .output import Output

ERROR_VALUE_MAX = 1 << 16
TRACEBACK_MAX = 1 << 18
RECURSION_MIN = 1000


def make_shell():
    """The shell, without a session: what can be done before a fork. IPython's if it is there."""
    try:
        from . import ishell
        shell = ishell.make()
    except Exception as error:  # not installed, or a version that is unlike those known
        from . import plain
        if not isinstance(error, ImportError):
            print("cordon: IPython cannot be used: %r" % error, file=sys.stderr)
        shell = plain.Shell()
    # Before it is imported: a backend can be chosen freely only until pyplot is there.
    late.install({"matplotlib": shell.use_matplotlib, "matplotlib.backends.backend_agg": agg.use})
    return shell


class Session:
    def __init__(self, shell, fd):
        self.pid = os.getpid()
        self.pipes = (move_high(1, keep=True), move_high(2, keep=True))
        self.interrupts = Interrupts(self.run_user_code.__code__)
        self.channel = Channel(fd, self.interrupts)
        self.output = Output(self.channel, self.interrupts, self.pipes)
        self.shell = shell
        agg.session = self
        self.count = 0
        self.failed = False

    def report_result(self, bundle, is_main):
        text, dropped = fields.result_message(bundle, is_main)
        if dropped:
            self.output.stderr.write("cordon: too large for a result, left out: "
                                     + ", ".join(dropped) + "\n")
        self.output.flush()
        if text is not None:
            self.channel.send_text(text)

    def report_error(self, name, value, lines):
        """One for each execution; more become text on stderr. A second interrupt waits until it is sent."""
        text, value = fields.cut(lines, TRACEBACK_MAX), fields.cut(value, ERROR_VALUE_MAX)
        with self.interrupts:
            first, self.failed = not self.failed, True
            if first and not self.channel.forked:
                self.output.flush()
                self.channel.send(type="error", name=str(name), value=value, traceback=text)
                return
        self.output.stderr.write(text + "\n")

    def end_if_forked(self, code):
        """sys.exit() in a process that the user's code forked."""
        if not self.channel.forked:
            return
        if code is not None and not isinstance(code, int):
            self.output.stderr.write(str(code) + "\n")
            code = 1
        self.output.flush()
        os._exit((code or 0) & 255)

    def report_exception(self, error):
        """Of the kernel's own, or an interrupt at its edge: the shell has reported all others."""
        if isinstance(error, KeyboardInterrupt) and self.failed:
            return
        lines = traceback.format_exception(type(error), error, error.__traceback__)
        self.report_error(type(error).__name__, fields.safe_text(error), "".join(lines))

    def run_user_code(self, code, silent):
        """Signals have an effect in here, and nowhere else (interrupts.py)."""
        self.interrupts.enter_user_code()
        if self.channel.interrupt_waits():
            raise KeyboardInterrupt
        self.shell.run(code, self.count, silent)
        agg.end_cell()

    def run(self, code, silent):
        try:
            self.run_user_code(code, silent)
        except BaseException as error:
            self.interrupts.leave_user_code()
            self.report_exception(error)
        self.interrupts.leave_user_code()
        if os.getpid() != self.pid:  # forked by the code, and not ended by it
            self.output.flush()
            os._exit(1 if self.failed else 0)

    def execute(self, request):
        code, variables = request.get("code"), request.get("env")
        silent = bool(request.get("silent"))
        self.failed = False
        self.repair()
        before = environment.set_call(variables if isinstance(variables, dict) else {})
        if not silent:
            self.count += 1
            self.channel.send(type="count", execution_count=self.count)
        code = values.clean_text(code).lstrip("\ufeff") if isinstance(code, str) else ""
        if "\0" in code:
            message = "source code string cannot contain null bytes"
            self.report_error("SyntaxError", message, "SyntaxError: " + message)
        else:
            self.run(code, silent)
        self.interrupts.install()
        environment.restore(before)
        flush_libc()
        self.output.flush()
        self.channel.send(type="done", id=request.get("id"))

    def repair(self):
        """What an execution before may have left unusable."""
        if sys.getrecursionlimit() < RECURSION_MIN:
            sys.setrecursionlimit(RECURSION_MIN)
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name, None)
            if getattr(stream, "closed", True) or not hasattr(stream, "write"):
                setattr(sys, name, getattr(self.output, name))
        try:
            os.getcwd()
        except OSError:  # the directory was removed
            os.chdir("/")

    def serve(self):
        self.channel.send(type="ready")
        if not self.channel.is_readable():
            self.shell.touch()
        while True:
            background.run_until(self.channel)
            request = self.channel.receive()
            if request is None:
                self.output.flush()
                os._exit(0)
            if request.get("op") == "execute":
                self.execute(request)
            elif request.get("op") == "env" and isinstance(request.get("env"), dict):
                environment.set_session(request["env"])


def flush_libc():
    """Text that native code left in libc's buffers; only if ctypes is there already."""
    ctypes = sys.modules.get("ctypes")
    if ctypes is not None:
        try:
            ctypes.pythonapi.fflush(None)
        except Exception:
            pass


def no_input(prompt="", /):
    raise EOFError("input() is not available: code that is run here has no standard input")


def start(shell, fd):
    """Makes this process a kernel whose channel is fd. Does not return."""
    session = Session(shell, fd)
    session.interrupts.install()
    wrap_signal_functions(session.interrupts)
    watch_lost(session.interrupts)
    sys.stdout, sys.stderr = session.output.stdout, session.output.stderr
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
    builtins.input = no_input
    environment.set_defaults()
    commands.order_output(session.output)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        import faulthandler
        faulthandler.enable(session.pipes[1])
    except (ImportError, OSError, RuntimeError):
        pass
    shell.attach(session)
    late.install({"PIL.Image": lambda module: images.install(module, session)})
    session.serve()
