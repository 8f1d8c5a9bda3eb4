"""interrupts.py - signals never break a message, and SIGINT is a KeyboardInterrupt in the user's code only.

Python runs handlers of signals in the main thread, between any two instructions, and a handler may raise.
So while a message is written (`with interrupts:`) handlers wait until it is whole: ours for SIGINT, and
those of the user's code, for which signal.signal() is wrapped. Outside of the user's code SIGINT is
ignored, and what a handler raises is reported on stderr."""
import _thread
import os
import signal
import sys
import time
import traceback

AGAIN_SECONDS = 0.005


class Interrupts:
    def __init__(self):
        self.main = _thread.get_ident()
        self.user = False  # the user's code runs
        self.depth = 0     # how many sections hold signals back
        self.waiting = []  # (handler, number, frame) that came meanwhile
        self.seen = False  # SIGINT came in this execution

    def install(self):
        """Also after each execution, which may have set a handler of its own."""
        set_handler(signal.SIGINT, self.on_interrupt)

    def on_interrupt(self, number, frame):
        if not self.user:
            return
        self.seen = True
        self.call(raise_interrupt, number, frame)

    def call(self, handler, number, frame):
        """A handler: now, or when the message is whole."""
        if self.depth:
            self.waiting.append((handler, number, frame))
        elif self.user:
            handler(number, frame)
        else:
            try:
                handler(number, frame)
            except BaseException:
                traceback.print_exc(file=sys.stderr)

    def enter_user_code(self):
        self.waiting.clear()
        self.seen = False
        self.user = True

    def leave_user_code(self):
        while self.user:
            try:
                self.user = False
            except BaseException:  # a handler that came just before the assignment
                pass

    def before_fork(self):
        """What is raised in functions that Python calls around a fork is lost: nothing is until after it."""
        if _thread.get_ident() == self.main:
            self.depth += 1

    def after_fork_in_parent(self):
        if _thread.get_ident() != self.main:
            return
        self.depth -= 1
        if self.waiting and self.depth == 0:
            numbers = {number for _handler, number, _frame in self.waiting}
            self.waiting.clear()
            _thread.start_new_thread(send_again, (numbers,))

    def after_fork_in_child(self):
        self.depth = 0
        self.waiting.clear()

    def __enter__(self):
        if _thread.get_ident() == self.main:
            self.depth += 1

    def __exit__(self, *_error):
        if _thread.get_ident() != self.main:
            return
        self.depth -= 1
        while self.waiting and self.depth == 0:
            handler, number, frame = self.waiting.pop(0)
            if self.user or handler is not raise_interrupt:
                self.call(handler, number, frame)


def send_again(numbers):
    time.sleep(AGAIN_SECONDS)
    for number in numbers:
        os.kill(os.getpid(), number)


def raise_interrupt(_number, _frame):
    raise KeyboardInterrupt


class Handler:
    """A handler of the user's code, called by way of Interrupts."""
    def __init__(self, interrupts, handler):
        self.interrupts = interrupts
        self.handler = handler

    def __call__(self, number, frame):
        self.interrupts.call(self.handler, number, frame)


set_handler, get_handler = signal.signal, signal.getsignal


def unwrapped(handler):
    return handler.handler if isinstance(handler, Handler) else handler


def wrap_signal_functions(interrupts):
    """signal.signal() and signal.getsignal() of this process, for the user's code."""
    def wrapped_signal(signalnum, handler, /):
        if callable(handler) and not isinstance(handler, (Handler, signal.Handlers)):
            handler = Handler(interrupts, handler)
        return unwrapped(set_handler(signalnum, handler))

    def wrapped_getsignal(signalnum, /):
        return unwrapped(get_handler(signalnum))

    wrapped_signal.__doc__, wrapped_getsignal.__doc__ = set_handler.__doc__, get_handler.__doc__
    wrapped_signal.__name__, wrapped_getsignal.__name__ = "signal", "getsignal"
    signal.signal, signal.getsignal = wrapped_signal, wrapped_getsignal
