#!/usr/bin/python3
"""Runs test_engine_qemu.py inside a locked, read-only cell: what QEMU needs, cells with a guest allow.

    in_cell.py CORDON SOURCE_ROOT PROGRAM ..."""
import os
import pathlib
import sys

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
import guest_kernel  # noqa: E402

HOME = pathlib.Path("/home/user")


def main():
    cordon, source = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
    build = cordon.parent
    guest_kernel.state(cordon)
    programs = [cordon, *(pathlib.Path(path).resolve() for path in sys.argv[3:])]
    inside = [HOME / "build" / program.relative_to(build) for program in programs]
    test = HOME / "source" / "tests" / "levels" / "test_engine_qemu.py"
    os.execv(cordon, [cordon, "run", "--profile", "locked", "--read-only", "--memory", "2G", "--pids", "256",
                      "--mount", f"{source}:{HOME}/source", "--mount", f"{build}:{HOME}/build", "--",
                      "python3", "-B", test, *inside])


if __name__ == "__main__":
    main()
