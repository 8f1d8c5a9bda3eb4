#!/usr/bin/python3 -B
"""Goal: a package policy holds however a request is written, and by whatever name or address its server is reached.

    test_spellings.py CORDON [name ...]

A whole server, fake registries in the small internet of tests/egress, and requests from inside a cell. Rules open the hosts: so
what is not recognised as a package would pass."""
from attack_tools import R, asks, recorded, refused, session, world
import internet
from checks import check, equal
from gate_tools import add_others, fetched
from internet_client import policy
from registry import ADDRESS

HEX = "ab" * 32


def opened(*hosts):
    return [{"host": list(hosts)}]


def none_passes(server, s, host, rows, words=""):
    """Each (method, path) is refused, for a reason with these words, and does not reach the server."""
    before = len(R.requests)
    replies = asks(server, s, *({"host": host, "method": m, "path": p} for m, p in rows))
    for (method, path), reply in zip(rows, replies):
        check(reply.status == 403, f"{method} {host}{path}: {reply}")
        check(words in reply.reason, f"{method} {host}{path}: {reply}")
    equal([q.line for q in R.requests[before:]], [], "requests that reached the server")


GIT = [("GET", "/{}/x.git/info/refs?service=git-upload-pack&a=1"), ("POST", "/{}/x.git/git-upload-pack?a=1"),
       ("POST", "/{}//x.git/git-upload-pack"), ("GET", "/{}/x.git//info/refs?service=git-upload-pack"),
       ("GET", "/{}%2fx.git/info/refs?service=git-upload-pack"), ("GET", "/{}/x.git/objects/pack/pack-" + "a" * 40 + ".pack?x"),
       ("GET", "/{}/x.git/INFO/refs"), ("GET", "/{}/x.git/info/refs/"), ("HEAD", "/{}/x.git/info/refs?x")]
ARCHIVES = [("GET", "/{}/x/archive/refs/heads/a/b.tar.gz"), ("GET", "/{}/x/tar.gz/refs/heads/a/b"), ("GET", "/{}/x/tar.gz/refs/pull/1/head"),
            ("GET", "/{}/x/tar.gz/main?x"), ("GET", "/{}/x/releases/latest/download/tool.tgz"), ("GET", "/{}/x/zipball/a/b")]


def written(rows, name):
    return [(m, p.format(name)) for m, p in rows]


def test_a_denied_repository(server):
    s = session(server, "git", rules=opened("code.example"), deny=["git:evil/*"], unknown_age="allow")
    none_passes(server, s, "code.example", written(GIT, "evil"))
    none_passes(server, s, "code.example", written(ARCHIVES, "evil"), "is denied by the policy of this session")
    none_passes(server, s, "code.example", [("GET", "/evil/x/raw/main/a"), ("GET", "/evil/x"), ("GET", "/evil/x/raw/main/a-1.0.0.tgz")],
                "is denied by the policy of this session")


def test_repositories_that_are_not_allowed(server):
    for members, words in (({"allow": ["git:good/*"]}, "is not in the list of packages"), ({"mode": "pinned", "pins": {}}, "is not pinned")):
        s = session(server, "git", rules=opened("code.example"), unknown_age="allow", **members)
        none_passes(server, s, "code.example", written(ARCHIVES, "evil"), words)
        none_passes(server, s, "code.example", written(GIT, "evil"), "no known request")


def test_a_git_server_that_is_no_registry(server):
    s = session(server, "npm", rules=opened("code.example"), direct="deny")
    none_passes(server, s, "code.example", written(GIT, "evil"), "is no file of a registry")


def test_images(server):
    rows = [("GET", f"/v2/evil/x/blobs/sha256:{HEX}?ns=docker.io"), ("GET", "/v2/evil/x/manifests/latest?ns=docker.io"),
            ("GET", f"/v2/evil//x/blobs/sha256:{HEX}"), ("GET", "//v2/evil/x/manifests/latest"), ("GET", "/v2/evil%2fx/manifests/latest"),
            ("GET", "/V2/evil/x/manifests/latest"), ("GET", "/v2/evil/x/manifests/latest/")]
    for members in ({"deny": ["oci:evil/*"]}, {"mode": "offline"}):
        s = session(server, "oci", rules=opened("oci.example"), **members)
        none_passes(server, s, "oci.example", rows)
    s = session(server, "npm", rules=opened("oci.example"), deny=["oci:evil/*"])
    none_passes(server, s, "oci.example", rows)
    none_passes(server, s, "oci.example", [("GET", "/v2/evil/x/manifests/latest"), ("GET", f"/v2/evil/x/blobs/sha256:{HEX}")], "is denied")


