#!/usr/bin/python3 -B
"""Goal: bytes, sizes and new names of a session are bounded by its package policy.

    test_budgets.py CORDON [name ...]

A whole server, fake registries in the small internet of tests/egress, and curl in cells."""
from gate_tools import R, data, fetched, file_url, session
import internet
import registry_answer
from checks import check, equal, has, settled, wait_for
from internet_client import sh


def test_budgets(server):
    size = len(data("npm", "demo", "1.0.0"))
    s = session(server, file_bytes=str(size - 1))
    status, phrase, _, _ = fetched(server, s, file_url("npm", "demo", "1.0.0"))
    equal(status, 403, "a file that is too large")
    has(phrase, f"{size} bytes")
    s = session(server, bytes=str(size + size // 2))
    equal(fetched(server, s, file_url("npm", "demo", "1.0.0"))[0], 200, "the first")
    status, phrase, _, _ = fetched(server, s, file_url("npm", "demo", "1.0.0"))
    equal(status, 403, "the second")
    has(phrase, "budget")
    has(phrase, "(packages.bytes)")
    wait_for(lambda: [r for r in server.want(200, "GET", f"/v1/sessions/{s['id']}/network/log")["records"]
                      if r["kind"] == "package" and r.get("rule") == "packages.bytes"], 10, "the rule on record")


def test_names_that_do_not_exist_run_out(server):
    s = session(server, new_names=3)
    for i in range(3):
        equal(fetched(server, s, f"https://npm.example/nothing-{i}")[0], 404, "a name")
    before = len(R.requests)
    status, phrase, _, _ = fetched(server, s, "https://npm.example/nothing-9")
    equal(status, 403, "one too many")
    has(phrase, "(packages.new_names)")
    equal(len(R.requests), before, "requests that reached the registry")


def test_names_count_whoever_waits_for_them(server):
    """Programs that are gone before the answer comes."""
    s = session(server, new_names=3)
    R.fault("/left-alone*", registry_answer.delay(0.5))
    for i in range(12):
        sh(server, s, f"curl -sS -m 0.2 -o /dev/null https://npm.example/left-alone-{i}")
    settled(lambda: R.count("/left-alone*"), quiet=1.0)
    check(R.count("/left-alone*") <= 3, f"the registry saw {R.count('/left-alone*')} names")
    R.heal()


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=2)
