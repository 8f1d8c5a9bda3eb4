#!/usr/bin/python3 -B
"""Goal: what a package policy refuses does not reach the registry, and the refusal says why.

    test_refusals.py CORDON [name ...]

A whole server, fake registries in the small internet of tests/egress, and npm, pip and curl in cells."""
import os
import subprocess

from gate_tools import NPM, PIP, R, fetched, file_url, session
import internet
import registry_answer
from checks import check, equal, has, wait_for
from attack_tools import recorded
from internet_client import make, policy, records, sh


def test_the_refusal_of_a_name_is_about_the_version_that_counts(server):
    """Not about the one that was released last: nobody asked for that."""
    R.add("npm", "back", "3.0.0", age="5d")
    R.add("npm", "back", "3.0.1", age="20d")
    pins = {"npm:back": ["3.0.0"]}
    for path, words, members in (("/back", "no version is allowed: back 3.0.1 is 20 days old, this session wants 30 days", {}),
                                 ("/back/3.0.0", "back 3.0.0 is 5 days old", {}), ("/back/latest", "back 3.0.1 is 20 days old", {}),
                                 ("/back", "no version is allowed: back 3.0.0 is 5 days old", {"mode": "pinned", "pins": pins})):
        status, phrase, _, _ = fetched(server, session(server, min_age="30d", **members), "https://npm.example" + path, "--http1.1")
        equal(status, 403, path)
        check(phrase.startswith(words), (path, phrase))


def test_what_is_not_understood_is_refused(server):
    s = session(server)
    before = len(R.requests)
    for url, options in (("https://npm.example/-/weird", ()), ("https://npm.example/demo", ("-X", "PUT", "-d", "{}")),
                         ("https://npm.example/-/v1/search?text=x", ()), ("https://pypi.example/simple/", ()),
                         ("https://npm.example/demo", ("-X", "GET", "-d", "x=1")),
                         ("https://npm.example/-/npm/v1/security/advisories/bulk", ("-d", "{}")),
                         ("https://npm.example/demo", ("-X", "DELETE",)), ("https://pypi.example/", ())):
        status, phrase, _, _ = fetched(server, s, url, *options)
        equal(status, 403, f"{options} {url}")
        check(phrase not in ("", "Forbidden"), f"{url}: no reason")
    equal(len(R.requests), before, "requests that reached the registry")


def test_an_own_name_does_not_exist_elsewhere(server):
    s = session(server, own=["npm:@ours/*"])
    before = len(R.requests)
    status, _, _, _ = fetched(server, s, "https://npm.example/@ours%2ftool")
    equal(status, 404, "status")
    equal(len(R.requests), before, "requests that reached the registry")


def test_refused_names_are_not_told(server):
    s = session(server, deny=["pypi:told", "npm:told"], allow=["pypi:d*", "npm:d*"])
    for line in (PIP + "told", NPM + "told", PIP + "unlisted", NPM + "unlisted"):
        done = sh(server, s, line)
        check(done["exit_code"] != 0, f"{line} worked")
        has(done["stdout"] + done["stderr"], "packages.", line)
    equal(R.count("*told*") + R.count("*unlisted*"), 0, "requests at the registries")


def test_a_registry_learns_little(server):
    s = session(server)
    R.add("npm", "quiet", "1.0.0", age="400d")
    fetched(server, s, file_url("npm", "quiet", "1.0.0"), "-H 'X-Leak: secret' -H 'npm-session: 1' -A leak/1")
    equal(R.count("/quiet*"), 2, "requests: the metadata and the file")
    for q in R.seen("/quiet*"):
        equal((q.get("User-Agent"), q.get("X-Leak"), q.get("npm-session")), ("cordon", None, None), q.line)


