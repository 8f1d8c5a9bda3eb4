#!/usr/bin/python3
"""Goal: figures have the chart that E2B's clients expect: each charts/NAME.py gives the chart in charts/NAME.json.

    test_charts.py [--write] [name ...]     # --write makes the golden files anew: look at the difference"""
import glob
import json
import math
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tap  # noqa: E402
from checks import Skip, check, equal  # noqa: E402
from driver import HERE, Parent  # noqa: E402

parent = None


def same(a, b):
    """Equal, but for the last digits of floating point."""
    if isinstance(a, float) and isinstance(b, (int, float)) or isinstance(b, float) and isinstance(a, int):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def chart_of(path):
    with open(path, encoding="utf-8") as f:
        code = f.read()
    kernel = parent.spawn("/")
    try:
        answer = kernel.run(code)
    finally:
        kernel.kill()
    if answer.error and answer.error["name"] == "ModuleNotFoundError":
        raise Skip(answer.error["value"])
    check(answer.error is None, answer.error)
    equal(len(answer.results), 1, "one result for each figure")
    result = answer.results[0]
    check(result["png"].startswith("iVBOR") and result["text"].startswith("<Figure size"), "png and text")
    check(not result["is_main_result"], "displayed, not a value")
    return result.get("chart")


def chart_test(path, write):
    def test():
        chart, golden = chart_of(path), path[:-3] + ".json"
        if write:
            with open(golden, "w", encoding="utf-8") as f:
                json.dump(chart, f, indent=1)
                f.write("\n")
        with open(golden, encoding="utf-8") as f:
            want = json.load(f)
        check(same(chart, want), f"got {json.dumps(chart)}, want {json.dumps(want)}")
    test.__name__ = os.path.basename(path)[:-3]
    return test


def main():
    global parent
    words = sys.argv[1:]
    paths = sorted(glob.glob(os.path.join(HERE, "charts", "*.py")))
    # Figures are drawn by kernels of one parent that has matplotlib already.
    parent = Parent(env={"CORDON_INTERPRETER_WARM": "matplotlib.pyplot"})
    try:
        return tap.run([chart_test(path, "--write" in words) for path in paths],
                       [word for word in words if word != "--write"])
    finally:
        parent.close()


if __name__ == "__main__":
    sys.exit(main())
