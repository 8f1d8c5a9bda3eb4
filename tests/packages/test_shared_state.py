#!/usr/bin/python3 -B
"""Goal: what one tenant does never decides what another gets: every thing that tenants share has all that decided its
content in its key. A test for each row of doc/security/shared-state.md that cordon-egress shares, with two tenants.

    test_shared_state.py CORDON_EGRESS CORDON_CACHE [name ...]

One cordon-egress, one cordon-cache, and registries that answer as the test says (gate_world.py)."""
import base64
import gzip
import hashlib
import json
import socket
import threading
import time

from gate_world import Held, answer, check, equal, finish, get, main, package_record, settle, start, wait_for, world
from origin_server import Reader

APT = {"ecosystem": "apt", "host": "deb.example"}
SUITE = "/dists/stable"
POOL = "/pool/aa_1.0_amd64.deb"


def archive(content, folders=("main/binary-amd64",)):
    """The files of an apt archive, whose one package has this content."""
    listed = f"Package: aa\nVersion: 1.0\nArchitecture: amd64\nFilename: {POOL[1:]}\nSize: {len(content)}\nSHA256: {hashlib.sha256(content).hexdigest()}\n\n"
    index = gzip.compress(listed.encode(), mtime=0)
    lines = "".join(f" {hashlib.sha256(index).hexdigest()} {len(index)} {f}/Packages.gz\n" for f in folders)
    files = {f"{SUITE}/{f}/Packages.gz": index for f in folders}
    return {**files, f"{SUITE}/InRelease": f"Suite: stable\nSHA256:\n{lines}".encode(), POOL: content}


def serving(files):
    def on(request):
        path = request.line.split(" ")[1]
        return answer(files[path]) if path in files else answer(b"no", "404 Not Found")
    return on


def update(cell, host="deb.example", tls=False, folder="main/binary-amd64"):
    """As apt does: the release, then the index."""
    return [get(cell, host, path, tls) for path in (f"{SUITE}/InRelease", f"{SUITE}/{folder}/Packages.gz")]


def last_package(cell, path=POOL, tls=False, host="deb.example"):
    """The reply to a request for a file, and its record."""
    cell.records.clear()
    reply = get(cell, host, path, tls)
    return reply, package_record(cell, lambda r: r.get("file") == path.rsplit("/", 1)[1])


# ---- the package cache

class Proxy:
    """A SOCKS5 proxy that is every server itself."""

    def __init__(self, net, address, handle):
        net.address(address)
        with net.inside(net.world):
            self.listener = socket.create_server((address, 1080))
        self.handle, self.asked = handle, []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            conn, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def serve(self, conn):
        reader = Reader(conn)
        reader.exactly(reader.exactly(2)[1])
        conn.sendall(b"\5\0")
        kind = reader.exactly(4)[3]
        reader.exactly(reader.exactly(1)[0] + 2 if kind == 3 else {1: 6, 4: 18}[kind])
        conn.sendall(b"\5\0\0\1\0\0\0\0\0\0")
        while (head := reader.until(b"\r\n\r\n")) is not None:
            path = head.split(b" ")[1].decode()
            self.asked.append(path)
            conn.sendall(answer(self.handle[path]) if path in self.handle else answer(b"no", "404 Not Found"))


def test_a_proxy_of_one_tenant_fills_no_cache_of_others():
    good, evil = archive(b"good" * 100), archive(b"EVIL" * 100)
    with world({"deb.example": serving(good), "socks.example": serving({})}, cache=True) as w:
        proxy = Proxy(w.net, w.places["socks.example"], evil)
        packages = {"registries": [APT], "unknown_age": "allow"}
        a = w.cell(packages, tenant="a", rules=[{"host": "deb.example"}, {"host": "socks.example", "ports": [1080]}],
                   proxy={"address": "socks.example:1080"})
        equal([r.body for r in update(a)] + [last_package(a)[0].body], [*list(evil.values())[1::-1], evil[POOL]], "what the proxy says")
        check(proxy.asked, "the proxy was asked")
        settle(w)
        b = w.cell(packages, tenant="b", rules=[{"host": "deb.example"}])
        for reply, want in zip(update(b), list(good.values())[1::-1]):
            equal(reply.body, want, "documents of another tenant")
        reply, record = last_package(b)
        equal((reply.body, record["verified"], record["cache"]), (good[POOL], True, "miss"), "the file of another tenant")
        offline = w.cell({**packages, "mode": "offline-cache"}, tenant="c", rules=[{"host": "deb.example"}])
        for reply in [*update(offline), last_package(offline)[0]]:
            equal(reply.status, 403, "a tenant that never fetched anything, offline")


