#!/usr/bin/python3 -B
"""Goal: a package with more than one name gets nothing past the policy. The place that a registry redirects to is judged by its own
name, and what came from there is given to nobody else. A storage without names stays allowed. Versions in lists have all names of
their module.

    test_renamed.py CORDON_EGRESS CORDON_CACHE [name ...]

One cordon-egress, and registries that redirect as the test says (gate_world.py)."""
import contextlib
import hashlib
import json

from gate_world import Held, answer, check, document, equal, finish, get, main, start, wait_for, world

BLOB = b"layer" * 1000
DIGEST = "sha256:" + hashlib.sha256(BLOB).hexdigest()
PINS = {"go:good.com/x": ["v1.0.0 h1:" + "A" * 43 + "="]}


def git(**members):
    return {"registries": [{"ecosystem": "git", "host": "code.example", "files": ["files.example"]}], "unknown_age": "allow", **members}


def oci(**members):
    return {"registries": [{"ecosystem": "oci", "host": "oci.example", "files": ["cdn.example"]}], "unknown_age": "allow", **members}


def leading(places, body=b"its bytes"):
    """A server whose paths lead to others, which have the body."""
    def on(request):
        path = request.line.split(" ")[1]
        if path in places:
            return answer(b"", "301 Moved Permanently", (f"Location: {places[path]}",))
        return answer(body)
    return on


def refused(w, cell, host, path, place, words):
    """The place is not asked."""
    reply = get(cell, host, path, True)
    check(reply.status == 403 and words in reply.reason, f"{path} to {place}: {reply}")
    equal(w.count(place), 0, f"requests for {place}")


REPOSITORY = {"/good/y/archive/v1.tar.gz": "/evil/x/archive/v1.tar.gz",
              "/good/y/archive/v2.tar.gz": "https://files.example/evil/x/tar.gz/v2",
              "/good/y/archive/v3.tar.gz": "/evil/x/raw/main/data",
              "/good/y/archive/v4.tar.gz": "/evil%2Fx/archive/v4.tar.gz",
              "/good/y/archive/v5.tar.gz": "/a/../evil/x/archive/v5.tar.gz",
              "/good/y.git/info/refs?service=git-upload-pack": "/evil/x.git/info/refs?service=git-upload-pack"}


def test_a_renamed_repository():
    with world({"code.example": leading(REPOSITORY), "files.example": leading({})}) as w:
        for members, words in (({"deny": ["git:evil/*"]}, "is denied by the policy of this session"),
                               ({"allow": ["git:good/*"]}, "is not in the list of packages")):
            cell = w.cell(git(**members))
            for path, place in REPOSITORY.items():
                # an allow list refuses names: a page tells none, and what only resembles a request is refused in any case
                if "allow" in members and "/raw/" in place:
                    continue
                unread = "%2F" in place
                refused(w, cell, "code.example", path, place.replace("https://files.example", ""), "no known request" if unread else words)
        record = cell.record(lambda r: r.get("kind") == "package")
        equal((record["package"]["name"], record["package"]["result"], record["rule"]), ("good/y", "refused", "session packages.allow"), "the record")
        cell = w.cell(git())
        for path, place in REPOSITORY.items():
            if "%2F" not in place:
                equal(get(cell, "code.example", path, True).body, b"its bytes", f"{place}, which no list refuses")


def test_more_redirects():
    """Each place is judged, not the last one alone."""
    places = {"/good/y/archive/v1.zip": "/good/z/archive/v1.zip", "/good/z/archive/v1.zip": "/evil/x/archive/v1.zip",
              "/evil/x/archive/v1.zip": "https://files.example/storage/1"}
    with world({"code.example": leading(places), "files.example": leading({})}) as w:
        refused(w, w.cell(git(deny=["git:evil/*"])), "code.example", "/good/y/archive/v1.zip", "/evil/x/archive/v1.zip", "is denied")
        equal(w.count("/good/z/archive/v1.zip"), 1, "requests for the second name")
        equal(get(w.cell(git()), "code.example", "/good/y/archive/v1.zip", True).body, b"its bytes", "the storage")


