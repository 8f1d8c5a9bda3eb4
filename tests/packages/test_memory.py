#!/usr/bin/python3 -B
"""Goal: cordon-egress uses no memory that it has freed, whatever ends or changes while metadata and files are under way.

    test_memory.py CORDON_EGRESS CORDON_CACHE [name ...]

Meant for sanitized builds (gate_world.py)."""
import hashlib
import json

from gate_world import Held, answer, check, document, equal, finish, main, settle, start, wait_for, world

FETCHES = 8  # PACKAGE_VIEW_FETCHES


def large(name):
    """Facts of more than 6 MiB."""
    versions = ",".join(f'"1.0.{k}":{{"dist":{{"tarball":"http://npm.example/{name}/-/{name}-1.0.{k}-{"a" * 270}.tgz"}}}}'
                        for k in range(20000))
    return f'{{"name":"{name}","dist-tags":{{"latest":"1.0.0"}},"versions":{{{versions}}}}}'.encode()


def test_loads_end_while_others_wait_for_their_turn():
    """Facts in use are over the bound of all views, so that every view that is idle is freed at once; the last new name of
    the session is used up, so that loads which wait for their turn end when it comes."""
    held, documents = Held(), {f"/large{i}": large(f"large{i}") for i in range(6)}

    def registry(request):
        path = request.line.split(" ")[1]
        if path in documents:
            return answer(documents[path], headers=("Content-Type: application/json",))
        held.wait(path)
        return answer(b"{}", "404 Not Found")

    with world({"npm.example": registry}) as w:
        c = w.cell({"registries": [{"ecosystem": "npm", "host": "npm.example"}], "new_names": FETCHES + 1},
                   rules=[{"host": "npm.example"}])
        slow = [start(c, "npm.example", path) for path in documents]
        for s in slow:
            check(s.recv(10), "a document begins, and is not read on")
        fetched = [start(c, "npm.example", f"/none{i}") for i in range(FETCHES)]
        wait_for(lambda: sum(at.startswith("/none") for _, at in w.seen) == FETCHES, 20, "all fetches under way")
        fetched[1].close()  # no request waits for this one any more
        settle(w)
        waiting = [start(c, "npm.example", f"/queued{i}") for i in range(20)]
        settle(w)
        held.release("/none0")
        wait_for(lambda: any(at.startswith("/queued") for _, at in w.seen), 20, "the next load")
        held.release("/none1")
        settle(w)
        held.release_all()
        statuses = [finish(s).status for s in waiting]
        equal(statuses.count(404), 1, f"names that were asked for: {statuses}")
        equal(statuses.count(403), len(waiting) - 1, "names over the bound")
        for s in [fetched[0], *fetched[2:]]:
            equal(finish(s).status, 404, "a name that the registry does not have")
        for s in slow:
            s.close()


def test_a_session_ends_while_its_loads_wait():
    held = Held()

    def registry(request):
        held.wait("all")
        return answer(b"{}", "404 Not Found")

    with world({"npm.example": registry}) as w:
        policy = {"registries": [{"ecosystem": "npm", "host": "npm.example"}]}
        for _round in range(3):
            cells = [w.cell(policy, tenant="one", rules=[{"host": "npm.example"}]) for _ in range(6)]
            # the views are shared: every cell waits for loads of all others
            for c in cells:
                for i in range(12):
                    start(c, "npm.example", f"/name{i}")
            settle(w)
            for c in cells:
                c.detach()
                settle(w)
        held.release_all()


