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
    def __init__(self, runner):
        self.runner = runner
        self.main = _thread.get_ident()
        self.user = False  # the user's code runs
        self.number = 0    # of the execution
        self.depth = 0     # how many sections hold signals back
        self.forking = False
        self.waiting = []  # (handler, number, frame) that came meanwhile
        self.seen = False  # SIGINT came in this execution
        self.traced = False  # an interrupt waits for the next line of the user's code

    def install(self):
        """Also after each execution, which may have set a handler of its own."""
        set_handler(signal.SIGINT, self.on_interrupt)
        # The server sends it while an interrupt has no effect: a SIGINT that came just before a system call waits
        # for the end of that call, unless another signal breaks it off.
        set_handler(signal.SIGURG, on_nudge)

    def on_interrupt(self, number, frame):
        if self.is_user_code(frame):
            self.seen = True
            self.call(raise_interrupt, number, frame)

    def is_user_code(self, frame):
        """Whether it was called by what runs the user's code. A flag alone could not be cleared in time:
        another signal may come before it is."""
        while self.user and frame is not None:
            if frame.f_code is self.runner:
                return True
            frame = frame.f_back
        return False

    def call(self, handler, number, frame):
        """A handler: now, or when the message is whole."""
        if self.depth or self.forking:
            self.waiting.append((handler, number, frame))
        elif self.is_user_code(sys._getframe()):
            handler(number, frame)
        else:
            try:
                handler(number, frame)
            except BaseException:
                traceback.print_exc(file=sys.stderr)

    def enter_user_code(self):
        """From here on, in the function that `runner` is the code of."""
        self.waiting.clear()
        self.seen = False
        self.number += 1
        self.user = True

    def leave_user_code(self):
        self.user = False
        if self.traced:
            self.end_trace()

    def raise_at_next_line(self, frame):
        """In whichever function of the user's code goes on first: this one, or one that has called it."""
        def on_line(_frame, event, _value):
            if event == "line":
                self.end_trace()
                raise KeyboardInterrupt
            return on_line

        while frame is not None and frame.f_code is not self.runner:
            frame.f_trace = on_line
            frame = frame.f_back
        self.traced = True
        sys.settrace(lambda *_call: None)

    def end_trace(self):
        self.traced = False
        sys.settrace(None)

    def before_fork(self):
        """No handler runs until the fork is done: not in the functions that Python calls around it."""
        self.forking = _thread.get_ident() == self.main

    def after_fork_in_parent(self):
        self.forking = False
        if self.waiting and not self.depth:
            numbers = {number for _handler, number, _frame in self.waiting}
            self.waiting.clear()
            self.send_later(numbers)

    def send_later(self, numbers):
        """Signals that were lost are sent again, if the execution that they were for still runs then."""
        _thread.start_new_thread(send_again, (self, self.number, numbers))

    def after_fork_in_child(self):
        self.depth, self.forking = 0, False
        self.waiting.clear()

    def __enter__(self):
        if _thread.get_ident() == self.main:
            self.depth += 1

    def __exit__(self, *_error):
        if _thread.get_ident() != self.main:
            return
        self.depth -= 1
        while self.waiting and self.depth == 0 and not self.forking:
            handler, number, frame = self.waiting.pop(0)
            if handler is not raise_interrupt or self.is_user_code(sys._getframe()):
                self.call(handler, number, frame)


def send_again(interrupts, execution, numbers):
    time.sleep(AGAIN_SECONDS)
    pid, kill = os.getpid(), os.kill
    for number in numbers:
        # No other thread runs between these two: an interrupt of one execution must not hit the next.
        if interrupts.user and interrupts.number == execution:
            kill(pid, number)


def on_nudge(_number, _frame):
    pass


def raise_interrupt(_number, _frame):
    raise KeyboardInterrupt


def watch_lost(interrupts):
    """What is raised in destructors, callbacks of weak references and functions around a fork is printed by
    Python, and lost. An interrupt is raised at the next line around it instead, and sent again: code that calls
    destructors all the time would hardly ever be hit outside of them by signals alone."""
    report = sys.unraisablehook

    def on_unraisable(what, /):
        if interrupts.user and what.exc_type is KeyboardInterrupt:
            interrupts.raise_at_next_line(sys._getframe(1))
            interrupts.send_later({signal.SIGINT})
        else:
            report(what)

    sys.unraisablehook = on_unraisable


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