def test_a_question_whether_a_version_exists():
    """Egress asks for it before the program does: the clock of its age starts there."""
    with world({"code.example": leading(REPOSITORY), "files.example": leading({})}) as w:
        cell = w.cell({**git(deny=["git:evil/*"], min_age="1h"), "unknown_age": "deny"})
        refused(w, cell, "code.example", "/good/y/archive/v1.tar.gz", "/evil/x/archive/v1.tar.gz", "is denied")
        equal(w.count("/good/y/archive/v1.tar.gz"), 1, "requests for the old name")


def test_an_image():
    path, other = f"/v2/good/y/blobs/{DIGEST}", f"/v2/evil/x/blobs/{DIGEST}"
    storage = f"https://cdn.example/registry-v2/docker/registry/v2/blobs/sha256/ab/{DIGEST[7:]}/data?verify=1-x%3D"
    for place in (other, "https://cdn.example" + other):
        with world({"oci.example": leading({path: place}, BLOB), "cdn.example": leading({}, BLOB)}) as w:
            refused(w, w.cell(oci(deny=["oci:evil/*"])), "oci.example", path, other, "is denied by the policy of this session")
            equal(get(w.cell(oci()), "oci.example", path, True).body, BLOB, "a blob that no list refuses")
    with world({"oci.example": leading({path: storage}, BLOB), "cdn.example": leading({}, BLOB)}, cache=True) as w:
        for members in ({"deny": ["oci:evil/*"]}, {"allow": ["oci:good/*"]}):
            equal(get(w.cell(oci(**members)), "oci.example", path, True).body, BLOB, f"a storage without names, {members}")
        offline = w.cell(oci(mode="offline-cache"))
        wait_for(lambda: get(offline, "oci.example", path, True).status == 200, 10, "the blob of the storage in the cache")


def test_what_came_under_another_name_is_not_shared():
    """Neither from the cache nor while it comes: the next session may deny that name."""
    blob, manifest = f"/v2/good/y/blobs/{DIGEST}", "/v2/good/y/manifests/latest"
    held = Held()
    lead = leading({blob: blob.replace("good/y", "evil/x"), manifest: manifest.replace("good/y", "evil/x")}, BLOB)

    def registry(request):
        if "/evil/x/blobs" not in request.line:
            return lead(request)
        request.conn.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(BLOB)}\r\n\r\n".encode() + BLOB[:100])
        held.wait("blob")
        return BLOB[100:]

    with world({"oci.example": registry, "cdn.example": leading({})}, cache=True) as w:
        first = start(w.cell(oci(), tenant="a"), "oci.example", blob, True)
        wait_for(lambda: w.count(blob) == 1, 10, "the first download")
        second = start(w.cell(oci(deny=["oci:evil/*"]), tenant="b"), "oci.example", blob, True)
        held.release("blob")
        equal(finish(first).body, BLOB, "the first")
        equal(finish(second).status, 403, "of a tenant that denies the other name")
        equal(get(w.cell(oci(), tenant="a"), "oci.example", manifest, True).status, 200, "a manifest")
        offline = w.cell(oci(mode="offline-cache"), tenant="a")
        for path in (blob, manifest):
            equal(get(w.cell(oci(deny=["oci:evil/*"]), tenant="b"), "oci.example", path, True).status, 403, path)
            equal(get(offline, "oci.example", path, True).status, 403, f"{path} in the cache")


def test_a_module():
    """That egress fetches whole, since its hash is of the files in it."""
    old, new = "/good.com/x/@v/v1.0.0.zip", "/evil.com/x/@v/v1.0.0.zip"
    with world({"go.example": leading({old: new}, b'{"Version": "v1.0.0", "Time": "2020-01-01T00:00:00Z"}')}) as w:
        entry = {"registries": [{"ecosystem": "go", "host": "go.example"}], "unknown_age": "allow", "pins": PINS}
        refused(w, w.cell({**entry, "deny": ["go:evil.com/x"]}), "go.example", old, new, "is denied")
        refused(w, w.cell({**entry, "mode": "pinned"}), "go.example", old, new, "is not pinned")


