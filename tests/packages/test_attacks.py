#!/usr/bin/python3 -B
"""Goal: what an attacker does with package registries from inside a cell, or as a registry, gets nothing past the
policy: names that are not what they seem, files that are not what the index says, metadata that changes, is huge or
lies, redirects, encodings, uploads by odd means, data in names.

    test_attacks.py CORDON [name ...]

Real programs in a small internet (tests/egress/internet.py), fake registries (registry.py). Which test shows which
answer; those without a file are below:

  own names at a public registry      own_names_do_not_exist_elsewhere
  names that seem to be others        names_that_are_not_what_they_seem; package_request in tests/unit and fuzz/
  files on another host or port       urls_that_leave_the_registry, an_allowed_name_in_a_direct_url
  redirects                           redirects; redirects_stay_in_the_registry of test_files.py
  files that differ from their digest files_that_differ, a_pin_is_the_last_word; only_a_200_is_a_file of test_files.py,
                                      the_end_of_a_wrong_file_is_held_back of test_cache.py
  metadata that changes               a_digest_that_changes; test_changes.py
  what gets into the cache            what_is_not_whole_is_not_kept; wrong_files_are_not_kept of test_cache.py,
                                      nothing_wrong_is_kept of test_from_cache.py; test_tenants.py, test_cordon_cache.py
  objects of others by their hash     no_object_by_its_hash of test_tenants.py
  documents that are too much         documents_that_are_too_much; bounds of test_shaping.py
  encodings                           documents_that_are_too_much, files_in_encodings
  uploads by odd means                uploads_by_odd_means
  data in names, searches, headers    data_in_names_and_headers, uploads_by_odd_means; a_registry_learns_little of
                                      test_refusals.py, names_that_do_not_exist_run_out of test_budgets.py
  lockfiles rewritten in the cell     a_pin_is_the_last_word
  times that lie                      time_that_lies; a_version_that_claims_to_be_old of test_changes.py, first_sight of test_cordon_cache.py
  install code of another version     install_code_of_this_version
  retries for ever                    refusals_again_and_again
  registries that do not answer       a_registry_that_does_not_answer; silent.py (tools/soak),
                                      what_no_request_waits_for_is_not_fetched of test_waiting.py
"""
import json

from attack_tools import R, asks, internet, npm, recorded, refused, session
import registry_answer as faults
from internet_client import sh
from checks import check, equal, wait_for


def healed(function):
    def test(server):
        try:
            function(server)
        finally:
            R.heal()
    test.__name__ = function.__name__
    return test


def add(*args, **more):
    """Once, however often the test runs."""
    for p in R.packages:
        if (p.ecosystem, p.name, p.version) == args[:3]:
            return p
    return R.add(*args, **more)


# ---- names


def test_own_names_do_not_exist_elsewhere(server):
    """Dependency confusion: a name of ours, published by somebody else at a public registry."""
    add("npm", "@ours/tool", "99.0.0")
    add("npm", "ours-lib", "99.0.0")
    add("npm", "innocent", "1.0.0", depends={"ours-lib": "*"})
    s = session(server, "npm", own=["npm:@ours/*", "npm:ours-lib"])
    R.forget()
    paths = ("/@ours%2ftool", "/@ours/tool", "/ours-lib", R.path("npm", "@ours/tool", "99.0.0"), R.path("npm", "ours-lib", "99.0.0"))
    for path, reply in zip(paths, asks(server, s, *[("npm.example", p) for p in paths])):
        check(reply.status in (403, 404), f"{path} was given: {reply}")
    done = sh(server, s, "cd /tmp && npm install --no-audit --no-fund --registry https://npm.example/ innocent")
    check(done["exit_code"] != 0, "npm took a dependency that is ours from a public registry")
    equal(R.count("*ours*tool*") + R.count("*ours-lib*"), 0, "requests that the public registry saw for our names")
    check(recorded(server, s, name="ours-lib")["reason"], "the reason on record")