ECOSYSTEMS = {
    # Documents and files: passed on as they are, fetched, shaped, probed. NAME is another one each time.
    "npm": ("/NAME", "/NAME/-/NAME-1.0.0.tgz", "/-/npm/v1/keys"),
    "pypi": ("/simple/NAME/", "/packages/NAME-1.0.0.tar.gz"),
    "cargo": ("/na/me/NAME", "/config.json", "/api/v1/crates/NAME/1.0.0/download"),
    "go": ("/example.org/NAME/@v/list", "/example.org/NAME/@latest", "/example.org/NAME/@v/v1.0.0.info",
           "/example.org/NAME/@v/v1.0.0.mod", "/example.org/NAME/@v/v1.0.0.zip"),
    "gem": ("/info/NAME", "/versions", "/gems/NAME-1.0.0.gem"),
    "maven": ("/org/NAME/lib/maven-metadata.xml", "/org/NAME/lib/1.0/lib-1.0.pom", "/org/NAME/lib/1.0/lib-1.0.jar"),
    "apt": ("/dists/stable/InRelease", "/dists/stable/main/binary-amd64/Packages.gz", "/pool/NAME_1.0_amd64.deb"),
    "git": ("/team/NAME.git/info/refs?service=git-upload-pack", "/team/NAME/archive/refs/tags/1.0.tar.gz", "/x/tool-1.0.tar.gz"),
    "oci": ("/v2/team/NAME/manifests/latest", "/v2/team/NAME/tags/list", "/v2/team/NAME/blobs/sha256:" + hashlib.sha256(b"x").hexdigest()),
}
BODY = json.dumps({"name": "demo", "versions": {"1.0.0": {"dist": {"tarball": "http://reg.example/demo/-/demo-1.0.0.tgz"}}}}).encode() + b" " * 60000


def test_the_policy_changes_after_a_redirect():
    """A redirect writes the path of the request anew; what is judged again is the path that the program asked for."""
    longer = "/o/r/raw/main/" + "a" * 900

    def git(request):
        if len(request.line.split(" ")[1]) < 500:
            return answer(b"", status="302 Found", headers=("Location: https://git.example" + longer,))
        return answer(b"x" * 30000000)

    packages = {"registries": [{"ecosystem": "git", "host": "git.example"}], "deny": ["git:bad/*"]}
    with world({"git.example": git}) as w:
        cell = w.cell(packages)
        link = start(cell, "git.example", "/o/r/info/refs?service=git-upload-pack", True)
        check(b" 200 " in link.recv(1000), "the answer behind the redirect")
        cell.change(document({**packages, "deny": ["git:bad/*", "git:worse/*"]}))
        check(len(link.recv(1 << 16)) > 0, "it goes on")
        link.close()


def test_packages_leave_the_policy_in_each_state():
    """Before the answer, after its head, in its middle, and after all of it came; for each ecosystem; with a cache, and
    for a policy without `packages`, with another registry, and with the registry at another path."""
    go, state = Held(), {"at": ""}

    def registry(request):
        at = state["at"]
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(BODY)}\r\n\r\n".encode()
        if at == "before":
            go.wait("now")
        elif at == "head":
            request.conn.sendall(head)
            go.wait("now")
            return BODY
        elif at == "middle":
            request.conn.sendall(head + BODY[:40000])
            go.wait("now")
            return BODY[40000:]
        return head + BODY

    rules = [{"host": "reg.example"}, {"host": "other.example"}]
    with world({"reg.example": registry, "other.example": registry}, cache=True) as w:
        for eco, paths in ECOSYSTEMS.items():
            entry = {"ecosystem": eco, "host": "reg.example"}
            policy = {"registries": [entry], "unknown_age": "allow", "unverified": "allow"}
            others = (None, {"registries": [{"ecosystem": eco, "host": "other.example"}]},
                      {"registries": [{**entry, "path": "/other/"}]}, {"registries": [{"ecosystem": eco, "host": "other.example", "files": ["reg.example"]}]})
            for at in ("before", "head", "middle", "after"):
                for other in others:
                    state["at"] = at
                    c = w.cell(policy, rules=rules)
                    before, name = len(w.seen), f"name{len(w.seen)}"
                    conns = [start(c, "reg.example", path.replace("NAME", name)) for path in paths]
                    wait_for(lambda before=before: len(w.seen) > before, 20, f"{eco}: a request at the registry")
                    settle(w)
                    equal(c.change(document(other, rules=rules)), "", f"{eco}: the change")
                    go.release_all()
                    for s in conns:
                        finish(s)
                    c.detach()
                    check(w.egress.process.poll() is None, f"{eco}, {at}, {other}: cordon-egress ended:\n{w.log()[-3000:]}")
                    go.go.clear()


if __name__ == "__main__":
    main(globals())