def test_modules_of_go(server):
    s = session(server, "npm", rules=opened("proxy.go.example"), deny=["go:evil.com/x"])
    none_passes(server, s, "proxy.go.example", [("GET", "/evil.com/x/@v/v1.0.0.zip"), ("GET", "/below/evil.com/x/@v/v1.0.0.zip")], "is denied")
    none_passes(server, s, "proxy.go.example", [("GET", "/evil.com/x/@v/v1.0.0.zip?x"), ("GET", "/evil.com/x/@v//v1.0.0.zip"),
                                          ("GET", "/evil.com/x%2f@v/v1.0.0.zip")], "no known request")


def test_pages_still_pass(server):
    s = session(server, "git", "oci", rules=opened("code.example", "oci.example"), deny=["git:evil/*"])
    for host, path in (("code.example", "/good/x/blob/main/README"), ("code.example", "/explore"), ("oci.example", "/ui/v2")):
        reply = asks(server, s, (host, path))[0]
        check(reply.status != 403 and "X-Cordon-Denied".lower() not in reply.headers, f"{host}{path}: {reply}")


def by_address(server, name, url, *options, **packages):
    world()
    add_others()
    s = server.create(network={"version": 1, "default": "allow", "rules": [], "packages": packages})
    before = len(R.requests)
    status, phrase, _, _ = fetched(server, s, url, "--http1.1", *options)
    check(status in (403, 451), f"{name}: {status} {phrase}")
    equal([q.line for q in R.requests[before:]], [], f"{name}: requests that reached the server")
    return s, phrase


def test_a_registry_by_its_address(server):
    entries = {"registries": R.entries("npm", "pypi", "cargo", "git")}
    R.add("npm", "@evil/x", "1.0.0", age="400d")
    to = lambda host, port=443: f"--resolve {host}:{port}:{ADDRESS}"  # noqa: E731
    by_address(server, "denied", "https://npm.example/@evil%2fx", to("npm.example"), **entries, deny=["npm:@evil/x"])
    s, _ = by_address(server, "a file", "https://npm.example/@evil/x/-/x-1.0.0.tgz", to("npm.example"), **entries, deny=["npm:@evil/x"])
    equal(recorded(server, s, name="@evil/x")["result"], "refused", "the record")
    by_address(server, "offline", "https://npm.example/@evil%2fx", to("npm.example"), **entries, mode="offline")
    by_address(server, "pinned", "https://npm.example/@evil%2fx", to("npm.example"), **entries, mode="pinned", pins={})
    _, phrase = by_address(server, "allowed", "https://npm.example/@evil%2fx", to("npm.example"), **entries)
    check("a registry is asked by its name, not by an address" in phrase, phrase)
    _, phrase = by_address(server, "by Host", f"http://{ADDRESS}/@evil%2fx", "-H 'Host: npm.example'", **entries)
    check("by its name" in phrase, phrase)
    by_address(server, "a repository", f"http://{ADDRESS}/evil/x.git/info/refs?service=git-upload-pack", "-H 'Host: code.example'",
               **entries, deny=["git:evil/*"])
    by_address(server, "its page", f"http://{ADDRESS}/evil/x/raw/main/a", "-H 'Host: code.example'", **entries, deny=["git:evil/*"])


def test_one_registry_in_the_hello_and_another_in_the_host(server):
    """Servers of many names answer for the Host, whatever name the ClientHello had: what is a page at one is a package at the other."""
    entries = {"registries": R.entries("npm", "git")}
    R.add("npm", "@evil/x", "1.0.0", age="400d")
    to = f"--resolve code.example:443:{ADDRESS}"
    for words in ({"deny": ["npm:@evil/x"]}, {"mode": "offline"}, {}):
        _, phrase = by_address(server, str(words), "https://code.example/@evil%2fx", to, "-H 'Host: npm.example'", **entries, **words)
        check("by its name" in phrase, phrase)


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=2)