def test_names_that_are_not_what_they_seem(server):
    add("npm", "requests", "1.0.0")
    for name in ("reqeusts", "Requests", "requests."):
        add("npm", name, "1.0.0")
    add("pypi", "some-pkg", "1.0")
    s = session(server, "npm", "pypi", allow=["npm:requests", "pypi:some-pkg"])
    R.forget()
    bad = ["/reqeusts", "/Requests", "/requests.", "/requests%00", "/requests%2f..%2freqeusts", "/requests/../reqeusts",
           "/%72eqeusts", "/r\u0435quests".encode().decode("latin-1"), "/" + "a" * 10000, "//reqeusts", "/requests%20",
           "/@requests%2freqeusts", "/reqeusts/-/reqeusts-1.0.0.tgz", "/requests/-/../../reqeusts/-/reqeusts-1.0.0.tgz",
           "/Requests/-/Requests-1.0.0.tgz", "/requests%252f"]
    for path, reply in zip(bad, asks(server, s, *[("npm.example", p) for p in bad])):
        check(reply.status != 200, f"{path[:60]}: {reply}")
    for path in ("/reqeusts*", "/Requests*", "/requests.*"):
        equal(R.count(path), 0, f"{path} reached the registry")
    good = asks(server, s, ("npm.example", "/requests"), ("npm.example", "/%72equests"),
                {"host": "pypi.example", "path": "/simple/some-pkg/"})
    equal([r.status for r in good], [200, 200, 200], "the name that is allowed, also escaped")
    for reply in asks(server, s, *[("pypi.example", f"/simple/{name}/") for name in ("Some_Pkg", "some.pkg", "SOME--PKG")]):
        check(reply.status in (200, 301), f"the same name, written otherwise: {reply}")


def test_an_allowed_name_in_a_direct_url(server):
    """The same rules for a file that is named by its URL at a host which a rule allows."""
    s = session(server, "npm", rules=[{"host": "web.example"}], allow=["npm:requests"])
    paths = ("/files/evil-1.0.0.tgz", "/x/evil-1.0-py3-none-any.whl", "/evil-1.0.0.crate", "/evil_1.0_all.deb", "/evil-1.0.gem", "/echo")
    *bad, good = asks(server, s, *[("web.example", p) for p in paths])
    for reply in bad:
        refused(reply)
    equal(good.status, 200, "what is no package is as before")


def test_registries_are_asked_over_tls(server):
    add("npm", "in-the-clear", "1.0.0")
    s = session(server, registries=[{"ecosystem": "npm", "host": "npm.example:443"}])
    R.forget()
    reply = npm(server, s, "/in-the-clear", scheme="http")
    equal((reply.status, R.count("/in-the-clear")), (403, 0), "plain HTTP at the port of an entry")
    equal(npm(server, s, "/in-the-clear").status, 200, "TLS")


# ---- metadata that leads elsewhere


@healed
def test_urls_that_leave_the_registry(server):
    """An entry whose file is elsewhere is not in the page, and asking for it is refused."""
    for n, url in enumerate(("https://evil.example/x/away-{}.0.0.tgz", "https://npm.example:8443/away/-/away-{}.0.0.tgz",
                             "http://npm.example/away/-/away-{}.0.0.tgz", "https://npm.example@evil.example/away-{}.0.0.tgz",
                             "//evil.example/away/-/away-{}.0.0.tgz", "https://npm.example.evil.example/away-{}.0.0.tgz"), 2):
        add("npm", "away", f"{n}.0.0", url=url.format(n))
    add("npm", "away", "1.0.0")
    add("pypi", "away", "1.0")
    add("pypi", "away", "2.0", url="https://evil.example/packages/a/b/c/away-2.0-py3-none-any.whl")
    s = session(server, min_age="1d")
    page = json.loads(npm(server, s, "/away").body)
    equal(sorted(page["versions"]), ["1.0.0"], "versions whose files are here")
    equal(page["dist-tags"].get("latest"), "1.0.0", "the tag")
    page = asks(server, s, {"host": "pypi.example", "path": "/simple/away/",
                            "headers": "Accept: application/vnd.pypi.simple.v1+json\r\n"})[0]
    check("evil.example" not in page.body, f"a file elsewhere is in the page: {page}")
    sh(server, s, "cd /tmp && npm install --no-audit --no-fund --registry https://npm.example/ away", 0)


