#!/usr/bin/python3 -B
"""Goal: under a package policy an install gets what the policy allows and nothing else, and whoever runs it reads why.

    test_gate.py CORDON [name ...]

A whole server, cells with npm, pip and curl, and fake registries in the small internet of tests/egress."""
import hashlib
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [HERE, os.path.join(HERE, "..", "egress"), os.path.join(HERE, "..", "shared")]
import internet  # noqa: E402
import package_files  # noqa: E402
import registry_answer  # noqa: E402
from harness import check, equal, wait_for  # noqa: E402
from internet_client import make, policy, put, sh  # noqa: E402
from registry import Registry  # noqa: E402
from checks import has, settled  # noqa: E402

R = Registry()
for eco in ("npm", "pypi"):
    R.add(eco, "demo", "1.0.0", age="400d")
    R.add(eco, "demo", "2.0.0", age="3h")
    R.add(eco, "other", "1.0.0", age="400d")
    R.add(eco, "young", "1.0.0", age="1h")
NPM = "npm install --no-audit --no-fund --registry https://npm.example/ --prefix /tmp/n "
PIP = "/usr/bin/python3 -m pip install --no-cache-dir --disable-pip-version-check --target /tmp/p -i https://pypi.example/simple "


def world():
    """The registries are in the world since the first call."""
    if "npm.example" not in internet.NET.zone:
        R.join(internet.NET)
    return R


def session(server, **packages):
    world()
    return make(server, policy(packages={"registries": R.entries("npm", "pypi"), **packages}))


def installed(server, s, manager, name):
    line = f"cat /tmp/n/node_modules/{name}/package.json" if manager == "npm" else f"ls -d /tmp/p/{name}-*"
    return sh(server, s, line, 0)["stdout"]


def file_url(manager, name, version):
    host = "https://npm.example" if manager == "npm" else "https://files.pypi.example"
    return host + R.path(manager, name, version)


def fetched(server, s, url, *options):
    """(status, reason phrase, SHA-256 of the body, exit code of curl)"""
    done = sh(server, s, f"rm -f /tmp/body; curl -sS -m 20 -D /tmp/head -o /tmp/body {' '.join(options)} '{url}'; echo $?; "
              "head -1 /tmp/head; sha256sum /tmp/body")
    lines = (done["stdout"] + "\n\n\n").splitlines()
    words = lines[1].split(" ", 2) if lines[1].startswith("HTTP/") else ["", "0", ""]
    return int(words[1]), words[2].strip() if len(words) > 2 else "", lines[2][:64], int(lines[0] or -1)


def data(manager, name, version):
    package = R.find(manager, name, version)
    if manager == "npm":
        return R.parts["npm"].data(package)
    return next(iter(R.parts["pypi"].files(package).values()))


def sha256(manager, name, version):
    return hashlib.sha256(data(manager, name, version)).hexdigest()


# ---- installs

def test_npm_takes_the_version_that_is_old_enough(server):
    s = session(server, min_age="7d")
    sh(server, s, NPM + "demo", 0)
    equal(json.loads(installed(server, s, "npm", "demo"))["version"], "1.0.0", "the version")


def test_pip_takes_the_version_that_is_old_enough(server):
    s = session(server, min_age="7d")
    sh(server, s, PIP + "demo", 0)
    has(installed(server, s, "pip", "demo"), "demo-1.0.0")


def test_install_code_hides_no_version(server):
    """Nobody gets an old version without a word because the others run code: npm prints why."""
    R.add("npm", "builder", "0.0.1", age="900d")
    R.add("npm", "builder", "1.0.0", age="400d", script=True)
    s = session(server, scripts="deny")
    done = sh(server, s, NPM + "builder")
    check(done["exit_code"] != 0, "an old one was installed")
    has(done["stdout"] + done["stderr"], "builder 1.0.0 runs code when it is installed")
    s = session(server, scripts="deny", scripts_except=["npm:builder"])
    sh(server, s, NPM + "--ignore-scripts builder", 0)
    equal(json.loads(installed(server, s, "npm", "builder"))["version"], "1.0.0", "the version")


def test_clients_print_why_a_name_is_refused(server):
    s = session(server, deny=["npm:other", "pypi:other"], min_age="7d")
    for line, word in ((NPM + "other", "packages.deny"), (PIP + "other", "packages.deny"), (NPM + "young", "old"), (PIP + "young", "old")):
        done = sh(server, s, line)
        check(done["exit_code"] != 0, f"{line} worked")
        has(done["stdout"] + done["stderr"], word, line)


