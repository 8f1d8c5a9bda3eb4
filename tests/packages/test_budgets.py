#!/usr/bin/python3 -B
"""Goal: bytes, sizes and new names of a session are bounded by its package policy.

    test_budgets.py CORDON [name ...]

A whole server, fake registries in the small internet of tests/egress, and curl in cells."""
from gate_tools import R, add_others, data, fetched, file_url, session, world
import internet
import registry_answer
from checks import check, equal, has, settled, wait_for
from internet_client import make, policy, sh


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


def test_names_in_other_requests_count(server):
    """Questions that have a name, a path or a query in another place: each tells the registry something."""
    data = "d" * 50
    world()
    add_others()
    s = make(server, policy(packages={"registries": R.entries("npm", "apt", "oci"), "new_names": 3, "own": ["npm:@ours/*"]}))
    equal(fetched(server, s, "https://npm.example/-/npm/v1/attestations/@ours%2ftool@1.0.0")[0], 404, "a name of one's own")
    equal(R.count("/-/npm/v1/attestations/*"), 0, "it is told to no registry")
    for host, path in (("npm.example", "/-/npm/v1/attestations/{}@1.0.0"), ("deb.example", "/debian/{}/Release"), ("deb.example", "/debian/pool/{}_1.0_all.deb"),
                       ("oci.example", "/v2/team/image/tags/list?last={}"), ("oci.example", "/v2/team/image/referrers/sha256:" + "a" * 64 + "?artifactType={}")):
        s = make(server, policy(packages={"registries": R.entries("npm", "apt", "oci"), "new_names": 3, "unknown_age": "allow"}))
        R.fault("/-/npm/v1/attestations/*", registry_answer.status(404))
        before = len(R.requests)
        replies = [fetched(server, s, f"https://{host}{path.format(data + str(i))}") for i in range(8)]
        seen = len([q for q in R.requests[before:] if data in q.line])
        check(0 < seen <= 4, f"{path}: the registry saw {seen} of 8 ({replies})")
        has(replies[-1][1], "(packages.new_names)", path)
        R.heal()


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=2)