@healed
def test_redirects(server):
    """Followed only within the registry's own hosts, and never into another's."""
    targets = ("https://evil.example/x-1.0.0.tgz", "https://web.example/x-1.0.0.tgz", "http://npm.example/x/-/x-1.0.0.tgz",
               "https://npm.example:8443/x/-/x-1.0.0.tgz", "//evil.example/x/-/x-1.0.0.tgz", "http://169.254.169.254/x",
               "file:///etc/passwd", "https://pypi.example/simple/", "https://npm.example@evil.example/x-1.0.0.tgz")
    s = session(server)
    cases = [(f"moved-{n}-{code}", to, code) for n, to in enumerate(targets) for code in (302, 308)]
    for name, to, code in cases:
        add("npm", name, "1.0.0")
        R.fault(R.path("npm", name, "1.0.0"), faults.redirect(to, code))
    replies = asks(server, s, *[("npm.example", R.path("npm", name, "1.0.0")) for name, _, _ in cases])
    for (_, to, code), reply in zip(cases, replies):
        check(reply.status >= 400, f"{code} to {to}: {reply}")
    for name in ("loop", "moved-meta"):
        add("npm", name, "1.0.0")
    path = R.path("npm", "loop", "1.0.0")
    R.fault(path, faults.redirect(lambda q: "https://npm.example" + q.path))
    R.fault("/moved-meta", faults.redirect("https://evil.example/moved-meta"))
    loop, meta = asks(server, s, ("npm.example", path), ("npm.example", "/moved-meta"))
    check(loop.status >= 400 and R.count(path) <= 8, f"a loop: {loop} after {R.count(path)} requests")
    check(meta.status >= 400, f"metadata that is elsewhere: {meta}")


# ---- bytes that are not what the index says


LIES = ("last_byte", "first_byte", "short", "long", "cut", "partial", "overrun")


@healed
def test_files_that_differ(server):
    """Nothing of a wrong file arrives whole, it is on record, and it is not kept: the right one comes afterwards."""
    cases = [(host, eco, f"bytes-{name.replace('_', '-')}", name) for name in LIES
             for host, eco in (("npm.example", "npm"), ("files.pypi.example", "pypi"))]
    for _, eco, package, name in cases:
        add(eco, package, "1.0.0", pad=30000)
        R.fault(R.path(eco, package, "1.0.0"), getattr(faults, name))
    s = session(server)
    paths = [(host, R.path(eco, package, "1.0.0")) for host, eco, package, _ in cases]
    for (_, eco, package, name), reply in zip(cases, asks(server, s, *paths)):
        what = f"{eco} {name}: {reply.status} {len(reply.body)} bytes {reply.end}"
        if name == "overrun":  # the bytes are right, and what follows them is nobody's
            check(reply.status == 200 and "evil" not in reply.body, what)
            continue
        check(not reply.whole and len(reply.body) < 30000, what)
        row = recorded(server, s, ecosystem=eco, name=package)
        check(row["downloads"] == 0, f"{what}: {row}")
        if name.endswith("byte"):
            equal(row["result"], "hash_mismatch", what)
            check("the file has sha" in row["reason"] and "..., and should have sha" in row["reason"], row["reason"])
    R.heal()
    for q, reply in zip(paths, asks(server, session(server), *paths)):
        check(reply.whole and len(reply.body) > 30000, f"the right {q[1]}: {reply.status} {len(reply.body)} {reply.end}")