def test_what_came_in_the_clear_stays_with_its_tenant():
    files = archive(b"good" * 100)
    with world({"deb.example": serving(files)}, cache=True) as w:
        packages = {"registries": [APT], "unknown_age": "allow"}
        for tls, want in ((False, 403), (True, 200)):
            w.seen.clear()
            a = w.cell(packages, tenant="a", rules=[{"host": "deb.example"}])
            update(a, tls=tls)
            equal(last_package(a, tls=tls)[0].status, 200, "the first")
            own = w.cell({**packages, "mode": "offline-cache"}, tenant="a", rules=[{"host": "deb.example"}])
            other = w.cell({**packages, "mode": "offline-cache"}, tenant="b", rules=[{"host": "deb.example"}])
            wait_for(lambda tls=tls, own=own: update(own, tls=tls)[1].status == 200, 10, "the cache")
            wait_for(lambda tls=tls, own=own: last_package(own, tls=tls)[0].status == 200, 10, "the file in the cache")
            equal([r.status for r in [*update(other, tls=tls), last_package(other, tls=tls)[0]]], [want] * 3,
                  f"another tenant, {'TLS' if tls else 'in the clear'}")


def test_a_long_accept_is_another_document():
    """One tenant asks for another form of a document by a long Accept, or by two of them."""
    def registry(request):
        return answer("; ".join(request.all("Accept")).encode() or b"plain")

    with world({"repo.example": registry}, cache=True) as w:
        entry = {"registries": [{"ecosystem": "maven", "host": "repo.example"}], "unknown_age": "allow"}
        path = "/org/demo/lib/maven-metadata.xml"
        forms = {"": b"plain", "Accept: " + "x/" + "y" * 300 + "\r\n": b"x/" + b"y" * 300, "Accept: a/b\r\nAccept: c/d\r\n": b"a/b; c/d",
                 "Accept: a/b\r\n": b"a/b"}
        a = w.cell(entry, tenant="a")
        for headers, want in forms.items():
            equal(get(a, "repo.example", path, True, headers).body, want, "from the registry")
        b = w.cell({**entry, "mode": "offline-cache"}, tenant="b")
        for headers, want in forms.items():
            wait_for(lambda headers=headers: get(b, "repo.example", path, True, headers).status == 200, 10, "the cache")
            equal(get(b, "repo.example", path, True, headers).body, want, f"from the cache, {headers[:20]!r}")


# ---- first sight

def test_a_host_that_one_tenant_adds_starts_no_clock_of_others():
    jar = b"PK\3\4" * 50
    published = threading.Event()

    def has(request):
        path = request.line.split(" ")[1]
        if path.endswith(".sha1"):
            return answer(hashlib.sha1(jar).hexdigest().encode())
        return answer(b"", "404 Not Found") if path.endswith((".sha256", ".sha512")) else answer(jar)

    def registry(request):
        return has(request) if published.is_set() else answer(b"", "404 Not Found")

    with world({"repo.maven.apache.org": registry, "evil.example": has}, cache=True) as w:
        entry = {"ecosystem": "maven", "host": "repo.maven.apache.org", "path": "/maven2/"}
        a = w.cell({"registries": [{**entry, "files": ["evil.example"]}], "unknown_age": "allow"}, tenant="a")
        for path in ("/org/victim/lib/9.9/lib-9.9.jar", "/maven2/org/victim/lib/9.9/lib-9.9.jar"):
            equal(get(a, "evil.example", path, True).status, 200, "the host of the one tenant has it")
        settle(w)
        time.sleep(2)  # the clock of first sight: this test is about time that passed
        published.set()
        b = w.cell({"registries": ["maven"], "min_age": "2s"}, tenant="b")
        reply = get(b, "repo.maven.apache.org", "/maven2/org/victim/lib/9.9/lib-9.9.jar", True)
        check(reply.status == 403 and "first seen 0 s ago" in reply.reason + reply.body.decode(), f"another tenant: {reply}")


