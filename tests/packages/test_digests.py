#!/usr/bin/python3 -B
"""Goal: a file is believed by its digest, also where no index has it: Maven's checksum files, Go's checksum database.
Where there is none, the policy decides (packages.unverified), and the record says that nothing was verified. A version
that was asked for before it was published is not older for it.

    test_digests.py CORDON [name ...]

A whole server, fake registries in the small internet of tests/egress, requests from cells."""
import hashlib
import itertools
import json
import threading
import time

import package_files
import registry_answer as faults
from attack_tools import R, asks, internet, recorded, refused, session, world
from checks import check, equal, has, settled, wait_for
from internet_client import sh

NUMBERS = itertools.count(1)


def get(server, s, host, path):
    return asks(server, s, (host, path))[0]


def jar(**more):
    """A new artifact: its package and the paths of its jar and pom."""
    p = R.add("maven", f"org.example:lib{next(NUMBERS)}", "1.0", age="400d", **more)
    return p, R.parts["maven"].path(p), R.parts["maven"].path(p, ".pom")


def without(path, *endings):
    for ending in endings:
        R.fault(path + ending, faults.status(404))


def row_of(server, s, p, **members):
    return recorded(server, s, name=p.name, version=p.version, **members)


def events(server, s, **members):
    """Members `package` of the session's records."""
    found = server.want(200, "GET", f"/v1/sessions/{s['id']}/network/log?limit=500&kind=package")["records"]
    return [r["package"] for r in found if all(r["package"].get(k) == v for k, v in members.items())]


def event_of(server, s, p, **members):
    return wait_for(lambda: events(server, s, name=p.name, **members), 10, f"a record of {p.name} with {members}")[0]


def shown(e):
    return e["expected"], e.get("algorithm"), e["verified"]


# ---- Maven

def test_maven_is_checked_by_the_strongest_checksum(server):
    s = session(server, "maven")
    for absent, algorithm in (((), "sha512"), ((".sha512",), "sha256"), ((".sha512", ".sha256"), "sha1")):
        p, path, _ = jar()
        without(path, *absent)
        check(get(server, s, "maven.example", path).whole, f"by {algorithm}")
        e = event_of(server, s, p, kind="file")
        equal(shown(e), ("checksum_file", algorithm, True), f"without {absent}")
        equal(e["checksum"], "sha256:" + hashlib.sha256(package_files.jar(p)).hexdigest(), "the digest of what came")
    R.heal()


def test_maven_with_a_wrong_checksum(server):
    s = session(server, "maven")
    for which, ending in ((1, ".sha512"), (2, ".sha512")):  # the jar, and the pom
        p, *paths = jar(pad=100000)
        R.fault(paths[which - 1] + ending, faults.body(b"0" * 128))
        reply = get(server, s, "maven.example", paths[which - 1])
        check(not reply.whole, f"{paths[which - 1]} arrived whole")
        row_of(server, s, p, result="hash_mismatch")
    p, path, _ = jar()
    R.fault(path + ".sha512", faults.body(b"0" * 128 + b"\n" + b"1" * 128))
    reply = get(server, s, "maven.example", path)
    equal(reply.status, 502, "two checksums")
    equal(R.count(path), 0, "requests for the file")
    R.heal()


def test_maven_without_checksums(server):
    p, path, pom = jar()
    for at in (path, pom):
        without(at, ".sha512", ".sha256", ".sha1")
    s = session(server, "maven")
    for at in (path, pom):
        refused(get(server, s, "maven.example", at), "has no checksum to verify it by, this session wants one (packages.unverified)")
        equal(R.count(at), 0, "requests for the file")
    for s in (session(server, "maven", unverified="allow"), session(server, registries=R.entries("maven", unverified="allow"))):
        for at in (path, pom):
            check(get(server, s, "maven.example", at).whole, f"{at}, allowed")
        e = event_of(server, s, p, kind="file")
        equal(shown(e), ("none", None, False), "on record")
        equal(e["checksum"], "sha256:" + hashlib.sha256(package_files.jar(p)).hexdigest(), "the digest that was seen")
    R.heal()


def test_maven_from_the_cache(server):
    """A file with a strong checksum is kept, with that checksum."""
    p, path, pom = jar()
    s = session(server, "maven")
    for at in (path, pom):
        check(get(server, s, "maven.example", at).whole, at)
    offline = session(server, "maven", mode="offline-cache")
    for at in (path, pom):
        wait_for(lambda at=at: get(server, offline, "maven.example", at).whole, 10, f"{at} from the cache")
    equal(shown(event_of(server, offline, p, kind="file", cache="hit")), ("checksum_file", "sha512", True), "on record")


