#!/usr/bin/python3 -B
"""Goal: a registry that takes requests and does not answer holds a session for a bounded time: metadata and what waits
for it end with an error that names the reason, nothing is left of it, and the name works when the registry does.

    silent.py CORDON [name ...]

Takes more than a minute, which is the bound of a fetch: tools/soak runs it."""
import time

import registry_answer as faults
from attack_tools import R, internet, npm, session
from internet_client import sh
from checks import check, equal, wait_for

BOUND_S = 60  # PACKAGE_FETCH_MS


def test_silence_ends(server):
    R.add("npm", "silent", "1.0.0", age="400d")
    s = session(server)
    R.fault("/silent", faults.delay(3 * BOUND_S))
    urls = ("https://npm.example/silent", "https://npm.example" + R.path("npm", "silent", "1.0.0"))
    began = time.monotonic()
    for n, url in enumerate(urls):
        sh(server, s, f"(curl -sS -m {2 * BOUND_S} -o /dev/null -w '%{{http_code}} %{{time_total}}' '{url}' > /tmp/s{n} 2>&1) >/dev/null 2>&1 &")
    ends = wait_for(lambda: (t := sh(server, s, "cat /tmp/s0; echo; cat /tmp/s1")["stdout"].split()) and len(t) == 4 and t, 2 * BOUND_S, "both ends")
    check(time.monotonic() - began > BOUND_S - 5, "an answer before the bound")
    equal((ends[0], ends[2]), ("502", "502"), f"statuses ({ends})")
    equal(R.count("/silent"), 1, "requests at the registry")
    R.heal()
    equal(npm(server, s, "/silent").status, 200, "the name afterwards")
    check(npm(server, s, R.path("npm", "silent", "1.0.0")).whole, "the file afterwards")


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=1)