def test_the_refusal_of_a_name_is_about_the_version_that_counts(server):
    """Not about the one that was released last: nobody asked for that."""
    R.add("npm", "back", "3.0.0", age="5d")
    R.add("npm", "back", "3.0.1", age="20d")
    pins = {"npm:back": ["3.0.0"]}
    for path, words, members in (("/back", "no version is allowed: back 3.0.1 is 20 days old, this session wants 30 days", {}),
                                 ("/back/3.0.0", "back 3.0.0 is 5 days old", {}), ("/back/latest", "back 3.0.1 is 20 days old", {}),
                                 ("/back", "no version is allowed: back 3.0.0 is 5 days old", {"mode": "pinned", "pins": pins})):
        status, phrase, _, _ = fetched(server, session(server, min_age="30d", **members), "https://npm.example" + path, "--http1.1")
        equal(status, 403, path)
        check(phrase.startswith(words), (path, phrase))


def test_what_was_hidden_is_on_record(server):
    """npm says of a hidden version only that there is none: the record has the reason."""
    s = session(server, deny=["npm:demo@2.0.0"])
    done = sh(server, s, NPM + "demo@2.0.0")
    check(done["exit_code"] != 0, "a denied version was installed")
    sh(server, s, NPM + "demo", 0)
    sh(server, s, "curl -sS -m 20 https://npm.example/demo/1.0.0", 0)
    found = {}

    def recorded():
        found.update({r["version"]: r for r in server.want(200, "GET", f"/v1/sessions/{s['id']}/packages")["packages"]})
        return "1.0.0" in found and "2.0.0" in found
    wait_for(recorded, 10, "both versions on record")
    equal(found["1.0.0"]["result"], "downloaded", "the other version")
    row = found["2.0.0"]
    equal((row["result"], row["verdict"], row["rule"], row["refusals"]), ("hidden", "allow", "session packages.deny[0]", 0), "the row")
    check(row["reason"].startswith("1 version hidden, newest 2.0.0: demo 2.0.0 is denied"), row["reason"])
    records = [r for r in server.want(200, "GET", f"/v1/sessions/{s['id']}/network/log?kind=package")["records"]
               if (r["package"]["kind"], r["package"]["name"]) == ("meta", "demo")]
    check(records, "no record of the metadata")
    for r in records:
        equal((r["package"]["result"], r["package"]["shaped"], r["reason"]), ("hidden", {"hidden": 1, "newest_hidden": "2.0.0"}, row["reason"]), "the record")


def test_offline_says_so(server):
    s = session(server, mode="offline")
    before = len(R.requests)
    for line in (NPM + "demo", PIP + "demo", PIP + "demo==1.0.0"):
        done = sh(server, s, line)
        check(done["exit_code"] != 0, f"{line} worked")
        said = (done["stdout"] + done["stderr"]).replace(".", " ")
        has(said, "packages are off in this session", line)
    equal(len(R.requests), before, "requests at the registries")


# ---- files

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
            status, _, got, code = fetched(server, s, file_url(manager, "lied", "1.0.0"))
            check(code != 0 or status == 502, f"{manager} {fault}: curl saw a whole answer")
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
    check(got[3] != 0 or got[0] == 502, f"{got}: another file of the registry was taken for this one")
    R.heal()
    R.fault(path, registry_answer.redirect("https://files.pypi.example" + path + "?again"), times=1)
    status, _, got, _ = fetched(server, s, "https://files.pypi.example" + path)
    equal((status, got), (200, sha256("pypi", "moved", "1.0.0")), "to itself")
    R.heal()


def test_what_is_not_understood_is_refused(server):
    s = session(server)
    before = len(R.requests)
    for url, options in (("https://npm.example/-/weird", ()), ("https://npm.example/demo", ("-X", "PUT", "-d", "{}")),
                         ("https://npm.example/-/v1/search?text=x", ()), ("https://pypi.example/simple/", ()),
                         ("https://npm.example/demo", ("-X", "GET", "-d", "x=1")),
                         ("https://npm.example/-/npm/v1/security/advisories/bulk", ("-d", "{}")),
                         ("https://npm.example/demo", ("-X", "DELETE",)), ("https://pypi.example/", ())):
        status, phrase, _, _ = fetched(server, s, url, *options)
        equal(status, 403, f"{options} {url}")
        check(phrase not in ("", "Forbidden"), f"{url}: no reason")
    equal(len(R.requests), before, "requests that reached the registry")