LATEST = {"/{}/@v/list": b"v1.0.0\nv1.1.0\n", "/{}/@v/v1.0.0.info": b'{"Version": "v1.0.0", "Time": "2020-01-01T00:00:00Z"}',
          "/{}/@v/v1.1.0.info": b'{"Version": "v1.1.0", "Time": "2020-01-02T00:00:00Z"}'}


def test_versions_of_a_module_with_more_names():
    """A host of files, or the path of an entry, may have more or less in front of a name: a deny of one version counts for each
    name in lists, too."""
    def registry(request):
        path = request.line.split(" ")[1]
        for name in ("mirror/evil.com/x", "some/evil.com/x", "evil.com/x"):
            for form, body in LATEST.items():
                if path == form.format(name):
                    return answer(body)
        return answer(b"no", "404 Not Found")

    with world({"go.example": registry, "files.example": registry}) as w:
        for entry, path, deny in (({"path": "/mirror/"}, "/mirror/evil.com/x", "mirror/evil.com/x"),
                                  ({"files": ["files.example"]}, "/some/evil.com/x", "evil.com/x")):
            host = "files.example" if "files" in entry else "go.example"
            packages = {"registries": [{"ecosystem": "go", "host": "go.example", **entry}], "unknown_age": "allow"}
            for denied, want in ((f"{deny}@v1.1.0", "v1.0.0"), ("other.com/x", "v1.1.0")):
                cell = w.cell({**packages, "deny": [f"go:{denied}"]})
                latest, listed = get(cell, host, path + "/@latest", True), get(cell, host, path + "/@v/list", True)
                equal((latest.status, json.loads(latest.body or b"{}").get("Version")), (200, want), f"{path}: {latest}")
                equal(b"v1.1.0" in listed.body, want == "v1.1.0", f"the list of {path}: {listed}")


def test_metadata():
    """Sessions share it, whatever their policies are: that of another name is refused to all."""
    places = {"/simple/demo/": "/simple/evil/", "/simple/moved/": "/storage/moved", "/simple/self/": "/simple/self/?again"}

    def registry(request):
        name = "self" if "self" in request.line else "moved"
        return leading(places, b'{"meta": {"api-version": "1.0"}, "name": "%s", "files": []}' % name.encode())(request)

    with world({"pypi.example": registry}) as w:
        cell = w.cell({"registries": [{"ecosystem": "pypi", "host": "pypi.example"}], "unknown_age": "allow"})
        reply = get(cell, "pypi.example", "/simple/demo/", True)
        check(reply.status == 502 and "another package, evil" in reply.reason, f"another name: {reply}")
        equal(w.count("/simple/evil/"), 0, "requests for it")
        for path in ("/simple/moved/", "/simple/self/"):
            reply = get(cell, "pypi.example", path, True)
            equal(reply.status, 200, f"{path}: {reply}")


def test_the_policy_changes_meanwhile():
    """The new policy was not asked about the other name."""
    place = REPOSITORY["/good/y/archive/v1.tar.gz"]
    with world({"code.example": leading(REPOSITORY, b"x" * 30000000), "files.example": leading({})}) as w:
        cell = w.cell(git())
        link = start(cell, "code.example", "/good/y/archive/v1.tar.gz", True)
        check(b" 200 " in link.recv(1000), f"the answer of {place}")
        cell.change(document(git(deny=["git:evil/*"])))
        got = 0
        with contextlib.suppress(OSError):
            while data := link.recv(1 << 20):
                got += len(data)
        check(got < 29000000, f"it came whole: {got}")


if __name__ == "__main__":
    main(globals())