def test_names_without_checksums_are_counted(server):
    """Names of checksum files carry as much out as those of files."""
    s = session(server, "maven", new_names=5)
    for n in range(12):
        get(server, s, "maven.example", f"/org/example/secret{n}/1.0/secret{n}-1.0.jar")
    check(R.count("/org/example/secret*.sha512") <= 6, f"{R.count('/org/example/secret*.sha512')} names were sent")
    last = get(server, s, "maven.example", "/org/example/secret99/1.0/secret99-1.0.jar")
    refused(last, "packages.new_names")


# ---- Go

def module(**more):
    p = R.add("go", f"code.example/Mod{next(NUMBERS)}", "v1.0.0", age="400d", **more)
    return p, R.parts["go"].path(p)


def go_session(server, **packages_):
    return session(server, "go", **{"unknown_age": "allow", **packages_})


def test_go_is_checked_by_the_database(server):
    s = go_session(server)
    p, path = module()
    check(get(server, s, "proxy.go.example", path).whole, "a module")
    e = event_of(server, s, p, kind="file")
    equal(shown(e), ("sumdb", "h1", True), "on record")
    equal(e["checksum"], package_files.go_sums(p)[0], "its hash")
    equal(R.count("/lookup/*od*@v1.0.0", host="sum.go.example"), 1, "requests at the database's own host")
    p, path = module(digest="h1:" + "A" * 43 + "=")
    reply = get(server, s, "proxy.go.example", path)
    check(not reply.whole and "not the one of the checksum database" in reply.reason, f"another hash: {reply}")
    row_of(server, s, p, result="hash_mismatch")


def test_go_through_the_proxy(server):
    """A database that is no host of the entry is asked through the registry."""
    world()
    entry = {"ecosystem": "go", "host": "proxy.go.example", "sumdb": "sum.go.example"}
    s = go_session(server, registries=[entry])
    p, path = module()
    check(get(server, s, "proxy.go.example", path).whole, "a module")
    equal(shown(event_of(server, s, p, kind="file")), ("sumdb", "h1", True), "on record")
    equal(R.count("/sumdb/sum.go.example/lookup/*", host="proxy.go.example"), 1, "requests through the proxy")


def test_go_without_a_record(server):
    world()
    p, path = module()
    R.fault("/lookup/*", faults.status(404))
    refused(get(server, go_session(server), "proxy.go.example", path), "has no checksum to verify it by")
    bare = [{"ecosystem": "go", "host": "proxy.go.example"}]
    refused(get(server, go_session(server, registries=bare), "proxy.go.example", path), "has no checksum to verify it by")
    equal(R.count(path), 0, "requests for the module")
    s = go_session(server, unverified="allow")
    check(get(server, s, "proxy.go.example", path).whole, "allowed")
    equal(shown(event_of(server, s, p, kind="file")), ("none", None, False), "on record")
    R.heal()
    s = go_session(server, unverified="allow")
    for what, fault in (("no answer", faults.status(503)), ("not a record", faults.body(b"hello\n")),
                        ("another module", faults.body(f"1\ncode.example/X v1.0.0 {package_files.go_sums(p)[0]}\n"
                                                       f"code.example/X v1.0.0/go.mod {package_files.go_sums(p)[1]}\n\n"
                                                       "go.sum database tree\n1\nAAAA\n\n".encode()))):
        p, path = module()
        R.fault("/lookup/*", fault)
        equal(get(server, s, "proxy.go.example", path).status, 502, what)
        R.heal()


def test_own_modules_are_not_told_to_the_database(server):
    p, path = module()
    R.forget()
    equal(get(server, go_session(server, own=[f"go:{p.name}"]), "proxy.go.example", path).status, 404, "a name of another registry")
    refused(get(server, go_session(server, deny=[f"go:{p.name}"]), "proxy.go.example", path), "denied")
    equal(R.count("*/lookup/*"), 0, "lookups")