def test_an_own_name_does_not_exist_elsewhere(server):
    s = session(server, own=["npm:@ours/*"])
    before = len(R.requests)
    status, _, _, _ = fetched(server, s, "https://npm.example/@ours%2ftool")
    equal(status, 404, "status")
    equal(len(R.requests), before, "requests that reached the registry")


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


# ---- the other ecosystems

def everywhere(server, **packages):
    world()
    add_others()
    names = ("npm", "pypi", "cargo", "go", "gem", "maven", "git", "oci", "apt")
    return make(server, policy(packages={"registries": R.entries(*names), "unknown_age": "allow", **packages}))


def add_others():
    for eco, name in OTHERS.items():
        if not [p for p in R.packages if (p.ecosystem, p.name) == (eco, name)]:
            R.add(eco, name, "v1.0.0" if eco == "go" else "1.0.0", age="400d")


OTHERS = {"cargo": "crab", "go": "example.org/mod", "gem": "stone", "maven": "org.example:thing", "git": "team/repo",
          "oci": "team/image", "apt": "hello"}


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


# ---- limits

def test_budgets(server):
    size = len(data("npm", "demo", "1.0.0"))
    s = session(server, file_bytes=str(size - 1))
    status, phrase, _, _ = fetched(server, s, file_url("npm", "demo", "1.0.0"))
    equal(status, 403, "a file that is too large")
    has(phrase, f"{size} bytes")
    s = session(server, bytes=str(size + size // 2))
    equal(fetched(server, s, file_url("npm", "demo", "1.0.0"))[0], 200, "the first")
    status, phrase, _, _ = fetched(server, s, file_url("npm", "demo", "1.0.0"))
    equal(status, 403, "the second")
    has(phrase, "budget")
    has(phrase, "(packages.bytes)")
    wait_for(lambda: [r for r in server.want(200, "GET", f"/v1/sessions/{s['id']}/network/log")["records"]
                      if r["kind"] == "package" and r.get("rule") == "packages.bytes"], 10, "the rule on record")


def test_names_that_do_not_exist_run_out(server):
    s = session(server, new_names=3)
    for i in range(3):
        equal(fetched(server, s, f"https://npm.example/nothing-{i}")[0], 404, "a name")
    before = len(R.requests)
    status, phrase, _, _ = fetched(server, s, "https://npm.example/nothing-9")
    equal(status, 403, "one too many")
    has(phrase, "(packages.new_names)")
    equal(len(R.requests), before, "requests that reached the registry")


def test_names_count_whoever_waits_for_them(server):
    """Programs that are gone before the answer comes."""
    s = session(server, new_names=3)
    R.fault("/left-alone*", registry_answer.delay(0.5))
    for i in range(12):
        sh(server, s, f"curl -sS -m 0.2 -o /dev/null https://npm.example/left-alone-{i}")
    settled(lambda: R.count("/left-alone*"), quiet=1.0)
    check(R.count("/left-alone*") <= 3, f"the registry saw {R.count('/left-alone*')} names")
    R.heal()


def test_refused_names_are_not_told(server):
    s = session(server, deny=["pypi:told", "npm:told"], allow=["pypi:d*", "npm:d*"])
    for line in (PIP + "told", NPM + "told", PIP + "unlisted", NPM + "unlisted"):
        done = sh(server, s, line)
        check(done["exit_code"] != 0, f"{line} worked")
        has(done["stdout"] + done["stderr"], "packages.", line)
    equal(R.count("*told*") + R.count("*unlisted*"), 0, "requests at the registries")


def test_hostile_metadata(server):
    s = session(server)
    for fault, status in ((registry_answer.body(b"{" * 100000), 502), (registry_answer.body(b'{"name":"evil"}'), 502),
                          (registry_answer.redirect("https://evil.example/demo"), 502), (registry_answer.cut, 502)):
        R.fault("/other", fault)
        equal(fetched(server, s, "https://npm.example/other")[0], status, str(fault))
        R.heal()
    equal(fetched(server, s, "https://npm.example/other")[0], 200, "without a fault")


# ---- the cache

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


def test_requests_for_one_file_share_a_download(server):
    R.add("npm", "wanted", "1.0.0", age="400d", pad=300000)
    path, s = R.path("npm", "wanted", "1.0.0"), session(server)
    R.fault(path, registry_answer.slow(50000, 0.1))
    sh(server, s, f"for i in 1 2 3 4 5 6; do curl -sS -m 20 -o /tmp/w$i https://npm.example{path} & done; wait", 0)
    equal(R.count(path), 1, "downloads")
    equal(set(sh(server, s, "sha256sum /tmp/w[1-6] | cut -c1-64")["stdout"].split()), {sha256("npm", "wanted", "1.0.0")}, "the files")
    R.heal()


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


def test_cordon_run_has_the_gate_without_a_cache(server):
    world()
    path = os.path.join(internet.FOLDER, "packages.json")
    with open(path, "w", encoding="ascii") as f:
        json.dump(policy(packages={"registries": R.entries("npm"), "min_age": "7d"}), f)
    words = [sys.argv[1], "run", "--policy", path, "--egress-ca", os.path.join(internet.FOLDER, "world.pem"), "--", "/bin/sh", "-c"]

    def run(line):
        return subprocess.run([*words, line], capture_output=True, text=True, timeout=60, check=False)

    done = run(f"{NPM} demo >/dev/null && cat /tmp/n/node_modules/demo/package.json")
    equal(json.loads(done.stdout or "{}").get("version"), "1.0.0", f"the version ({done.stderr[-600:]})")
    done = run(f"{NPM} young")
    check(done.returncode != 0, "a young package was installed")
    has(done.stdout + done.stderr, "old")
    check(server.pid("cordond") is not None, "the server is gone")


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


# ---- what changes meanwhile

def test_a_registry_learns_little(server):
    s = session(server)
    R.add("npm", "quiet", "1.0.0", age="400d")
    fetched(server, s, file_url("npm", "quiet", "1.0.0"), "-H 'X-Leak: secret' -H 'npm-session: 1' -A leak/1")
    equal(R.count("/quiet*"), 2, "requests: the metadata and the file")
    for q in R.seen("/quiet*"):
        equal((q.get("User-Agent"), q.get("X-Leak"), q.get("npm-session")), ("cordon", None, None), q.line)


def start(server, s, url):
    """In the background: /tmp/code has curl's exit code and the status at the end."""
    sh(server, s, f"rm -f /tmp/code; (curl -sS -m 20 -o /tmp/late -w '%{{http_code}}' '{url}' > /tmp/status; "
       "echo $? $(cat /tmp/status) > /tmp/code) >/dev/null 2>&1 &")


def ended(server, s):
    return wait_for(lambda: sh(server, s, "cat /tmp/code")["stdout"].split(), 15, "the end of the request")


def test_a_new_policy_cuts_what_it_does_not_allow(server):
    s = session(server)
    R.add("npm", "held", "1.0.0", age="400d", pad=100000)
    path = R.path("npm", "held", "1.0.0")
    R.fault("/held", registry_answer.delay(3))
    R.fault(path, registry_answer.slow(20000, 1))
    for url, at in (("https://npm.example/held", "/held"), ("https://npm.example" + path, path)):
        start(server, s, url)
        wait_for(lambda at=at: R.count(at), 10, f"the request for {at}")
        put(server, s, policy(packages={"registries": R.entries("npm", "pypi"), "deny": ["npm:held"]}))
        code, _ = ended(server, s)
        check(code != "0", f"{url} came to its end")
        put(server, s, policy(packages={"registries": R.entries("npm", "pypi")}))
    R.heal()
    equal(fetched(server, s, "https://npm.example" + path)[0], 200, "afterwards")


def test_a_session_ends_while_its_packages_come(server):
    R.fault("/late*", registry_answer.delay(1))
    for i in range(3):
        R.add("npm", f"late{i}", "1.0.0", age="400d")
        s, other = session(server), session(server)
        for one in (s, other):
            start(server, one, f"https://npm.example/late{i}")
        wait_for(lambda at=f"/late{i}": R.count(at), 5, "the request at the registry")
        server.want(204, "DELETE", f"/v1/sessions/{s['id']}")
        equal(ended(server, other), ["0", "200"], "the other session's document")
    R.heal()


def test_a_session_ends_while_its_packages_wait(server):
    """More than may be fetched at a time; those that are fetched were used last."""
    s, other = session(server), session(server)
    pid = server.pid("cordon-egress")
    R.fault("/wait*", registry_answer.delay(3))
    names = " ".join(f"https://npm.example/wait{i}" for i in range(40))
    again = " ".join(f"https://npm.example/wait{i}" for i in range(8))
    sh(server, s, f"(for u in {names} {again}; do curl -sS -m 30 -o /dev/null $u & done; wait) >/dev/null 2>&1 &")
    wait_for(lambda: R.count("/wait*") >= 8, 10, "the first requests at the registry")
    server.want(204, "DELETE", f"/v1/sessions/{s['id']}")
    equal(fetched(server, other, "https://npm.example/demo")[0], 200, "another session")
    equal(server.pid("cordon-egress"), pid, "the process")
    R.heal()


def test_a_tenant_does_not_hold_up_others(server):
    """Its queue is full; another tenant asks for what waits in it."""
    _, key = server.tenant("gate-busy")
    R.add("npm", "victim", "1.0.0", age="400d")
    R.fault("/busy*", registry_answer.delay(30))  # longer than curl waits below
    world()
    busy = server.create(key=key, network=policy(packages={"registries": R.entries("npm")}))
    names = " ".join(f"https://npm.example/{n}" for n in [*(f"busy{i}" for i in range(8)), "victim"])
    server.run(busy["id"], f"(for u in {names}; do curl -sS -m 30 -o /dev/null $u & sleep 0.1; done) >/dev/null 2>&1 &", key=key)
    wait_for(lambda: R.count("/busy*") >= 8, 10, "the full queue")
    equal(fetched(server, session(server), "https://npm.example/victim")[0], 200, "another tenant")
    R.heal()


def test_a_program_that_does_not_read_holds_up_nobody(server):
    """It leads the download of a file; followers do not wait for it."""
    R.add("npm", "stuck", "1.0.0", age="400d", pad=8000000)
    path, s, other = R.path("npm", "stuck", "1.0.0"), session(server), session(server)
    sh(server, s, f"(curl -sS --limit-rate 1 -m 60 -o /dev/null https://npm.example{path}) >/dev/null 2>&1 &")
    wait_for(lambda: R.count(path), 10, "the request at the registry")
    for _ in range(2):
        equal(fetched(server, other, "https://npm.example" + path, "-m 7")[::3], (200, 0), "another session, soon")


def test_a_registry_is_asked_over_tls(server):
    s = session(server)
    before = len(R.requests)
    for url in ("http://npm.example:443/demo", "http://npm.example/demo"):
        status, _, _, _ = fetched(server, s, url)
        check(status in (0, 403), f"{url}: {status}")
    said = sh(server, s, "cd /tmp && npm view --no-update-notifier --registry http://npm.example/ demo 2>&1; true")
    has(said["stdout"], "npm.example:80 is opened for TLS only (packages.registries)", "what npm shows")
    equal(len(R.requests), before, "requests at the registry")


def test_a_registry_at_a_private_address(server):
    s = make(server, policy(packages={"registries": [{"ecosystem": "npm", "host": "internal.corp.example"}], "min_age": "1d"}))
    status, _, _, _ = fetched(server, s, "https://internal.corp.example/demo")
    equal(status, 403, "its document")
    rows = lambda: server.want(200, "GET", f"/v1/sessions/{s['id']}/packages")["packages"]  # noqa: E731
    wait_for(rows, 10, "it on record")
    has(rows()[0]["reason"], 'resolves to 10.0.0.5, a private address; the operator can allow it: "private" in egress_policy', "why")
    equal(rows()[0]["result"], "refused", "the result")


def test_what_nobody_waits_for_is_not_fetched(server):
    s = session(server)
    for i in range(40):
        R.add("npm", f"left{i}", "1.0.0", age="400d")
    R.fault("/left*", registry_answer.delay(2))
    names = " ".join(f"https://npm.example/left{i}" for i in range(40))
    sh(server, s, f"for u in {names}; do curl -sS -m 1 -o /dev/null $u & done; wait")
    R.fault("/left*", registry_answer.delay(0))
    equal(fetched(server, s, "https://npm.example/left39")[0], 200, "one that is asked for again")
    fetches = settled(lambda: R.count("/left*"), quiet=1.0)
    check(fetches <= 16, f"{fetches} documents were fetched, most of them for nobody")
    R.heal()


def test_requests_for_one_document_share_a_fetch(server):
    s = session(server)
    R.add("npm", "shared", "1.0.0", age="400d")
    R.fault("/shared", registry_answer.delay(1))
    sh(server, s, "for i in 1 2 3 4 5 6; do curl -sS -m 20 -o /tmp/s$i https://npm.example/shared & done; wait", 0)
    equal(R.count("/shared"), 1, "requests at the registry")
    equal(sh(server, s, "cat /tmp/s[1-6] | grep -o '\"1.0.0\":{' | wc -l")["stdout"].strip(), "6", "whole documents")
    R.heal()


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=2)