@healed
def test_a_pin_is_the_last_word(server):
    """Index and file agree with each other, and not with the pin."""
    p = add("npm", "pinned", "1.0.0", pad=1000)
    add("npm", "pinned", "1.0.1")
    wrong, right = "sha512-" + "A" * 86 + "==", R.parts["npm"].integrity(p)
    path = R.path("npm", "pinned", "1.0.0")

    def lock(integrity):
        return {"name": "package-lock.json", "text": json.dumps({"name": "x", "lockfileVersion": 3, "packages": {
            "node_modules/pinned": {"version": "1.0.0", "resolved": "https://npm.example" + path, "integrity": integrity}}})}
    s = session(server, mode="pinned", lockfiles=[lock(wrong)])
    check(not npm(server, s, path).whole, "a file that differs from its pin")
    s = session(server, mode="pinned", lockfiles=[lock(right)])
    check(npm(server, s, path).whole, "a file that is pinned")
    refused(npm(server, s, R.path("npm", "pinned", "1.0.1")), "pinned")
    sh(server, s, "cd /tmp && echo '{}' > package-lock.json && echo '{\"packages\": {}}' > package.json")
    refused(npm(server, s, R.path("npm", "pinned", "1.0.1")))


@healed
def test_a_digest_that_changes(server):
    """A version that was shown once with one digest keeps it; another one is an alarm."""
    p = add("npm", "swapped", "1.0.0")
    s = session(server)
    first = json.loads(npm(server, s, "/swapped").body)
    R.fault("/swapped", faults.body(json.dumps({**first, "versions": {"1.0.0": {
        **first["versions"]["1.0.0"], "dist": {**first["versions"]["1.0.0"]["dist"], "integrity": "sha512-" + "A" * 86 + "=="}}}}
    ).encode()))
    R.fault(R.path("npm", "swapped", "1.0.0"), faults.body(b"hostile" * 100))
    reply = npm(server, s, R.path("npm", "swapped", "1.0.0"))
    check(not reply.whole and "hostile" not in reply.body[-64:], f"other bytes for a version that was known: {reply}")
    p.kept.clear()


def error_page(_, answer):
    """A page that looks like what was asked for, with the status of an error."""
    answer.status, answer.body = 500, answer.body.replace(b"1.0.0", b"6.6.6")
    return answer


def other_for_one(q, answer):
    """Another document for a request with this header, which the registry asks caches to mind."""
    answer.headers["Vary"] = "Accept, X-Who"
    answer.headers["Cache-Control"] = "public, max-age=100000"
    if q.get("X-Who"):
        answer.body = answer.body.replace(b"1.0.0", b"6.6.6")
    return answer


@healed
def test_what_is_not_whole_is_not_kept(server):
    """Error pages, answers to HEAD, halves, and answers that depend on what one session sends: the next session gets
    what the registry has."""
    first, second = session(server), session(server)
    for n, (fault, more) in enumerate(((error_page, {}), (faults.status(404), {}), (faults.status(401), {}), (faults.partial, {}),
                                       (faults.cut, {}), (other_for_one, {"headers": "X-Who: me\r\n"}), (None, {"method": "HEAD"}),
                                       (None, {"headers": "Range: bytes=0-9\r\n"}), (faults.overrun, {}))):
        name = f"kept-{n}"
        p = add("npm", name, "1.0.0", pad=30000)
        path = R.path("npm", name, "1.0.0")
        if fault:
            R.fault("*" + name + "*", fault)
        asks(server, first, *[{"host": "npm.example", "path": at, **more} for at in ("/" + name, path)])
        R.heal()
        what = f"after {getattr(fault, '__name__', fault)} {more}"
        page, file = asks(server, second, ("npm.example", "/" + name), ("npm.example", path))
        check(page.whole and list(json.loads(page.body)["versions"]) == ["1.0.0"], f"the document {what}: {page}")
        check(file.whole and file.body.encode("latin-1") == R.parts["npm"].data(p), f"the file {what}: {file.status} {file.end}")


