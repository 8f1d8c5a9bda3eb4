#!/usr/bin/python3 -B
"""Goal: a file is judged on its own, and arrives whole only if it is the one that the registry's metadata or a pin names.

    test_files.py CORDON [name ...]

A whole server, fake registries in the small internet of tests/egress, and curl in cells."""
import hashlib

from gate_tools import R, add_others, data, everywhere, fetched, file_url, session, sha256, world
import internet
import package_files
import registry_answer
from checks import check, equal, has
from internet_client import make, policy


def test_a_file_is_judged_on_its_own(server):
    s = session(server, min_age="7d")
    for manager in ("npm", "pypi"):
        status, phrase, _, _ = fetched(server, s, file_url(manager, "demo", "2.0.0"))
        equal(status, 403, manager)
        has(phrase, "demo", manager)
        has(phrase, "7", manager)
        status, _, got, _ = fetched(server, s, file_url(manager, "demo", "1.0.0"))
        equal((status, got), (200, sha256(manager, "demo", "1.0.0")), manager)


def test_wrong_bytes_never_arrive_whole(server):
    s = session(server)
    for manager in ("npm", "pypi"):
        R.add(manager, "lied", "1.0.0", age="400d")
    for fault in ("last_byte", "first_byte", "short", "cut", "long"):
        for manager in ("npm", "pypi"):
            R.fault(R.path(manager, "lied", "1.0.0"), getattr(registry_answer, fault))
            status, phrase, got, code = fetched(server, s, file_url(manager, "lied", "1.0.0"))
            if fault == "cut":
                equal(status, 502, f"{manager} {fault}")
            else:  # it is small: it is refused before its first byte
                equal((status, code), (403, 0), f"{manager} {fault} ({phrase})")
                check("should have" in phrase or "another size" in phrase, f"{manager} {fault}: {phrase}")
            check(got != sha256(manager, "lied", "1.0.0"), f"{manager} {fault}: the file arrived")
            R.heal()
    status, _, got, code = fetched(server, s, file_url("npm", "lied", "1.0.0"))
    equal((status, got, code), (200, sha256("npm", "lied", "1.0.0"), 0), "without a fault")


def test_only_a_200_is_a_file(server):
    """Clients take every status below 400 for the file they asked for."""
    s = session(server, pins={"npm:odd": [f"1.0.0 sha256:{'1' * 64}"]})
    R.add("pypi", "odd", "1.0.0", age="400d")
    R.add("npm", "odd", "1.0.0", age="400d")
    evil = b"evil" * 5000
    for manager in ("npm", "pypi"):
        for code in (201, 202, 203, 207, 226, 299, 300, 304, 305, 404, 500, 599):
            R.fault(R.path(manager, "odd", "1.0.0"), registry_answer.status(code, evil))
            status, _, got, _ = fetched(server, s, file_url(manager, "odd", "1.0.0"))
            check(status >= 400 or status == 0, f"{manager}: {code} became {status}")
            check(got != hashlib.sha256(evil).hexdigest(), f"{manager}: the body of a {code} arrived")
            R.heal()


def test_redirects_stay_in_the_registry(server):
    s = session(server)
    R.add("pypi", "moved", "1.0.0", age="400d")
    path = R.path("pypi", "moved", "1.0.0")
    R.fault(path, registry_answer.redirect("https://evil.example/x.whl"))
    status, phrase, _, _ = fetched(server, s, "https://files.pypi.example" + path)
    equal(status, 403, "to another host")
    has(phrase, "redirects to https://evil.example/x.whl")
    R.heal()
    R.fault(path, registry_answer.redirect("https://files.pypi.example" + R.path("pypi", "other", "1.0.0")), times=1)
    got = fetched(server, s, "https://files.pypi.example" + path)
    equal(got[0], 403, "another file of the registry")
    R.heal()
    R.fault(path, registry_answer.redirect("https://files.pypi.example" + path + "?again"), times=1)
    status, _, got, _ = fetched(server, s, "https://files.pypi.example" + path)
    equal((status, got), (200, sha256("pypi", "moved", "1.0.0")), "to itself")
    R.heal()


