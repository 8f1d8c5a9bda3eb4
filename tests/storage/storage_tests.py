"""storage_tests.py - runs the tests of a program of this folder, as TAP; and what they share."""
import os
import sys
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
from channel import Refused  # noqa: E402
from checks import Skip, has  # noqa: E402


def refused(call, why):
    """The call is refused, with that text."""
    try:
        call()
    except Refused as e:
        has(str(e), why)
        return
    raise AssertionError(f"not refused: {why}")


def run(tests, names, root=True):
    """Exit status. names: run only these, if there are any."""
    chosen = [t for t in tests if not names or t.__name__ in names]
    if root and os.getuid() != 0:
        print("1..0 # SKIP needs root")
        return 0
    print(f"1..{len(chosen)}")
    failed = False
    for i, test in enumerate(chosen, 1):
        name, began = test.__name__.replace("_", " "), time.monotonic()
        try:
            test()
            print(f"ok {i} - {name}\n# {time.monotonic() - began:.2f} s")
        except Skip as why:
            print(f"ok {i} - {name} # SKIP {why}")
        except Exception:  # noqa: BLE001
            failed = True
            print(f"not ok {i} - {name}")
            for line in traceback.format_exc().splitlines():
                print("#", line[:1500])
        sys.stdout.flush()
    return failed
