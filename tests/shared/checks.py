"""checks.py - what every Python test may use: assertions whose messages show both sides, and waiting.

Imports nothing of the other helpers. A test program passes a test that returns, skips one that raises Skip, and fails
any other."""
import sys
import time


class Skip(Exception):
    """This machine cannot do what the test needs."""


class Failed(AssertionError):
    pass


def check(good, what):
    if not good:
        raise Failed(what)


def short(value):
    text = repr(value)
    return text if len(text) < 600 else text[:280] + " ... " + text[-280:]


def equal(got, want, what=""):
    if got != want:
        raise Failed(f"{what}: got {short(got)}, want {short(want)}")


def has(text, part, what=""):
    if part not in text:
        raise Failed(f"{what}: no {part!r} in {short(text)}")


def note(text):
    for line in str(text).splitlines():
        print("#", line)
    sys.stdout.flush()


def wait_for(what, seconds=10.0, name="it", step=0.01):
    """Calls until the result is true, and returns it."""
    end = time.monotonic() + seconds
    while True:
        answer = what()
        if answer:
            return answer
        if time.monotonic() > end:
            raise Failed(f"{name} does not come within {seconds} s")
        time.sleep(step)


def settled(read, quiet=0.3, seconds=20.0):
    """The value of read(), when it has been the same for `quiet` seconds."""
    value, since = read(), time.monotonic()
    end = since + seconds
    while time.monotonic() - since < quiet and time.monotonic() < end:
        time.sleep(0.02)
        now = read()
        if now != value:
            value, since = now, time.monotonic()
    return value