def test_modules_take_turns(server):
    """They are held in memory until they are hashed: a few of a session at a time."""
    s, answers = go_session(server), threading.Event()
    made = [module() for _ in range(8)]

    def held(_, a):
        answers.wait(30)
        return a
    R.fault("*.zip", held)
    R.forget()
    lines = " & ".join(f"curl -sS -m 30 -o /dev/null -w '%{{http_code}} ' 'https://proxy.go.example{path}'" for _, path in made)
    got = {}
    asking = threading.Thread(target=lambda: got.update(sh(server, s, lines + " & wait")))
    asking.start()
    wait_for(lambda: R.count("*.info") == 8 and R.count("*.zip") >= 3, 30, "all modules were asked for")
    equal(settled(lambda: R.count("*.zip"), quiet=1.0), 3, "modules that are fetched at once")
    answers.set()
    asking.join()
    R.heal()
    equal(got["stdout"].split(), ["200"] * 8, "all of them")


# ---- others

def test_direct_urls_and_unlisted_files_of_apt(server):
    """They pass unless the policy says otherwise, and are on record as not verified."""
    p = R.add("apt", f"deb{next(NUMBERS)}", "1.0", age="400d")
    deb = {"host": "deb.example", "path": R.path("apt", p.name, "1.0"), "port": 80, "scheme": "http"}
    wheel = ("web.example", "/dl/good-1.0-py3-none-any.whl")
    rules = ({"host": "web.example"},)
    s = session(server, "apt", rules=rules, unknown_age="allow")
    for q, name in ((deb, p.name), (wheel, "good")):
        check(asks(server, s, q)[0].whole, name)
        e = wait_for(lambda name=name: events(server, s, name=name, kind="file"), 10, "a record")[0]
        equal(shown(e), ("none", None, False), name)
        has(e["checksum"], "sha256:", "the digest that was seen")
    s = session(server, "apt", rules=rules, unknown_age="allow", unverified="deny")
    for q in (deb, wheel):
        refused(asks(server, s, q)[0], "has no checksum to verify it by")


def test_npm_with_sha1_alone(server):
    """An old document has no more than that: it is compared."""
    world()
    p = R.add("npm", f"old{next(NUMBERS)}", "1.0.0", age="400d")
    path, name = R.path("npm", p.name, "1.0.0"), p.name

    def weak(sha1):
        def fault(_, a):
            doc = json.loads(a.body)
            dist = doc["versions"]["1.0.0"]["dist"]
            dist.pop("integrity", None)
            dist["shasum"] = sha1
            a.body = json.dumps(doc).encode()
            return a
        return fault
    R.fault(f"/{name}", weak(hashlib.sha1(R.parts["npm"].data(p)).hexdigest()))
    s = session(server, "npm")
    check(get(server, s, "npm.example", path).whole, "the right one")
    equal(shown(event_of(server, s, p, kind="file")), ("index", "sha1", True), "on record")
    R.heal()
    p = R.add("npm", f"old{next(NUMBERS)}", "1.0.0", age="400d")
    R.fault(f"/{p.name}", weak("0" * 40))
    check(not get(server, s, "npm.example", R.path("npm", p.name, "1.0.0")).whole, "a wrong one")
    R.heal()


# ---- the first sight

def published_later(eco):
    """(what adds it, host, path) of something that is not published yet."""
    n = next(NUMBERS)
    if eco == "maven":
        return lambda: R.add("maven", f"org.example:late{n}", "9.9"), "maven.example", f"/org/example/late{n}/9.9/late{n}-9.9.jar"
    image = R.parts["oci"].image(R.add("oci", f"team/hidden{n}", "9.9"))
    R.packages.pop()
    digest = next(d for d in image.blobs if d != image.manifest_digest)
    return lambda: R.add("oci", f"team/hidden{n}", "9.9"), "oci.example", f"/v2/team/hidden{n}/blobs/{digest}"


def test_asking_before_it_is_published_makes_nothing_older(server):
    s = session(server, "maven", "oci", min_age="2s", unverified="allow")
    late = [published_later(eco) for eco in ("maven", "oci")]
    for _, host, path in late:
        equal(get(server, s, host, path).status, 404, f"{path}, not published")
    time.sleep(2.1)  # the age that is wanted: were the clock running, it would be old enough
    for add, host, path in late:
        add()
        refused(get(server, s, host, path), "was first seen 0 s ago")
        equal(R.count(path, method="GET"), 0, "requests for the file itself")
        wait_for(lambda host=host, path=path: get(server, s, host, path).whole, 15, "it is old enough at last")


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=2)