def test_tenants_with_one_registry_share_its_clock():
    """The key holds nothing that decided nothing: the same built-in registry, and the same entry, are shared."""
    def has(request):
        path = request.line.split(" ")[1]
        return answer(hashlib.sha1(b"x").hexdigest().encode()) if path.endswith(".sha1") else (
            answer(b"", "404 Not Found") if path.endswith((".sha256", ".sha512")) else answer(b"x"))

    with world({"repo.maven.apache.org": has, "repo.example": has, "files.example": has}, cache=True) as w:
        for host, prefix, entry in (("repo.maven.apache.org", "/maven2", "maven"),
                                    ("repo.example", "", {"ecosystem": "maven", "host": "repo.example", "files": ["files.example"]})):
            path = prefix + "/org/demo/lib/1.0/lib-1.0.jar"
            a = w.cell({"registries": [entry], "unknown_age": "allow"}, tenant="a")
            equal(get(a, host, path, True).status, 200, "the first tenant")
            b = w.cell({"registries": [entry], "min_age": "1s"}, tenant="b")
            # first sight is counted in seconds
            wait_for(lambda b=b, host=host, path=path: get(b, host, path, True).status == 200, 10, f"{host}: the second tenant")


# ---- lists of indexes

def test_indexes_that_one_tenant_asks_for_push_out_none_of_others():
    folders = ["main/binary-amd64", *(f"part{i}/binary-amd64" for i in range(70))]
    with world({"deb.example": serving(archive(b"good" * 100, folders))}) as w:
        packages = {"registries": [APT], "unknown_age": "allow"}
        for tls in (True, False):
            b = w.cell(packages, tenant="b", rules=[{"host": "deb.example"}])
            update(b, tls=tls)
            equal(last_package(b, tls=tls)[1]["verified"], True, "before")
            a = w.cell(packages, tenant="a", rules=[{"host": "deb.example"}])
            for folder in folders[1:]:
                equal(get(a, "deb.example", f"{SUITE}/{folder}/Packages.gz", tls).status, 200, "an index")
            # many archives, too
            reply, record = last_package(b, tls=tls)
            equal((reply.status, record["verified"], record["expected"]), (200, True, "index"), "after the other tenant's requests")


def test_archives_of_one_tenant_push_out_no_list_of_others():
    files = archive(b"good" * 100)
    files = {prefix + path: data for prefix in ("", *(f"/a{i}" for i in range(80))) for path, data in files.items()}
    with world({"deb.example": serving(files)}) as w:
        b = w.cell({"registries": [APT], "unknown_age": "allow"}, tenant="b", rules=[{"host": "deb.example"}])
        update(b)
        equal(last_package(b)[1]["verified"], True, "before")
        for i in range(0, 80, 20):
            a = w.cell({"registries": [{**APT, "path": f"/a{k}/"} for k in range(i, i + 20)], "unknown_age": "allow"}, tenant="a",
                       rules=[{"host": "deb.example"}])
            for k in range(i, i + 20):
                equal(get(a, "deb.example", f"/a{k}{SUITE}/InRelease").status, 200, "a release")
        equal(last_package(b)[1]["verified"], True, "after the other tenant's archives")


# ---- views, and downloads under way

def npm_document(name, host, data, **more):
    digest = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    return json.dumps({"name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {
        "name": name, "version": "1.0.0", "dist": {"tarball": f"https://{host}/{name}/-/{name}-1.0.0.tgz", "integrity": digest}, **more}}}).encode()