def test_a_registry_is_asked_over_tls(server):
    s = session(server)
    before = len(R.requests)
    for url in ("http://npm.example:443/demo", "http://npm.example/demo"):
        status, _, _, _ = fetched(server, s, url)
        check(status in (0, 403), f"{url}: {status}")
    said = sh(server, s, "cd /tmp && npm view --no-update-notifier --registry http://npm.example/ demo 2>&1; true")
    has(said["stdout"], "npm.example:80 is opened for TLS only (packages.registries)", "what npm shows")
    equal(len(R.requests), before, "requests at the registry")


def test_a_registry_at_a_private_address(server):
    s = make(server, policy(packages={"registries": [{"ecosystem": "npm", "host": "internal.corp.example"}], "min_age": "1d"}))
    status, _, _, _ = fetched(server, s, "https://internal.corp.example/demo")
    equal(status, 403, "its document")
    rows = lambda: server.want(200, "GET", f"/v1/sessions/{s['id']}/packages")["packages"]  # noqa: E731
    wait_for(rows, 10, "it on record")
    has(rows()[0]["reason"], 'resolves to 10.0.0.5, a private address; the operator can allow it: "private" in egress_policy', "why")
    equal(rows()[0]["result"], "refused", "the result")


def test_hostile_metadata(server):
    s = session(server)
    for fault, status in ((registry_answer.body(b"{" * 100000), 502), (registry_answer.body(b'{"name":"evil"}'), 502),
                          (registry_answer.redirect("https://evil.example/demo"), 502), (registry_answer.cut, 502)):
        R.fault("/other", fault)
        equal(fetched(server, s, "https://npm.example/other")[0], status, str(fault))
        R.heal()
    equal(fetched(server, s, "https://npm.example/other")[0], 200, "without a fault")


def test_plain_http_is_on_record(server):
    """The entry of a registry opens its host for TLS alone: the record says which package was refused."""
    s = session(server)
    status, phrase, _, _ = fetched(server, s, "http://npm.example" + R.path("npm", "demo", "1.0.0"))
    equal(status, 403, phrase)
    row = recorded(server, s, name="demo", version="1.0.0")
    equal((row["result"], row["verdict"]), ("refused", "deny"), "on record")
    equal(row["reason"], phrase, "the reason")


def test_versions_that_cordon_made_up_are_not_on_record(server):
    """pip gets a page with a file whose version is the reason; what it asks for then is the name, of no version."""
    s = session(server, mode="offline")
    done = sh(server, s, PIP + "demo")
    check(done["exit_code"] != 0, "pip installed it")
    has(done["stdout"] + done["stderr"], "packages are off in this session", "what pip shows")
    rows = lambda: server.want(200, "GET", f"/v1/sessions/{s['id']}/packages")["packages"]  # noqa: E731
    wait_for(rows, 10, "it on record")
    equal({(r["name"], r["version"], r.get("file") or "") for r in rows()}, {("demo", None, "")}, "rows")
    log = server.want(200, "GET", f"/v1/sessions/{s['id']}/network/log")["records"]
    check(not [r for r in log if "0+" in str(r.get("package", ""))], "a version that was made up is in the log")


def lines_of_net(server, s):
    env = {**os.environ, "CORDON_SERVER": server.url, "CORDON_API_KEY": server.key}
    return subprocess.run([server.program, "net", s["id"]], env=env, capture_output=True, text=True, timeout=30, check=True).stdout.splitlines()


def test_what_cordon_asks_itself_is_marked(server):
    s = session(server, deny=["npm:denied"])
    R.add("npm", "marked", "1.0.0", age="400d")
    equal(fetched(server, s, file_url("npm", "marked", "1.0.0"))[0], 200, "a file")
    found = wait_for(lambda: (r := records(server, s, kind="request")) and len(r) > 1 and r, 10, "two requests")
    equal({r["path"]: r.get("internal", False) for r in found}, {"/marked": True, R.path("npm", "marked", "1.0.0"): False}, "internal")
    fetched(server, s, "https://npm.example/denied")
    line = wait_for(lambda: [v for v in lines_of_net(server, s) if " deny " in v and " package " in v], 10, "a line")[0]
    has(line, " session:packages.deny[0] ", "the rule in the words of the document")


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=2)
