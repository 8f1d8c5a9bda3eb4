"""What the tests of the HTTP server share: its program, and small helpers."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

PROGRAM = sys.argv[1]


def pattern(n):
    return (bytes(range(251)) * (n // 251 + 1))[:n]