def test_a_view_belongs_to_those_who_may_see_it():
    """The same document of one URL: of two tenants' credentials, of a registry with other hosts, and without any."""
    def registry(request):
        who = request.get("Authorization") or "none"
        return answer(npm_document("demo", "npm.example", b"x", description=f"for {who}"))

    with world({"npm.example": registry, "files.example": registry}) as w:
        entry = {"ecosystem": "npm", "host": "npm.example"}
        for tenant, headers, extra in (("a", "Authorization: A\r\n", {}), ("b", "Authorization: B\r\n", {}), ("b", "", {}),
                                       ("a", "", {}), ("b", "", {"files": ["files.example"]}), ("a", "", {"private": True}),
                                       ("b", "", {"private": True})):
            cell = w.cell({"registries": [{**entry, **extra}], "unknown_age": "allow"}, tenant=tenant)
            want = headers[15:].strip() or "none"
            reply = get(cell, "npm.example", "/demo", True, headers)
            equal(json.loads(reply.body)["versions"]["1.0.0"]["description"], f"for {want}", f"{tenant} {headers!r} {extra}")
        # a, b with credentials; public once for both; with other hosts; private a and b
        equal(w.count("/demo"), 6, "fetches")


def test_a_download_under_way_is_followed_by_those_who_share_it():
    held, data = Held(), b"y" * 200000

    def registry(request):
        path = request.line.split(" ")[1]
        if not path.endswith(".tgz"):
            return answer(npm_document("demo", "npm.example", data))
        request.conn.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data[:100000])
        held.wait("file")
        return data[100000:]

    with world({"npm.example": registry}, cache=True) as w:
        policy = {"registries": [{"ecosystem": "npm", "host": "npm.example"}], "unknown_age": "allow"}
        private = {"registries": [{"ecosystem": "npm", "host": "npm.example", "private": True}], "unknown_age": "allow"}
        path = "/demo/-/demo-1.0.0.tgz"
        first = start(w.cell(policy, tenant="a"), "npm.example", path, True)
        wait_for(lambda: w.count(path) == 1, 10, "the first download")
        others = [start(w.cell(p, tenant=t), "npm.example", path, True)
                  for p, t in ((policy, "b"), (private, "a"), (private, "b"))]
        wait_for(lambda: w.count(path) == 3, 10, "downloads of those who do not share it")
        held.release("file")
        for s in (first, *others):
            equal(finish(s).body, data, "the file")
        equal(w.count(path), 3, "downloads in all")


# ---- beside packages: addresses of names, and certificates for them

def test_addresses_are_judged_for_each_tenant():
    """Who asked for a name first decides nothing for others: neither a proxy, which finds addresses itself, nor a policy."""
    with world({"web.example": serving({"/": b"the server"}), "socks.example": serving({})}) as w:
        proxy = Proxy(w.net, w.places["socks.example"], {"/": b"the proxy"})
        asked = lambda: sum(name == "web.example" for name, _ in w.net.asked)  # noqa: E731
        rule = {"host": "web.example"}
        a = w.cell(None, tenant="a", rules=[rule, {"host": "socks.example", "ports": [1080]}], proxy={"address": "socks.example:1080"})
        equal((get(a, "web.example", "/").body, proxy.asked, asked()), (b"the proxy", ["/"], 0), "behind a proxy; questions to name servers")
        b = w.cell(None, tenant="b", rules=[rule])
        equal(get(b, "web.example", "/").body, b"the server", "of another tenant")
        check(asked() > 0, "no question to name servers")
        blocked = {"cidr": w.places["web.example"] + "/32", "ports": "any", "action": "deny"}
        for cell, want in ((w.cell(None, tenant="c", default="allow", rules=[blocked]), 403), (b, 200)):
            equal(get(cell, "web.example", "/").status, want, "the same name, of a tenant that denies its address, and of one that does not")


def test_certificates_say_nothing_but_the_name():
    with world({"one.example": serving({}), "two.example": serving({})}) as w:
        def shown(tenant, host):
            with start(w.cell(None, tenant=tenant, rules=[{"host": "*.example", "tls": "terminate"}]), host, "/", True) as s:
                return s.getpeercert(True)

        one = shown("a", "one.example")
        equal(shown("b", "one.example"), one, "for another tenant")
        check(shown("b", "two.example") != one, "one certificate for two names")
        refused = w.cell(None, tenant="c", rules=[{"host": "two.example"}], refused_names="nxdomain")
        check(refused.lookup("one.example") is None, "a name that the policy refuses")


if __name__ == "__main__":
    main(globals())
