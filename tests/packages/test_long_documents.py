#!/usr/bin/python3 -B
"""Goal: documents with as many versions and tags as a registry likes are answered rightly, piece by piece: requests of
others come in between.

    test_long_documents.py CORDON_EGRESS CORDON_CACHE [name ...]

How long a turn takes is for bench/neighbours.py; that each piece is bounded, for unit tests (test_package_pieces.c)."""
import json
import random
import threading

from gate_world import answer, check, equal, finish, get, main, start, world


def test_the_latest_of_a_long_list_of_go():
    """In any order; releases before all others; what is no version never."""
    rng = random.Random(7)
    versions = [f"v1.{i}.{k}" for i in range(100) for k in range(100)] + [f"v2.0.{i}-pre.{i}" for i in range(2000)]
    versions += [f"v9.9.{i}x" for i in range(50)]
    rng.shuffle(versions)

    def registry(request):
        path = request.line.split(" ")[1]
        if path.endswith("/@v/list"):
            return answer("".join(v + "\n" for v in versions).encode())
        version = path.rsplit("/", 1)[1].removesuffix(".info")
        return answer(json.dumps({"Version": version, "Time": "2020-01-01T00:00:00Z"}).encode())

    with world({"go.example": registry}) as w:
        c = w.cell({"registries": [{"ecosystem": "go", "host": "go.example"}], "unknown_age": "allow", "deny": ["go:example.org/x@v1.99.99"]})
        for _ in range(2):
            reply = get(c, "go.example", "/example.org/x/@latest", True)
            equal((reply.status, json.loads(reply.body)["Version"]), (200, "v1.99.98"), "the highest that is allowed")
        listed = get(c, "go.example", "/example.org/x/@v/list", True).body.decode().split()
        equal(sorted(listed), sorted(v for v in versions if v != "v1.99.99"), "the list")


def test_many_tags():
    """Each tag names a version that is denied, and leads to the highest below it."""
    n = 4000
    tags = {f"t{i}": f"2.0.{i * 1237 % n}-{'x' * 60}.{i}" for i in range(n)}
    versions = {v: {} for v in [*tags.values(), *(f"1.0.{i}" for i in range(100))]}
    document = {"name": "demo", "dist-tags": {"latest": "1.0.99", **tags},
                "versions": {v: {"name": "demo", "version": v, "dist": {"tarball": f"https://npm.example/demo/-/demo-{v}.tgz"}} for v in versions}}
    data = json.dumps(document).encode()
    with world({"npm.example": lambda q: answer(data)}) as w:
        c = w.cell({"registries": [{"ecosystem": "npm", "host": "npm.example"}], "unknown_age": "allow", "deny": ["npm:demo@2.*"]})
        got = json.loads(get(c, "npm.example", "/demo", True).body)
        equal(set(got["dist-tags"].values()), {"1.0.99"}, "where the tags lead")
        equal(len(got["dist-tags"]), n + 1, "tags")
        equal(len(got["versions"]), 100, "versions")


def test_others_come_in_between():
    """Each tag names a long version that is hidden and is searched among all others: work that its bytes do not tell."""
    tags = {f"t{i}": f"1.0.0-{'a.' * 50}{i}" for i in range(19000)}
    document = {"name": "demo", "dist-tags": {"latest": "1.0.0", **tags}, "versions": {v: {"name": "demo", "version": v, "dist": {
        "tarball": f"https://npm.example/demo/-/demo-{v}.tgz"}} for v in ("1.0.0", tags["t0"])}}
    data = json.dumps(document).encode()
    with world({"npm.example": lambda q: answer(data)}) as w:
        c = w.cell({"registries": [{"ecosystem": "npm", "host": "npm.example"}], "unknown_age": "allow", "deny": [f"npm:demo@{tags['t0']}"]})
        link, turns, got = start(c, "npm.example", "/demo", True), 0, []
        check(link.recv(1), "the answer begins")
        reader = threading.Thread(target=lambda: got.append(finish(link)))
        reader.start()
        while reader.is_alive():
            check(w.egress.ping(), "cordon-egress answers")
            turns += 1
        equal(json.loads(got[0].body)["dist-tags"], {"latest": "1.0.0"}, "tags of hidden versions")
        check(turns > 60, f"cordon-egress answered {turns} times while it wrote a document of {len(data)} bytes")


if __name__ == "__main__":
    main(globals())