@healed
def test_a_registry_that_does_not_answer(server):
    """The session waits for that document alone, and nobody else waits. (When it ends: the bound of a fetch, 60 s.)"""
    for name in ("silent", "requests"):
        add("npm", name, "1.0.0")
    s, other = session(server), session(server)
    R.fault("/silent", faults.delay(15))
    R.forget()
    sh(server, s, "(curl -sS -m 14 -o /dev/null https://npm.example/silent; echo $? > /tmp/code) >/dev/null 2>&1 &")
    wait_for(lambda: R.count("/silent"), 10, "the request at the registry")
    for one in (s, other):
        equal(npm(server, one, "/requests").status, 200, "another name")
        check(npm(server, one, R.path("npm", "requests", "1.0.0")).whole, "another file")
    equal(sh(server, s, "cat /tmp/code")["stdout"], "", "the first one still waits")


# ---- documents that are too much


@healed
def test_documents_that_are_too_much(server):
    add("npm", "heavy", "1.0.0")
    add("npm", "requests", "1.0.0")
    s = session(server, min_age="1d")
    deep = b'{"name":"heavy","versions":' + b'{"a":' * 100000
    for name, fault in (("1 GiB", faults.endless(b'{"name":"heavy","versions":{', b'"x":0,' * 10000)),
                        ("deep", faults.body(deep)), ("not JSON", faults.body(b"\0\xff" * 1000)),
                        ("half", faults.short), ("NaN", faults.body(b'{"name":"heavy","versions":{"1.0.0":NaN}}')),
                        ("twice", faults.body(b'{"versions":{},"versions":{"1.0.0":{}}}')),
                        ("an array", faults.body(b"[]")), ("empty", faults.body(b"")),
                        ("bomb", faults.bomb(512)), ("a lie about gzip", faults.gzip_lie),
                        ("br", faults.encoded("br")), ("gzip, gzip", faults.encoded("gzip, gzip"))):
        R.heal()
        R.fault("/heavy", fault)
        reply = npm(server, s, "/heavy")
        check(reply.status != 200 or "1.0.0" not in reply.body or name == "twice", f"{name}: {reply}")
        R.heal()
        equal(npm(server, s, "/requests").status, 200, f"another name after {name}")
    equal(npm(server, s, "/heavy").status, 200, "the same name afterwards")


@healed
def test_files_in_encodings(server):
    add("npm", "encoded", "1.0.0", pad=1000)
    path = R.path("npm", "encoded", "1.0.0")
    s = session(server)
    for name, fault in (("bomb", faults.bomb(64)), ("a lie", faults.gzip_lie), ("br", faults.encoded("br"))):
        R.heal()
        R.fault(path, fault)
        reply = npm(server, s, path)
        check(not reply.whole, f"{name}: {reply}")


# ---- uploads


def test_uploads_by_odd_means(server):
    add("npm", "requests", "1.0.0")
    s = session(server, "npm", "pypi", "cargo", "git")
    R.forget()
    length = "Content-Length: 4\r\n"
    tries = [{"method": "PUT", "path": "/evil", "headers": length, "body": "data"},
             {"method": "PUT", "path": "/-/package/requests/dist-tags/latest", "headers": length, "body": "data"},
             {"method": "POST", "path": "/requests", "headers": "X-HTTP-Method-Override: PUT\r\n" + length, "body": "data"},
             {"method": "GET", "path": "/requests", "headers": "X-HTTP-Method-Override: PUT\r\n" + length, "body": "data"},
             {"method": "GET", "path": "/requests", "headers": length, "body": "data"},
             {"method": "DELETE", "path": "/requests/-rev/1"}, {"method": "PATCH", "path": "/requests"},
             {"method": "PUT", "path": "/-/user/org.couchdb.user:x", "headers": length, "body": "data"},
             {"method": "POST", "path": "/-/npm/v1/tokens", "headers": length, "body": "data"},
             {"method": "POST", "path": "/-/npm/v1/security/advisories/bulk", "headers": length, "body": "data"},
             {"path": "/-/v1/search?text=secret"}, {"path": "/-/whoami"}, {"path": "/-/all"},
             {"method": "POST", "path": "/simple/", "host": "pypi.example", "headers": length, "body": "data"},
             {"method": "POST", "path": "/legacy/", "host": "pypi.example", "headers": length, "body": "data"},
             {"method": "POST", "path": "/pypi", "host": "pypi.example", "headers": length, "body": "data"},
             {"path": "/search?q=secret", "host": "pypi.example"},
             {"method": "PUT", "path": "/api/v1/crates/new", "host": "cargo.example", "headers": length, "body": "data"},
             {"path": "/api/v1/crates?q=secret", "host": "cargo.example"},
             {"path": "/ours/demo.git/info/refs?service=git-receive-pack", "host": "code.example"},
             {"method": "POST", "path": "/ours/demo.git/git-receive-pack", "host": "code.example", "headers": length, "body": "data"},
             {"method": "POST", "path": "/ours/demo.git/info/lfs/objects/batch", "host": "code.example", "headers": length,
              "body": "data"}]
    for q, reply in zip(tries, asks(server, s, *[{"host": "npm.example", **q} for q in tries])):
        check(reply.status in (400, 403, 405), f"{q}: {reply}")
    left = [q for q in R.seen() if q.body or q.method not in ("GET", "HEAD") or "search" in q.path or "secret" in q.query]
    equal([(q.method, q.path) for q in left], [], "what registries saw of it")


