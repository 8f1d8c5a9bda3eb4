"""level.py - the isolation level that a suite runs at: CORDON_TEST_LEVEL=gvisor or microvm, container without it.

The same tests run at each level. Where a level behaves in another way, the test says so:

    @differs(gvisor="why")

and is reported as `ok ... # DIFFERS at gvisor: why` there, without being run: doc/levels.md has the list for users."""
import functools
import os
import pathlib

import guest_kernel
import runsc

LEVEL = os.environ.get("CORDON_TEST_LEVEL", "container")
CREATES = {("POST", "/v1/sessions"): "level"}


class Differs(Exception):
    """What the test shows is another way at this level; the reason is the text."""


def differs(**why):
    """The test does not hold at the levels that are named here, each with the reason."""

    def wrap(function):
        if LEVEL not in why:
            return function

        @functools.wraps(function)
        def named(*_):
            raise Differs(f"at {LEVEL}: {why[LEVEL]}")

        named.__wrapped__ = function
        return named

    return wrap


def settings(program, state_dir):
    """What a server needs for sessions of this level."""
    if LEVEL == "gvisor":
        return {"runsc": runsc.find(program)}
    if LEVEL == "microvm":
        pathlib.Path(state_dir).mkdir(parents=True, exist_ok=True)
        if not (pathlib.Path(state_dir) / "guest").exists():
            guest_kernel.give(program, state_dir)
    return {}


def with_level(method, path, body):
    """The body of a request, with the level if it makes a session and names none."""
    if LEVEL == "container" or (method, path) not in CREATES:
        return body
    if body is None:
        return {"level": LEVEL}
    if isinstance(body, dict) and "level" not in body:
        return {**body, "level": LEVEL}
    return body
