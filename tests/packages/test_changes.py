#!/usr/bin/python3 -B
"""Goal: a registry that says something else of a version than it said before gets nothing of it into a session: another
digest or another time is an alarm on record, and nothing else of the name is refused.

    test_changes.py CORDON [name ...]

Metadata is asked for again after five minutes. The tests do not wait: they write an earlier time into the view that
cordon-cache keeps of it, and start cordon-cache and cordon-egress anew, as after a crash."""
import copy
import hashlib
import json
import os
import time

import registry_answer as faults
from attack_tools import R, internet, npm, recorded, refused, session
from cache_channel import files_of
from internet_client import sh
from checks import check, equal, wait_for

KILLS = True  # tests here kill programs of the server
NOW_MS = int(time.time() * 1000)
HOUR_MS = 3600 * 1000


def views(server, words):
    """The files of views whose registry and path have these words, with their bytes."""
    folder = f"{server.state}/packages"
    for name in files_of(folder):
        if name.startswith("views/"):
            with open(f"{folder}/{name}", "rb") as f:
                data = f.read()
            if all(w.encode() in data for w in words):
                yield f"{folder}/{name}", data


def make_older(server, *words):
    """The view of metadata that has these words looks an hour older. Its form: cache/view_file.c."""
    at, data = wait_for(lambda: list(views(server, words)), 10, f"a view of {words}")[0]
    text = data[:-16]
    fetched = int.from_bytes(text[-48:-40], "little")
    check(abs(fetched - NOW_MS) < HOUR_MS, f"the form of a view: {fetched}")
    text = text[:-48] + (fetched - HOUR_MS).to_bytes(8, "little") + text[-40:]
    os.chmod(at, 0o600)
    with open(at, "wb") as f:
        f.write(text + hashlib.sha256(text).digest()[:16])
    for name in ("cordon-cache", "cordon-egress"):
        for _ in server.pids(name):
            server.restarted(name)


def known(server, s, name, used=True):
    """A name with two versions that this node has seen an hour ago: what the registry said of it. used: the new
    cordon-egress has read it, too."""
    for version in ("1.0.0", "1.1.0"):
        R.add("npm", name, version, age="400d")
    said = json.loads(npm(server, s, "/" + name).body)
    equal(sorted(said["versions"]), ["1.0.0", "1.1.0"], "versions")
    make_older(server, "npm.example", "/" + name)
    if not used:
        return said
    wait_for(lambda: npm(server, s, R.path("npm", name, "1.0.0")).whole, 15, "a file of a version that was seen")
    equal(R.count("/" + name), 1, "requests for the metadata: the file's digest was known")
    return said


def other_digest(doc):
    doc["versions"]["1.1.0"]["dist"]["integrity"] = "sha512-" + "A" * 86 + "=="


def other_time(doc):
    doc["time"]["1.1.0"] = "2001-01-01T00:00:00.000Z"


def now_says(name, said, change):
    """From now on the registry's document is another one."""
    doc = copy.deepcopy(said)
    change(doc)
    R.forget()
    R.fault("/" + name, faults.body(json.dumps(doc).encode()))


def test_a_known_version_changes(server):
    for what, change in (("digest", other_digest), ("time", other_time)):
        s = session(server)
        name = f"other-{what}"
        now_says(name, known(server, s, name), change)
        page = json.loads(npm(server, s, "/" + name).body)
        equal(R.count("/" + name), 1, "the registry was asked again")
        equal(sorted(page["versions"]), ["1.0.0"], f"versions that are shown after another {what}")
        equal(page["dist-tags"]["latest"], "1.0.0", "the tag")
        reply = npm(server, s, R.path("npm", name, "1.1.0"))
        refused(reply, "changed")
        equal(R.count(R.path("npm", name, "1.1.0")), 0, "requests for the file")
        row = recorded(server, s, name=name, version="1.1.0")
        equal((row["result"], row["changed"]), ("refused", True), "on record")
        check(npm(server, s, R.path("npm", name, "1.0.0")).whole, "the version of which nothing changed")
        equal(recorded(server, s, name=name, version="1.0.0")["changed"], False, "its record")
        R.heal()
        refused(npm(server, s, R.path("npm", name, "1.1.0")), "changed")


def test_a_change_that_only_the_cache_knows(server):
    """cordon-egress is new: what it fetches is compared with what the cache has."""
    s = session(server)
    now_says("other-since", known(server, s, "other-since", used=False), other_digest)
    page = wait_for(lambda: (r := npm(server, s, "/other-since")).status == 200 and r, 15, "the document")
    equal(sorted(json.loads(page.body)["versions"]), ["1.0.0"], "versions that are shown")
    refused(npm(server, s, R.path("npm", "other-since", "1.1.0")), "changed")
    R.heal()


def test_an_address_that_changes(server):
    """Its file is now another package's, which the session may not have."""
    R.add("npm", "evil", "9.9.9", age="400d")
    s = session(server, allow=["npm:other-address"])
    evil = R.path("npm", "evil", "9.9.9")

    def change(doc):
        doc["versions"]["1.1.0"]["dist"]["tarball"] = "https://npm.example" + evil
    now_says("other-address", known(server, s, "other-address"), change)
    done = sh(server, s, "cd /tmp && npm install --no-audit --no-fund --registry https://npm.example/ other-address@1.1.0")
    check(done["exit_code"] != 0, "npm installed it")
    refused(npm(server, s, evil), "evil")
    equal(R.count("*evil*"), 0, "requests for the other package")
    R.heal()


def events(server, s, kind):
    found = server.want(200, "GET", f"/v1/sessions/{s['id']}/events")["events"]
    return [e["data"] for e in found if e["type"] == kind]


def test_a_version_that_claims_to_be_old(server):
    """It was not in the metadata of an hour ago, and says that it was released a year ago."""
    s = session(server, min_age="7d")
    known(server, s, "backdated")
    R.add("npm", "backdated", "1.2.0", age="300d")
    page = json.loads(npm(server, s, "/backdated").body)
    equal(sorted(page["versions"]), ["1.0.0", "1.1.0"], "versions that are shown")
    path = R.path("npm", "backdated", "1.2.0")
    refused(npm(server, s, path), "was first seen 0 s ago, this session wants 7 days")
    row = recorded(server, s, name="backdated", version="1.2.0")
    equal((row["result"], row["backdated"]), ("refused", True), "on record")
    data = wait_for(lambda: [e for e in events(server, s, "package.backdated") if e["version"] == "1.2.0"], 10, "an event")[0]
    equal((data["name"], data["ecosystem"]), ("backdated", "npm"), "the event")
    check(npm(server, s, R.path("npm", "backdated", "1.1.0")).whole, "a version that was known")
    for _ in server.pids("cordon-egress"):
        server.restarted("cordon-egress")
    reply = wait_for(lambda: (r := npm(server, s, path)).status == 403 and r, 15, "an answer of the new cordon-egress")
    refused(reply, "was first seen")
    equal(R.count(path), 0, "requests for the file")
    check(npm(server, session(server, min_age_except=["npm:backdated"], min_age="7d"), path).whole, "where the age does not count")


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=1)