# ---- data out


def test_data_in_names_and_headers(server):
    """Names nobody has are counted, and the session's own words go to no registry."""
    add("npm", "requests", "1.0.0")
    s = session(server, "npm", new_names=10)
    equal(npm(server, s, "/requests").status, 200, "a name that exists")
    R.forget()
    replies = asks(server, s, *[("npm.example", f"/secret-{i}") for i in range(25)])
    seen = R.count("/secret-*")
    check(seen <= 12, f"{seen} unknown names reached the registry")
    refused(replies[-1])
    R.forget()
    npm(server, s, "/requests", headers="User-Agent: secret-agent\r\nX-Data: secret\r\nReferer: https://x.example/secret\r\n"
        "Cookie: a=secret\r\nnpm-session: secret\r\n")
    npm(server, s, R.path("npm", "requests", "1.0.0"), headers="User-Agent: secret-agent\r\n")
    for q in R.seen():
        check("secret-agent" not in (q.get("User-Agent") or ""), f"the session's User-Agent in {q.headers}")


# ---- time


def test_time_that_lies(server):
    """Go's times are the author's own: what was never seen here is as young as its first sight."""
    add("go", "code.example/backdated", "v1.0.0", age="3000d")
    add("npm", "untimed", "1.0.0", age=None)
    s = session(server, "go", "npm", min_age="7d")
    reply = asks(server, s, ("proxy.go.example", "/code.example/backdated/@v/v1.0.0.zip"))[0]
    refused(reply, "backdated")
    refused(npm(server, s, R.path("npm", "untimed", "1.0.0")), "untimed")


def test_install_code_of_this_version(server):
    add("npm", "quiet", "1.0.0", script=True)
    add("npm", "quiet", "2.0.0")
    s = session(server, "npm", scripts="deny")
    refused(npm(server, s, R.path("npm", "quiet", "1.0.0")), "quiet")
    check(npm(server, s, R.path("npm", "quiet", "2.0.0")).whole, "the version without")
    row = recorded(server, s, name="quiet", version="1.0.0")
    equal((row["result"], row["install_code"]), ("refused", "yes"), "on record")


def test_refusals_again_and_again(server):
    """Asked again and again, the answer is the same, and the registry sees none of it."""
    add("npm", "requests", "1.0.0")
    s = session(server, "npm", deny=["npm:requests"])
    R.forget()
    replies = asks(server, s, *[("npm.example", R.path("npm", "requests", "1.0.0"))] * 40)
    equal({(r.status, r.reason) for r in replies}, {(403, replies[0].reason)}, "answers")
    equal(R.count("*requests*"), 0, "requests that the registry saw")
    row = recorded(server, s, name="requests")
    equal(row["downloads"], 0, "downloads")


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=2)
