#!/usr/bin/python3 -B
"""Goal: a value that the mask covers on its way to a cell gets into no file of the package cache, and out of it to no
session, whoever asks, in whatever order.

    test_masked_cache.py CORDON_EGRESS CORDON_CACHE [name ...]"""
import base64
import hashlib
import json
import os

from gate_world import answer, check, equal, get, main, package_record, wait_for, world

VALUE = "tok-9fQ2xLmZ7TbKw0aRVd4U"
SECRET = [{"name": "t", "value": VALUE, "hosts": ["npm.example"]}]
RULE = {"host": "npm.example", "set_headers": {"Authorization": "Bearer ${secret.t}"}, "secret": "t"}
PRIVATE = {"ecosystem": "npm", "host": "npm.example", "private": True}
FILES = {"told": b"file for " + VALUE.encode() + b"\n" * 40000, "end": b"\n" * 40000 + VALUE.encode(), "clean": b"clean" * 9000,
         "small": VALUE.encode()}


def document(name, who):
    digest = "sha512-" + base64.b64encode(hashlib.sha512(FILES[name]).digest()).decode()
    return json.dumps({"name": name, "versions": {"1.0.0": {
        "name": name, "version": "1.0.0", "description": who,
        "dist": {"tarball": f"https://npm.example/{name}/-/{name}-1.0.0.tgz", "integrity": digest}}}, "dist-tags": {"latest": "1.0.0"}}).encode()


def registry(request):
    path, who = request.line.split(" ")[1], request.get("Authorization") or "none"
    if path.startswith("/-/npm/v1/keys"):
        return answer(json.dumps({"you": who}).encode(), headers=("Content-Type: application/json",))
    if path.startswith("/-/npm/v1/attestations"):
        return answer(b"{}", headers=("Content-Type: application/json", f'ETag: "{VALUE}"', f"X-You: {who}"))
    name = path.split("/")[1]
    return answer(FILES[name], headers=(f"X-You: {who}",)) if "/-/" in path else answer(document(name, who))


def kept(folder):
    """Files of the cache with the value."""
    found = []
    for at, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(at, name), "rb") as f:
                if VALUE.encode() in f.read():
                    found.append(name)
    return found


def test_what_is_masked_is_not_kept():
    with world({"npm.example": registry}, cache=True) as w:
        def session(secret, **packages):
            return w.cell({"registries": [PRIVATE], **packages}, secrets=SECRET if secret else (), rules=[RULE] if secret else [])

        online, paths = session(True), ["/-/npm/v1/keys", "/-/npm/v1/attestations/clean@1.0.0", *FILES, *(f"{n}/-/{n}-1.0.0.tgz" for n in FILES)]
        paths = [p if p.startswith("/") else "/" + p for p in paths]
        for turn in ("first", "again"):
            for path in paths:
                reply = get(online, "npm.example", path, True)
                check(reply.status == 200 and VALUE.encode() not in reply.body and VALUE not in str(reply.headers), f"{turn}, {path}: {reply}")
        equal(get(online, "npm.example", "/clean/-/clean-1.0.0.tgz", True).body, FILES["clean"], "a file without the value")
        wait_for(lambda: package_record(online, lambda r: r["name"] == "clean" and r["cache"] == "hit"), 10, "which is kept")
        equal(kept(w.folder), [], "files of the cache that hold the value")
        for secret in (True, False):
            offline = session(secret, mode="offline-cache")
            for path in paths:
                reply = get(offline, "npm.example", path, True)
                check(VALUE.encode() not in reply.body and VALUE not in str(reply.headers), f"offline, secret {secret}, {path}: {reply}")
            equal(get(offline, "npm.example", "/clean/-/clean-1.0.0.tgz", True).body, FILES["clean"], f"offline, secret {secret}")


def test_what_was_kept_before_the_secret_is_masked():
    """A session without the secret fetches what holds the value; one of the same tenant has it as a secret."""
    with world({"npm.example": registry}, cache=True) as w:
        rule = {"host": "npm.example"}
        first = w.cell({"registries": [PRIVATE]}, rules=[rule])
        second = w.cell({"registries": [PRIVATE], "mode": "offline-cache"}, secrets=SECRET, rules=[{**rule, "secret": "t"}])
        third = w.cell({"registries": [PRIVATE], "mode": "offline-cache"}, rules=[rule])
        for name, data in FILES.items():
            path, want = f"/{name}/-/{name}-1.0.0.tgz", data.replace(VALUE.encode(), b"*" * len(VALUE))
            equal(get(first, "npm.example", path, True).body, data, f"{name}: without the secret")
            wait_for(lambda path=path: get(third, "npm.example", path, True).status == 200, 10, f"{name} in the cache")
            for headers in ("", "Range: bytes=5-20\r\n", f"Range: bytes=-{len(VALUE) // 2}\r\n"):
                reply = get(second, "npm.example", path, True, headers)
                equal((reply.status, reply.body), (200, want), f"{name}, {headers!r}: with the secret, all of it")


if __name__ == "__main__":
    main(globals())
