"""tap.py - runs the functions of a test program and prints TAP."""
import sys
import traceback

sys.path.insert(0, __file__.rpartition("/")[0] + "/../shared")
from checks import Skip  # noqa: E402


def run(tests, names=()):
    chosen = [test for test in tests if not names or test.__name__ in names]
    print(f"1..{len(chosen)}")
    failed = False
    for i, test in enumerate(chosen, 1):
        name = test.__name__.replace("_", " ")
        try:
            test()
            print(f"ok {i} - {name}")
        except Skip as why:
            print(f"ok {i} - {name} # SKIP {why}")
        except Exception:  # noqa: BLE001
            failed = True
            print(f"not ok {i} - {name}")
            for line in traceback.format_exc().splitlines():
                print("#", line)
        sys.stdout.flush()
    return failed
