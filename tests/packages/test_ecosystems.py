#!/usr/bin/python3 -B
"""Goal: the gate knows each ecosystem's requests, documents and ways to be refused.

    test_ecosystems.py CORDON [name ...]

A whole server, fake registries in the small internet of tests/egress, and curl in cells."""
import json

from gate_tools import R, everywhere, fetched, session
import internet
from checks import equal, has, wait_for
from internet_client import sh


def test_every_ecosystem_passes_where_it_is_allowed(server):
    s = everywhere(server, min_age="7d")
    urls = ["https://index.cargo.example/config.json", "https://index.cargo.example/cr/ab/crab",
            "https://static.cargo.example" + R.path("cargo", "crab", "1.0.0"),
            "https://proxy.go.example/example.org/mod/@v/list", "https://proxy.go.example/example.org/mod/@v/v1.0.0.info",
            "https://proxy.go.example/example.org/mod/@v/v1.0.0.mod", "https://proxy.go.example/example.org/mod/@v/v1.0.0.zip",
            "https://gem.example/info/stone", "https://gem.example" + R.path("gem", "stone", "1.0.0"),
            "https://maven.example" + R.path("maven", "org.example:thing", "1.0.0"),
            "https://code.example/team/repo/info/refs?service=git-upload-pack",
            "http://deb.example" + R.path("apt", "hello", "1.0.0")]
    for url in urls:
        status, phrase, _, code = fetched(server, s, url)
        equal((status, code), (200, 0), f"{url} ({phrase})")


def test_go_lists_what_is_old_enough(server):
    R.add("go", "example.org/aged", "v1.2.0", age="400d")
    R.add("go", "example.org/aged", "v1.10.0", age="300d")
    R.add("go", "example.org/aged", "v1.11.0", age="2h")
    s = everywhere(server, min_age="7d")
    sh(server, s, "curl -sS -m 20 -o /tmp/list https://proxy.go.example/example.org/aged/@v/list", 0)
    equal(sh(server, s, "sort /tmp/list")["stdout"].split(), ["v1.10.0", "v1.2.0"], "the list")
    said = sh(server, s, "curl -sS -m 20 https://proxy.go.example/example.org/aged/@latest", 0)["stdout"]
    equal(json.loads(said)["Version"], "v1.10.0", "the latest")
    equal(fetched(server, s, "https://proxy.go.example/example.org/aged/@v/v1.11.0.zip")[0], 403, "the young one")


def test_gems_are_refused_with_a_status_that_bundler_shows(server):
    R.add("gem", "pebble", "1.0.0", age="1h")
    s = session(server, registries=R.entries("gem"), min_age="7d")
    status, phrase, _, _ = fetched(server, s, "https://gem.example" + R.path("gem", "pebble", "1.0.0"))
    equal(status, 451, "a gem that is too young")
    has(phrase, "packages.min_age")


def test_blobs_are_called_by_their_digest(server):
    image = R.parts["oci"].image(R.add("oci", "team/blobs", "1.0.0", age="400d"))
    s = everywhere(server)
    digest = image.manifest["layers"][0]["digest"]
    equal(fetched(server, s, f"https://oci.example/v2/team/blobs/blobs/{digest}")[0], 200, "a blob")
    rows = wait_for(lambda: [p for p in server.want(200, "GET", f"/v1/sessions/{s['id']}/packages")["packages"]
                             if p["version"] == digest], 10, "the row")
    equal((rows[0]["expected"], rows[0]["verified"]), ("name", True), "where its digest came from")


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=2)
