#!/usr/bin/python3 -B
"""Goal: a second session gets documents and files from the node's cache, and only what was right and is for its tenant.

    test_from_cache.py CORDON [name ...]

A whole server, fake registries in the small internet of tests/egress, and npm, pip and curl in cells."""
import hashlib

from gate_tools import NPM, PIP, R, add_others, data, everywhere, fetched, file_url, session, sha256, world
import internet
import registry_answer
from checks import check, equal, has, wait_for
from internet_client import policy, sh


def test_a_second_session_is_served_from_the_cache(server):
    R.add("npm", "kept", "1.0.0", age="400d", pad=200000)
    R.add("pypi", "kept", "1.0.0", age="400d", pad=200000)
    for manager, line in (("npm", NPM + "kept"), ("pypi", PIP + "kept")):
        path = R.path(manager, "kept", "1.0.0")
        sh(server, session(server), line, 0)
        equal(R.count(path), 1, f"{manager}: downloads")
        s = session(server)
        wait_for(lambda s=s, manager=manager: fetched(server, s, file_url(manager, "kept", "1.0.0"), "-I")[0] == 200, 5, "a head")
        R.forget()
        sh(server, s, line, 0)
        equal(R.count(path, method="GET"), 0, f"{manager}: downloads of the second session")


def test_nothing_wrong_is_kept(server):
    R.add("npm", "wrong", "1.0.0", age="400d", pad=50000)
    path = R.path("npm", "wrong", "1.0.0")
    s = session(server)
    for fault in (registry_answer.last_byte, registry_answer.cut, registry_answer.partial):
        R.fault(path, fault)
        status, _, _, code = fetched(server, s, "https://npm.example" + path)
        check((status, code) != (200, 0), f"{fault} came to its end")
        R.heal()
    R.forget()
    status, _, got, _ = fetched(server, s, "https://npm.example" + path)
    equal((status, got, R.count(path)), (200, sha256("npm", "wrong", "1.0.0"), 1), "the file, from the registry")


def test_offline_cache_installs_what_the_cache_has(server):
    R.add("npm", "had", "1.0.0", age="400d")
    sh(server, session(server), NPM + "had", 0)
    s = session(server, mode="offline-cache")
    R.forget()
    sh(server, s, NPM + "had", 0)
    done = sh(server, s, NPM + "young")
    check(done["exit_code"] != 0, "a package that is not in the cache was installed")
    has(done["stdout"] + done["stderr"], "cache")
    equal(R.count("/had*") + R.count("/young*"), 0, "requests at the registry")


def test_offline_cache_has_every_document_that_an_install_needs(server):
    add_others()
    R.add("cargo", "shell", "1.0.0", age="400d")
    urls = ["https://index.cargo.example/config.json", "https://index.cargo.example/sh/el/shell",
            "https://static.cargo.example" + R.path("cargo", "shell", "1.0.0"), file_url("pypi", "demo", "1.0.0") + ".metadata",
            "https://proxy.go.example/example.org/mod/@v/list", "https://proxy.go.example/example.org/mod/@v/v1.0.0.mod",
            "https://proxy.go.example/example.org/mod/@v/v1.0.0.info", "https://gem.example/info/stone"]
    s = everywhere(server)
    got = [fetched(server, s, url)[:3:2] for url in urls]
    equal({status for status, _ in got}, {200}, "statuses")
    s = everywhere(server, mode="offline-cache")
    R.forget()
    for url, want in zip(urls, got):
        wait_for(lambda url=url: fetched(server, s, url)[0] == 200, 5, f"{url} from the cache")
        equal(fetched(server, s, url)[:3:2], want, url)
    equal(R.requests, [], "requests at the registries")


def test_ranges_are_parts_of_a_whole_file(server):
    R.add("pypi", "parts", "1.0.0", age="400d", pad=100000)
    url, s = file_url("pypi", "parts", "1.0.0"), session(server)
    equal(fetched(server, s, url, "-r", "0-99")[0], 200, "a range of what is not in the cache")
    status, _, got, _ = wait_for(lambda: (f := fetched(server, s, url, "-r", "10-99"))[0] == 206 and f, 5, "a range of the cache's file")
    equal(got, hashlib.sha256(data("pypi", "parts", "1.0.0")[10:100]).hexdigest(), "its bytes")


def test_tenants_do_not_share_what_needs_credentials(server):
    """Each tenant has a secret for the registry, which has a package for the first one only."""
    R.add("npm", "hush", "1.0.0", age="400d", token="Bearer first-tenant-token")
    world()
    made = []
    for name, token in (("first", "first-tenant-token"), ("second", "second-tenant-token")):
        tenant, key = server.tenant(f"gate-{name}")
        admin = server.want(201, "POST", f"/v1/tenants/{tenant}/keys", {"name": "all", "scopes": ["sessions", "admin"]})["key"]
        server.want(201, "POST", "/v1/secrets", {"name": "npm", "value": token, "hosts": ["npm.example"]}, key=admin)
        network = policy({"host": "npm.example", "secret": "npm", "set_headers": {"Authorization": "Bearer ${secret.npm}"}},
                         packages={"registries": R.entries("npm")})
        secret = {"name": "npm", "as": "broker", "env": "NPM_TOKEN"}
        made.append((server.create(key=key, network=network, secrets=[secret]), key))
    (first, first_key), (second, second_key) = made
    url, path = "https://npm.example/hush", R.path("npm", "hush", "1.0.0")
    get = f"curl -sS -m 20 -o /tmp/o -w '%{{http_code}} ' {url} https://npm.example{path} -o /tmp/f"
    for _ in range(2):
        equal(server.run(first["id"], get, key=first_key)["stdout"].split(), ["200", "200"], "the tenant that may")
        equal(server.run(second["id"], get, key=second_key)["stdout"].split(), ["404", "404"], "the one that may not")
    own = server.run(second["id"], f"{get} -H 'Authorization: Bearer first-tenant-token'", key=second_key)["stdout"].split()
    equal(own, ["404", "404"], "with the other's token, which the policy replaces")


def test_a_secret_for_one_host_of_a_registry_counts_for_all(server):
    """Metadata is fetched from the registry's host for a file of its other host."""
    R.add("pypi", "veiled", "1.0.0", age="400d", token="Bearer token-of-the-owner")
    world()
    tenant, key = server.tenant("gate-veiled")
    admin = server.want(201, "POST", f"/v1/tenants/{tenant}/keys", {"name": "all", "scopes": ["sessions", "admin"]})["key"]
    server.want(201, "POST", "/v1/secrets", {"name": "pypi", "value": "token-of-the-owner", "hosts": ["pypi.example"]}, key=admin)
    network = policy({"host": "pypi.example", "secret": "pypi", "set_headers": {"Authorization": "Bearer ${secret.pypi}"}},
                     packages={"registries": R.entries("pypi")})
    owner = server.create(key=key, network=network, secrets=[{"name": "pypi", "as": "broker", "env": "TOKEN"}])
    server.run(owner["id"], "curl -sS -m 20 -o /tmp/o " + file_url("pypi", "veiled", "1.0.0"), key=key)
    equal([q.get("Authorization") for q in R.seen("/simple/veiled/")], ["Bearer token-of-the-owner"], "the metadata that was fetched")
    s = session(server)
    equal(fetched(server, s, "https://pypi.example/simple/veiled/")[0], 404, "the page, for another tenant")
    equal(fetched(server, s, file_url("pypi", "veiled", "1.0.0"))[0], 404, "the file, for another tenant")


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=2)