def test_a_direct_url_follows_the_same_rules(server):
    world()
    s = make(server, policy({"host": "web.example"}, packages={"registries": R.entries("pypi"), "deny": ["pypi:evil"]}))
    status, phrase, _, _ = fetched(server, s, "https://web.example/dl/evil-1.0-py3-none-any.whl")
    equal(status, 403, "a denied name")
    has(phrase, "evil")
    status, _, _, _ = fetched(server, s, "https://web.example/dl/good-1.0-py3-none-any.whl")
    equal(status, 200, "a name that nobody denies")
    s = make(server, policy({"host": "web.example"}, packages={"registries": R.entries("pypi"), "mode": "pinned"}))
    status, _, _, _ = fetched(server, s, "https://web.example/dl/good-1.0-py3-none-any.whl")
    equal(status, 403, "pinned")
    status, _, _, _ = fetched(server, s, "https://web.example/")
    equal(status, 200, "a page")


def test_pinned_takes_what_is_pinned(server):
    add_others()
    pins = {"npm:demo": [f"1.0.0 sha512:{hashlib.sha512(data('npm', 'demo', '1.0.0')).hexdigest()}"],
            "pypi:demo": [f"1.0.0 sha256:{sha256('pypi', 'demo', '1.0.0')}", f"1.0.0 sha256:{'0' * 64}"],
            "npm:other": [f"1.0.0 sha256:{'1' * 64}"], "pypi:other": [f"1.0.0 sha256:{'1' * 64}"],
            "go:example.org/mod": [f"v1.0.0 {package_files.go_sums(R.find('go', 'example.org/mod', 'v1.0.0'))[0]}"]}
    s = everywhere(server, mode="pinned", pins=pins)
    R.fault("*.zip", registry_answer.body(b"not a zip"))
    equal(fetched(server, s, "https://proxy.go.example/example.org/mod/@v/v1.0.0.zip")[0], 502, "another zip")
    R.heal()
    zip_url = "https://proxy.go.example/example.org/mod/@v/v1.0.0.zip"
    for url in (file_url("npm", "demo", "1.0.0"), file_url("pypi", "demo", "1.0.0"), file_url("pypi", "demo", "1.0.0") + ".metadata",
                zip_url, zip_url):
        status, phrase, _, code = fetched(server, s, url)
        equal((status, code), (200, 0), f"{url} ({phrase})")
    for url in (file_url("npm", "demo", "2.0.0"), file_url("npm", "young", "1.0.0")):
        equal(fetched(server, s, url)[0], 403, url)
    for manager in ("npm", "pypi"):
        status, _, got, code = fetched(server, s, file_url(manager, "other", "1.0.0"))
        check((status, code) != (200, 0) and got != sha256(manager, "other", "1.0.0"), "a file that is not the pinned one")


def test_pinned_modules_are_asked_for_as_others_are(server):
    """With the program's credentials, along redirects of the registry, up to a size that the refusal names."""
    R.add("go", "example.org/guarded", "v1.0.0", age="400d", token="Basic cells-own")
    R.add("go", "example.org/moved", "v1.0.0", age="400d")
    pins = {f"go:example.org/{n}": [f"v1.0.0 {package_files.go_sums(R.find('go', f'example.org/{n}', 'v1.0.0'))[0]}"]
            for n in ("guarded", "moved")}
    s = everywhere(server, mode="pinned", pins=pins)
    url, path = "https://proxy.go.example/example.org/guarded/@v/v1.0.0.zip", "/example.org/moved/@v/v1.0.0.zip"
    equal(fetched(server, s, url)[0], 404, "without credentials")
    equal(fetched(server, s, url, "-H 'Authorization: Basic cells-own'")[0], 200, "with credentials")
    try:
        R.fault(path, registry_answer.redirect("https://evil.example/x.zip"), times=1)
        status, phrase, _, _ = fetched(server, s, "https://proxy.go.example" + path)
        equal(status, 403, "to another host")
        has(phrase, "none of its hosts (packages.registries)")
        R.fault(path, lambda q, a: setattr(a, "length", 1 << 30) or a, times=1)
        status, phrase, _, _ = fetched(server, s, "https://proxy.go.example" + path)
        equal((status, phrase), (502, "the module is larger than 128 MiB"), "a large one")
        R.fault(path, registry_answer.redirect("https://sum.go.example" + path), times=1)
        equal(fetched(server, s, "https://proxy.go.example" + path)[0], 200, "to a host of the registry")
    finally:
        R.heal()


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=2)
