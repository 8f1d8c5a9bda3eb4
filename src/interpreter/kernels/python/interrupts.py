"""interrupts.py - SIGINT raises KeyboardInterrupt in the user's code, and nowhere else.

A signal between executions is ignored. One that comes while a message is being written is kept until the
message is whole. Python runs handlers of signals in the main thread, so only that one is looked at."""
import _thread
import signal


class Interrupts:
    def __init__(self):
        self.main = _thread.get_ident()
        self.user = False     # the user's code runs
        self.depth = 0        # how many sections hold signals back
        self.pending = False  # one came meanwhile
        self.seen = False     # one came in this execution

    def install(self):
        """Again before each execution: the one before may have set a handler of its own."""
        signal.signal(signal.SIGINT, self.on_signal)

    def on_signal(self, _number, _frame):
        if not self.user:
            return
        self.seen = True
        if self.depth:
            self.pending = True
        else:
            raise KeyboardInterrupt

    def enter_user_code(self):
        self.pending = self.seen = False
        self.user = True

    def leave_user_code(self):
        while self.user:
            try:
                self.user = False
            except KeyboardInterrupt:  # came just before the assignment
                pass

    def __enter__(self):
        if _thread.get_ident() == self.main:
            self.depth += 1

    def __exit__(self, *_error):
        if _thread.get_ident() != self.main:
            return
        self.depth -= 1
        if self.pending and self.depth == 0:
            self.pending = False
            if self.user:
                raise KeyboardInterrupt
