#!/usr/bin/python3 -B
"""Goal: package files of apt are what the archive's index says. A listed file with other bytes is cut; one that was
fetched before comes from the package cache, for other sessions and with no archive in reach; one that no index lists
passes, is recorded as not verified, and is not kept.

    test_apt.py CORDON [name ...]

apt itself, in sessions, against a fake archive in the small internet of tests/egress."""
import hashlib

import cell_clients as clients
import registry_answer as faults
from attack_tools import R, asks, internet, packages, recorded, session
from cache_channel import files_of
from checks import check, equal, has, wait_for

KILLS = True  # for harness.py: a program of the server dies
MADE = []


def package(version="1.0", pad=100000):
    """A package that nobody has asked for."""
    MADE.append(R.add("apt", f"listed-{len(MADE)}", version, pad=pad))
    return MADE[-1]


def entry(**more):
    return R.entries("apt", unknown_age="allow", **more)


def apt(server, **policy):
    s = session(server, registries=entry(), **policy)
    return clients.Apt(server, s, R.parts["apt"].keyring())


def updated(server, **policy):
    c = apt(server, **policy)
    said = c.update()
    equal(said["exit_code"], 0, f"update: {said['stderr'][-600:]}")
    return c


def settled(server):
    """Nothing is being written by the cache."""
    wait_for(lambda: not [n for n in files_of(f"{server.state}/packages") if n.startswith("tmp/")], 10, "the cache is at rest")


def kept(server, p):
    digest = hashlib.sha256(R.parts["apt"].data(p)).hexdigest()
    return f"objects/{digest[:2]}/{digest[2:]}" in files_of(f"{server.state}/packages")


def installs(c, p):
    done = c.install(p.name)
    equal(done["exit_code"], 0, f"{p.name}: {done['stderr'][-600:]}")
    equal(c.has(p.name).replace("%3a", ":"), p.version, p.name)


def row_of(c, p, **members):
    return recorded(c.server, c.s, name=p.name, **members)


def get(server, s, path):
    return asks(server, s, {"host": "deb.example", "path": path, "port": 80, "scheme": "http"})[0]


def test_from_the_cache_and_offline(server):
    p = package(version="1:2.0+x~1")
    first = updated(server)
    installs(first, p)
    equal(row_of(first, p, result="downloaded")["verified"], True, "verified by the index")
    wait_for(lambda: kept(server, p), 10, "the file is in the cache")
    settled(server)
    check(R.count("*/by-hash/SHA256/*") > 0, "the index was asked for by its digest")
    R.forget()
    second = updated(server)
    installs(second, p)
    equal(R.count("*.deb"), 0, "files that the archive was asked for")
    equal(R.count("*/by-hash/*"), 0, "indexes by digest that it was asked for")
    equal(row_of(second, p, result="downloaded")["verified"], True, "verified from the cache, too")
    settled(server)
    server.restarted("cordon-egress")  # nothing is known but what the cache has
    R.forget()
    alone = updated(server, mode="offline-cache")
    installs(alone, p)
    equal(R.count(), 0, "requests to the archive")
    never = package()
    done = alone.install(never.name)
    check(done["exit_code"] != 0, "a package that the cache does not have")


def test_wrong_bytes(server):
    p = package(pad=200000)
    c = updated(server)
    path, data = R.parts["apt"].path(p), R.parts["apt"].data(p).decode("latin-1")
    for fault in (faults.last_byte, faults.first_byte, faults.short, faults.long):
        R.fault("*.deb", fault, times=1)
        reply = get(server, c.s, path)
        check(not reply.whole and reply.body != data, f"{fault.__name__}: {reply.status} {reply.end}")
    row_of(c, p, result="hash_mismatch")
    check(not kept(server, p), "nothing of it is kept")
    R.fault("*.deb", faults.last_byte, times=1)
    done = c.install(p.name)
    check(done["exit_code"] != 0, "apt gets no wrong file either")
    R.heal()
    installs(c, p)


def test_wrong_index(server):
    """The release says which bytes an index has: another index says nothing."""
    p = package()
    c = apt(server)
    R.fault("/dists/test/main/*", faults.body(b"Package: x\n"))
    reply = get(server, c.s, "/dists/test/main/binary-amd64/by-hash/SHA256/" + "ab" * 32)
    check(not reply.whole, f"it is not what its path says: {reply}")
    R.heal()
    equal(c.update()["exit_code"], 0, "update")
    R.fault("*/by-hash/*", faults.body(b"Package: x\n"), times=1)  # for egress itself: it asks once more
    installs(c, p)
    equal(row_of(c, p)["verified"], True, "after one wrong index")


def test_release_of_an_index(server):
    """Archives have files of that name beside indexes, too. They are no release of a suite."""
    p = package()
    c = updated(server)
    R.fault("*/binary-amd64/Release", faults.body(b"Archive: test\n"))
    check(get(server, c.s, "/dists/test/main/binary-amd64/Release").whole, "it is passed")
    R.heal()
    installs(c, p)
    equal(row_of(c, p)["verified"], True, "verified")


def test_not_listed(server):
    """A file of an older list, say: apt in the cell knows its digest, egress does not."""
    p = package()
    c = updated(server)
    path = "/pool/main/o/old/old_1.0_all.deb"
    R.fault(path, faults.body(R.parts["apt"].data(p)))
    for _ in range(2):
        reply = get(server, c.s, path)
        check(reply.whole, f"{reply}")
    R.heal()
    row = recorded(server, c.s, name="old", result="downloaded")
    equal(row.get("verified", False), False, "not verified")
    settled(server)
    check(not kept(server, p), "not kept")
    alone = session(server, registries=entry(), mode="offline-cache")
    reply = get(server, alone, path)
    equal(reply.status, 403, "with the cache alone")
    has(reply.reason, "the package cache does not have this file")
    check(not packages(server, alone, result="downloaded"), "nothing was downloaded")


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=2, egress_processes=1)
