"""steps_base.py - the list of steps of tests/faults, and what they share.

A step is a generator: what it does before the first yield is made ready without failing calls, between the two yields
one call fails, and behind the second it is compared with what is there. What was acknowledged must be there; an answer
that is whole must be right."""
from client import Finding

STEPS = []


def step(function):
    STEPS.append(function)
    return function


def same(got, want, what):
    if got != want:
        raise Finding(f"{what}: {str(got)[:300]}, want {str(want)[:300]}")
