#!/usr/bin/python3 -B
"""Goal: what cordon-egress reads in metadata of packages is what is there, and what it shows is the document less what
policy hides. Documents are made at random and shaped by shape_tool; the same is done here with Python's json, and both
must agree, however the document is cut into pieces. Hostile documents have the answers that are written down.

    test_shaping.py SHAPE_TOOL [name ...]
"""
import base64
import html.parser
import gzip
import json
import os
import random
import subprocess
import sys

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
from checks import check, equal, has, named_tests, run_tap  # noqa: E402

TOOL = ""
NPM, SIMPLE, LEGACY, CARGO, GO_LIST, GO_INFO, APT_RELEASE, APT_PACKAGES, GEM = range(9)
SAME, SHORT, ONE, HTML = range(4)
SHA256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
SRI = "sha512-3a81oZNherrMQXNJriBBMRLm+k6JqX6iCp7u5ktV05ohkpkqJ0/BqDa6PCOj/uu9RU1EI2Q86A4qmslPpUyknw=="
KEPT = {"name", "version", "deprecated", "dependencies", "devDependencies", "optionalDependencies", "peerDependencies",
        "bin", "dist", "engines", "os", "cpu", "funding", "_hasShrinkwrap"}


class Shaped:
    def __init__(self, out):
        head, _, self.body = out.partition(b"\n\n")
        lines = [json.loads(line) for line in head.splitlines()]
        self.facts, self.result = lines[:-1], lines[-1]
        self.shown = self.result["shown"]

    def json(self):
        return json.loads(self.body, object_pairs_hook=unique)


def unique(pairs):
    equal(len(dict(pairs)), len(pairs), "members once each")
    return dict(pairs)


def run(doc, how, body, hidden=(), name="demo", which="", piece=0):
    body = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return subprocess.run([TOOL, str(doc), str(how), str(piece), name, which, *hidden], input=body, capture_output=True,
                          timeout=60)


def shaped(doc, how, body, hidden=(), name="demo", which=""):
    """In one piece; pieces of other sizes must come out the same."""
    whole = run(doc, how, body, hidden, name, which)
    equal((whole.returncode, whole.stderr), (0, b""), whole.stdout[:300])
    for piece in (1, 7, random.randrange(2, 200)):
        equal(run(doc, how, body, hidden, name, which, piece).stdout, whole.stdout, f"in pieces of {piece}")
    return Shaped(whole.stdout)


def facts(doc, body, name="demo"):
    done = run(doc, -1, body, name=name)
    equal(done.returncode, 0, done.stdout)
    return [json.loads(line) for line in done.stdout.splitlines()]


def refused(doc, body, why, name="demo"):
    for piece in (0, 1):
        done = run(doc, -1, body, name=name, piece=piece)
        equal(done.returncode, 1, (body[:80], done.stdout[:200]))
        has(done.stdout.decode(), why)


# ---- npm

def packument(rng, n):
    versions, time = {}, {"created": "2010-01-01T00:00:00.000Z", "modified": "2026-01-02T03:04:05.678Z"}
    for i in range(n):
        v = f"{rng.randrange(3)}.{rng.randrange(9)}.{i}" + rng.choice(["", "", "", "-beta.1", "+b"])
        entry = {"name": "demo", "version": v, "description": rng.choice(["plain", 'q"uo\\te', "\u00fc\u2603\U0001f600", "x" * 300]),
                 "dist": {"shasum": "a" * 40, "tarball": f"https://npm.example/demo/-/demo-{v.replace('+', '%2B')}.tgz"},
                 "dependencies": {"left-pad": "^1.0.0"}, "nested": [{"versions": {"9.9.9": {"deep": [1, 2.5e3, None, True]}}}]}
        if rng.random() < .8:
            entry["dist"]["integrity"] = SRI
        if rng.random() < .3:
            entry["scripts"] = {rng.choice(["postinstall", "preinstall", "install", "test"]): "node x.js"}
        if rng.random() < .1:
            entry["gypfile"] = True
        versions[v] = entry
        time[v] = f"20{rng.randrange(10, 26)}-0{rng.randrange(1, 10)}-1{rng.randrange(10)}T00:00:0{rng.randrange(10)}.{i:03}Z"
    time["0.0.0-gone"] = "2011-01-01T00:00:00.000Z"
    names = list(versions)
    tags = {tag: rng.choice(names) for tag in ("latest", "next", "beta")} if names else {}
    doc = [("_id", "demo"), ("name", "demo"), ("dist-tags", tags), ("versions", versions), ("time", time), ("readme", "# \u2603 \"x\"\n")]
    rng.shuffle(doc)
    return dict(doc)


def has_code(entry):
    return bool(entry.get("gypfile") or {"preinstall", "install", "postinstall"} & set(entry.get("scripts", {})))


def order(version):
    """The key of semver's order."""
    release, _, pre = version.split("+")[0].partition("-")
    return ([int(n) for n in release.split(".")], not pre, [(not p.isdigit(), int(p) if p.isdigit() else 0, p) for p in pre.split(".")])


def moved(doc, shown, tag):
    """Where a tag leads when its version is hidden: the highest shown one that is not above it, releases unless it was none."""
    was = doc["dist-tags"][tag]
    if was in shown:
        return was
    fit = [v for v in shown if order(v) <= order(was) and (order(v)[1] or not order(was)[1])]
    return max(fit, key=lambda v: (order(v), doc["time"][v])) if fit else None


def expected(doc, hidden, short):
    shown = [v for v in doc["versions"] if v not in hidden]
    want = {k: v for k, v in doc.items() if not short or k in ("name", "dist-tags", "versions")}
    want["dist-tags"] = {tag: to for tag in doc["dist-tags"] if (to := moved(doc, shown, tag))}
    want["versions"] = {v: doc["versions"][v] for v in shown}
    if short:
        want["modified"] = doc["time"]["modified"]
        want["versions"] = {v: {k: m for k, m in e.items() if k in KEPT} | ({"hasInstallScript": True} if has_code(e) else {})
                            for v, e in want["versions"].items()}
    else:
        want["time"] = {v: t for v, t in doc["time"].items() if v in shown or v in ("created", "modified")}
    return want


def test_npm_shows_exactly_what_is_allowed():
    for seed in range(25):
        rng = random.Random(seed)
        doc = packument(rng, rng.randrange(0, 12))
        hidden = [v for v in doc["versions"] if rng.random() < rng.choice((.2, .8, 1))]
        for how in (SAME, SHORT):
            got = shaped(NPM, how, doc, hidden)
            equal(got.json(), expected(doc, hidden, how == SHORT), f"seed {seed}")
            equal((got.result["shown"], got.result["hidden"]), (len(doc["versions"]) - len(hidden), len(hidden)))
            if hidden:
                equal(got.result["newest_hidden"], max(hidden, key=lambda v: (order(v), doc["time"][v])))


def test_npm_facts():
    doc = packument(random.Random(1), 9)
    got = {f["version"]: f for f in facts(NPM, doc)}
    equal(set(got), set(doc["versions"]))
    for v, e in doc["versions"].items():
        equal(got[v]["file"], f"demo-{v}.tgz")
        equal(got[v]["code"], "yes" if has_code(e) else "no")
        equal(got[v]["digest"][:6], "sha512" if "integrity" in e["dist"] else "sha1:a")
        check(got[v]["time"] > 1262304000000, got[v])
    equal(facts(NPM, {"versions": {"1.0.0": {}}, "time": {"1.0.0": "2024-02-29T12:00:00.5+01:00"}})[0]["time"], 1709204400500)
    equal(facts(NPM, {"versions": {"1.0.0": {"hasInstallScript": True}}})[0]["code"], "yes")


def test_npm_a_real_document():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "documents/npm-left-pad.json"), encoding="utf-8") as f:
        text = f.read()
    doc = json.loads(text)
    for how in (SAME, SHORT):
        got = shaped(NPM, how, text, ["1.3.0", "0.0.2"], name="left-pad").json()
        equal(got["versions"].keys(), doc["versions"].keys() - {"1.3.0", "0.0.2"})
        equal(got["dist-tags"], {"latest": "1.2.0"}, "the highest, whatever the mirror's times are")
        equal(got["versions"]["1.2.0"]["dist"], doc["versions"]["1.2.0"]["dist"])
    known = {f["version"]: f for f in facts(NPM, text, name="left-pad")}
    equal(known["1.3.0"]["digest"], "sha512:" + base64.b64decode(doc["versions"]["1.3.0"]["dist"]["integrity"][7:]).hex())
    equal((known["1.3.0"]["file"], known["1.3.0"]["code"]), ("left-pad-1.3.0.tgz", "no"))


def test_npm_one_version():
    doc = packument(random.Random(3), 8)
    doc["dist-tags"]["latest"] = newest = max(doc["versions"], key=order)
    equal(shaped(NPM, ONE, doc, which=newest).json(), doc["versions"][newest])
    equal(shaped(NPM, ONE, doc, which="latest").json(), doc["versions"][newest])
    other = shaped(NPM, ONE, doc, [newest], which="latest")
    equal(other.json(), doc["versions"][moved(doc, [v for v in doc["versions"] if v != newest], "latest")])
    gone = shaped(NPM, ONE, doc, [newest], which=newest)
    equal((gone.result["one"], gone.result["one_hidden"], gone.body), ("", 1, b""))
    none = shaped(NPM, ONE, doc, which="7.7.7")
    equal((none.result["one"], none.result["one_hidden"]), ("", 0))


def test_npm_hides_files_of_other_hosts():
    doc = packument(random.Random(4), 3)
    first = list(doc["versions"])[0]
    doc["versions"][first]["dist"]["tarball"] = "https://evil.example/x.tgz"
    got = shaped(NPM, SAME, doc)
    check(first not in got.json()["versions"] and first not in got.json()["time"], "hidden everywhere")


def test_npm_tags_never_become_prereleases():
    doc = {"name": "demo", "dist-tags": {"latest": "1.0.0", "next": "2.0.0-rc.1"}, "versions": {v: {} for v in
           ("1.0.0", "2.0.0-rc.1", "2.0.0-rc.2")}, "time": {"1.0.0": "2020-01-01T00:00:00Z", "2.0.0-rc.1": "2020-02-01T00:00:00Z",
                                                            "2.0.0-rc.2": "2020-03-01T00:00:00Z"}}
    equal(shaped(NPM, SAME, doc, ["1.0.0"]).json()["dist-tags"], {"next": "2.0.0-rc.1"})
    equal(shaped(NPM, SAME, doc, ["1.0.0", "2.0.0-rc.1"]).json()["dist-tags"], {}, "nothing is below rc.1")
    doc["dist-tags"]["next"] = "2.0.0-rc.3"
    equal(shaped(NPM, SAME, doc, ["1.0.0"]).json()["dist-tags"], {"next": "2.0.0-rc.2"})
    doc["dist-tags"]["next"] = "2.0.0-rc.1"
    equal(shaped(NPM, SAME, doc, ["2.0.0-rc.1"]).json()["dist-tags"], {"latest": "1.0.0", "next": "1.0.0"})


def test_npm_tags_move_to_the_highest_version():
    """A release for an old major comes last in time; a tag that moves does not go there, nor above where its author put it."""
    doc = {"name": "demo", "dist-tags": {"latest": "5.3.0", "old": "4.23.0"}, "versions": {v: {} for v in
           ("5.3.0", "4.22.3", "5.2.1", "5.10.0", "6.0.0", "4.9.0", "4.23.0")},
           "time": {v: f"20{year}-01-01T00:00:00Z" for v, year in (("5.3.0", 25), ("5.2.1", 21), ("4.22.3", 24), ("5.10.0", 22), ("6.0.0", 23), ("4.9.0", 26), ("4.23.0", 20))}}
    equal(shaped(NPM, SAME, doc, ["5.3.0", "4.23.0"]).json()["dist-tags"], {"latest": "5.2.1", "old": "4.22.3"})
    equal(shaped(NPM, SAME, doc, ["5.3.0", "5.2.1", "4.23.0", "4.22.3"]).json()["dist-tags"], {"latest": "4.9.0", "old": "4.9.0"})
    # Time decides where there is no order.
    doc = {"name": "demo", "dist-tags": {"latest": "3"}, "versions": {v: {} for v in ("3", "2", "10")},
           "time": {"3": "2023-01-01T00:00:00Z", "2": "2022-01-01T00:00:00Z", "10": "2021-01-01T00:00:00Z"}}
    equal(shaped(NPM, SAME, doc, ["3"]).json()["dist-tags"], {"latest": "2"})


def test_the_etag_follows_the_verdicts():
    doc = packument(random.Random(5), 5)
    one = list(doc["versions"])[0]
    tags = {shaped(NPM, how, doc, hidden).result["etag"] for how in (SAME, SHORT) for hidden in ([], [one])}
    equal(len(tags), 4)
    equal(shaped(NPM, SAME, doc, [one]).result["etag"], shaped(NPM, SAME, doc, [one]).result["etag"])


# ---- PyPI

def simple(rng, n):
    files = []
    for i in range(n):
        name = rng.choice([f"demo-{i}.0.tar.gz", f"demo-{i}.1-py3-none-any.whl", f"demo-{i}.2.zip"])
        entry = {"filename": name, "url": f"https://files.example/packages/{i}/{name}", "hashes": {"md5": "x", "sha256": SHA256},
                 "size": 1000 + i, "upload-time": f"2024-05-0{1 + i % 9}T00:00:00.123456Z", "requires-python": ">=3.8,<4",
                 "core-metadata": rng.choice([True, False, {"sha256": SHA256}]), "yanked": rng.choice([False, False, "bad & <old>"])}
        files.append(dict(rng.sample(list(entry.items()), len(entry))))
    versions = sorted({f["filename"].split("-")[1].replace(".tar.gz", "").replace(".zip", "") for f in files})
    return {"meta": {"api-version": "1.1"}, "name": "Demo", "files": files, "versions": versions}


class Links(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "a":
            self.links.append(dict(attrs))

    def handle_data(self, data):
        if self.links and "text" not in self.links[-1]:
            self.links[-1]["text"] = data


def test_pypi_marks_refused_files_as_yanked():
    for seed in range(15):
        rng = random.Random(seed)
        doc = simple(rng, rng.randrange(8))
        hidden = [f["filename"] for f in doc["files"] if rng.random() < .5]
        got = shaped(SIMPLE, SAME, doc, hidden)
        want = json.loads(json.dumps(doc))
        for f in want["files"]:
            if f["filename"] in hidden:
                f["yanked"] = f"{f['filename']} is _hidden_ _here_"
        equal(got.json(), want, f"seed {seed}")
        links = Links(shaped(SIMPLE, HTML, doc, hidden).body.decode()).links
        equal(len(links), len(doc["files"]))
        for link, f in zip(links, want["files"]):
            equal((link["text"], link["href"]), (f["filename"], f["url"] + "#sha256=" + SHA256))
            equal(link.get("data-yanked", False), f["yanked"])
            equal(link["data-requires-python"], f["requires-python"])
            meta = f["core-metadata"]
            equal(link.get("data-core-metadata"), "sha256=" + SHA256 if isinstance(meta, dict) else "true" if meta else None)


def test_pypi_facts():
    got = facts(SIMPLE, {"name": "demo_pkg", "files": [
        {"filename": f, "url": "x/" + f, "hashes": {"sha256": SHA256}, "upload-time": "1970-01-01T00:00:01Z", "size": 7}
        for f in ("demo_pkg-1.0-py3-none-any.whl", "demo-pkg-2.0.tar.gz", "demo.pkg-3-1.zip", "other-1.0.tar.gz", "demo_pkg-1.egg")]},
        name="demo-pkg")
    equal([f["version"] for f in got], ["1.0", "2.0", "3-1", "", ""])
    equal([f["code"] for f in got], ["no", "yes", "yes", "yes", "unknown"])
    equal({(f["time"], f["size"], f["digest"]) for f in got}, {(1000, 7, "sha256:" + SHA256)})


def test_pypi_drops_addresses_that_lead_elsewhere():
    files = [{"filename": f"demo-{v}.tar.gz", "url": url, "hashes": {"sha256": SHA256}} for v, url in
             (("1.0", "https://files.example/demo-1.0.tar.gz"), ("2.0", "https://evil.example/demo-2.0.tar.gz"),
              ("3.0", "../../packages/other-3.0.tar.gz"), ("4.0", "../../packages/demo-4.0.tar.gz#sha256=00"))]
    doc = {"name": "demo", "versions": ["1.0", "2.0", "3.0", "4.0"], "files": files + [{"url": "x"}, "text", 7, [1]]}
    got = shaped(SIMPLE, SAME, doc).json()
    equal([f["filename"] for f in got["files"]], ["demo-1.0.tar.gz", "demo-4.0.tar.gz"])
    equal(got["versions"], ["1.0", "4.0"])
    links = Links(shaped(SIMPLE, HTML, doc).body.decode()).links
    equal([link["href"] for link in links], [files[0]["url"] + "#sha256=" + SHA256, "../../packages/demo-4.0.tar.gz#sha256=" + SHA256])


def test_pypi_html_escapes():
    bad = "https://files.example/\"><script>alert(1)</script>&x/demo-1.0.tar.gz"
    doc = {"name": "demo", "files": [{"filename": "demo-1.0.tar.gz", "url": bad, "requires-python": "\"'><b>", "yanked": "</a><i>"}]}
    page = shaped(SIMPLE, HTML, doc).body.decode()
    check("<script" not in page and "<b>" not in page and "<i>" not in page, page)
    equal(Links(page).links[0]["href"], bad)


def test_pypi_quarantine_hides_all():
    doc = simple(random.Random(2), 4) | {"project-status": {"status": "quarantined"}}
    got = shaped(SIMPLE, SAME, doc)
    equal((got.result["shown"], got.result["hidden"]), (0, 4))
    check(all("quarantine" in f["yanked"] for f in got.json()["files"]), "all yanked")


def test_pypi_legacy():
    def entry(f, **more):
        return {"filename": f, "url": "https://files.example/" + f, "digests": {"sha256": SHA256}, "yanked": False, "yanked_reason": None,
                "upload_time_iso_8601": "2024-05-01T00:00:00.5Z", "size": 3} | more
    doc = {"info": {"name": "demo", "version": "2.0"}, "urls": [entry("demo-2.0.tar.gz")],
           "releases": {"1.0": [entry("demo-1.0.tar.gz")], "2.0": [entry("demo-2.0.tar.gz")], "3.0": [entry("demo-3.0.tar.gz", url="https://evil/x")]}}
    got = shaped(LEGACY, SAME, doc, ["2.0"])
    equal(got.json()["releases"]["3.0"], [])
    for f in (got.json()["releases"]["2.0"][0], got.json()["urls"][0]):
        equal((f["yanked"], f["yanked_reason"]), (True, "2.0 is _hidden_ _here_"))
    equal(got.json()["releases"]["1.0"], doc["releases"]["1.0"])
    doc["urls"][0]["digests"]["sha256"] = "0" * 64
    refused(LEGACY, json.dumps(doc), "file twice")


# ---- cargo, Go, gems, apt

def cargo_line(vers, **more):
    return json.dumps({"name": "Demo", "vers": vers, "deps": [{"yanked": 1}], "cksum": SHA256, "features": {}, "yanked": False} | more)


def test_cargo_yanks():
    lines = [cargo_line("1.0.0"), cargo_line("1.1.0", pubtime="2024-01-01T00:00:00Z"), cargo_line("1.2.0+x", yanked=True)]
    got = shaped(CARGO, SAME, "\n".join(lines), ["1.1.0"])
    want = [json.loads(line) for line in lines]
    want[1]["yanked"] = True
    equal([json.loads(line) for line in got.body.splitlines()], want)
    equal([f["file"] for f in got.facts], ["Demo-1.0.0.crate", "Demo-1.1.0.crate", "Demo-1.2.0+x.crate"])
    equal([f["time"] for f in got.facts], [0, 1704067200000, 0])
    equal(got.facts[0]["digest"], "sha256:" + SHA256)
    refused(CARGO, "\n".join(lines + lines[:1]), "version twice")
    refused(CARGO, lines[0] + "\n{", "not JSON")
    refused(CARGO, lines[0].replace("Demo", "other"), "another name")


def test_go_lists():
    got = shaped(GO_LIST, SAME, "v1.0.0\nv1.1.0\nv1.2.0-rc.1\nodd version\n", ["v1.1.0"], name="code.example/x")
    equal(got.body, b"v1.0.0\nv1.2.0-rc.1\n")
    equal(shaped(GO_LIST, SAME, "v1.0.0\nv1.1.0", ["v1.0.0"]).body, b"v1.1.0\n")
    equal(facts(GO_INFO, {"Version": "v1.1.0", "Time": "2024-01-01T00:00:00Z", "Origin": {"Version": "x"}})[0]["version"], "v1.1.0")
    refused(GO_INFO, "{}", "no version")


def test_gems():
    text = f"created_at: 2024-01-01\n---\n1.0.0 |checksum:{SHA256}\n1.1.0-java a:>= 1,b:~> 2|checksum:{SHA256},ruby:>= 2\n2.0.0 {'x:>= 1,' * 900}|checksum:{SHA256}\n"
    got = shaped(GEM, SAME, text, ["1.0.0"])
    equal(got.body.decode(), text, "as it is: clients compare its hash")
    equal([f["file"] for f in got.facts], ["demo-1.0.0.gem", "demo-1.1.0-java.gem", "demo-2.0.0.gem"])
    equal([bool(f["digest"]) for f in got.facts], [True, True, False])


def test_apt():
    release = f"Origin: x\nMD5Sum:\n 900150983cd24fb0d6963f7d28e17f72 3 main/a\nSHA256:\n {SHA256}  12 main/binary-amd64/Packages.gz\nDate: x\n {SHA256} 1 no\n"
    equal([(f["file"], f["size"]) for f in facts(APT_RELEASE, release)], [("main/binary-amd64/Packages.gz", 12)])
    stanza = "Package: p{0}\nVersion: 1:1.{0}-1\nProvides: " + "x, " * 400 + "\nFilename: {2}pool/p{0}_1.deb\nSize: {0}\nSHA256: {1}\n\n"
    index = "".join(stanza.format(i, SHA256, "./" if i == 1 else "") for i in range(300))
    for body in (index, index.rstrip(), gzip.compress(index.encode()), gzip.compress(index[:999].encode()) + gzip.compress(index[999:].encode())):
        for i in (0, 1, 299):
            got = listed(body, f"pool/p{i}_1.deb")
            equal([(f["size"], f["digest"]) for f in got], [(i, "sha256:" + SHA256)], f"p{i}")
        equal(listed(body, "pool/p300_1.deb"), [], "not listed")
        equal(listed(body, "./pool/p1_1.deb"), [], "paths have one form")
    again = stanza.format(7, SHA256, "")
    equal(len(listed(index + again, "pool/p7_1.deb")), 1, "twice the same")
    equal(listed(index + again.replace("Size: 7", "Size: 8"), "pool/p7_1.deb"), [], "nobody can tell which")
    equal(len(listed(index + again.replace("Size: 7", "Size: 8"), "pool/p8_1.deb")), 1, "others are found")
    refused(APT_PACKAGES, gzip.compress(index.encode())[:-9], "ends too early")
    refused(APT_PACKAGES, gzip.compress(b"\n" * (200 << 20)), "times as much comes out")
    equal(shaped(APT_PACKAGES, SAME, index[:20000], ["1:1.0-1"]).body.decode(), index[:20000], "signed documents stay as they are")


def listed(body, path):
    """What apt's index says of a file."""
    done = run(APT_PACKAGES, -1, body, which=path, piece=random.choice((0, 4096, 65536)))
    equal(done.returncode, 0, done.stdout)
    return [json.loads(line) for line in done.stdout.splitlines()]


# ---- hostile documents

def test_documents_that_are_refused():
    for body, why in ((b"", "not JSON"), (b"[]", "not an object"), (b'{"versions":{"1.0.0":{}}', "not JSON"), (b"{} {}", "not JSON"),
                      (b'{"a":NaN}', "not JSON"), (b'{"a":01}', "not JSON"), (b'{"a":1.}', "not JSON"), (b'{"a":+1}', "not JSON"), (b'{"a":"\n"}', "not JSON"),
                      (b'{"a":tru}', "not JSON"), (b'{"a":1,}', "not JSON"), (b"{'a':1}", "not JSON"), (b'{"a":"\\x"}', "not JSON"),
                      (b'{"versions":{},"versions":{}}', "twice"), (b'{"versions":{},"ver\\u0073ions":{}}', "twice"), (b'{"versions":[]}', "list"),
                      (b'{"versions":{"1.0.0":{},"1.0.0":{}}}', "version twice"), (b'{"time":{"1.0.0":"2020-01-01T00:00:00Z","1.0.0":"2020-01-01T00:00:00Z"}}', "twice"),
                      (b'{"versions":{"1.0.0":{"dist":{"integrity":"a","integrity":"b"}}}}', "twice"),
                      (b'{"versions":{"1.0.0":{"dist":{"tarball":"\\ud800"}}}}', "UTF-8"), (b'{"versions":{"1.0.0":{"dist":{"tarball":"\xff"}}}}', "UTF-8"),
                      (b'{"name":"other"}', "another name"), (b'{"a":' + b"[" * 40 + b"]" * 40 + b"}", "nested"), (b'{"' + b"a" * 2000 + b'":1}', "1,024"),
                      (b'{"a":' + b"9" * 100 + b"}", "63 digits")):
        refused(NPM, body, why)
    refused(SIMPLE, b'{"files":[{"filename":"a-1.zip","url":"a-1.zip"},{"filename":"a-1.zip","url":"x/a-1.zip"}]}', "file twice")
    refused(SIMPLE, b'{"files":[{"filename":"a-1.zip","filename":"a-2.zip"}]}', "twice")


def test_what_nobody_reads_may_be_odd():
    """Half a surrogate pair in a text that only people read is common: it passes as it is."""
    body = b'{"name":"demo","versions":{"1.0.0":{"description":"\\ud83d","x":"\\u0000","y":"\xff","\\udc00":1}},"dist-tags":{"latest":"1.0.0"}}'
    equal(shaped(NPM, SAME, body).body, body)
    # A version with such a name is none.
    equal(shaped(NPM, SAME, b'{"versions":{"1.0.\\ud800":{},"1 0":{},"' + b"1" * 200 + b'":{},"1.0.0":null,"1.0.1":{}}}').body, b'{"versions":{"1.0.1":{}}}')


def test_bounds():
    many = b'{"versions":{' + b",".join(b'"1.0.%d":{}' % i for i in range(1000000)) + b"}}"
    done = run(NPM, -1, many)
    equal(done.returncode, 1)
    has(done.stdout.decode(), "more than 200000 versions")
    done = run(NPM, -1, b'{"a":"' + b"x" * (65 << 20) + b'"}')
    has(done.stdout.decode(), "larger than 64 MiB")
    some = b'{"versions":{' + b",".join(b'"1.0.%d":{}' % i for i in range(150000)) + b"}}"
    equal(len(Shaped(run(NPM, SHORT, some, ["1.0.7"]).stdout).json()["versions"]), 149999)


def test_long_lists_take_linear_time():
    """Where each name of one list is looked up in another; the tool is stopped after a minute."""
    n = 190000
    files = b",".join(b'{"filename":"d-%d.zip","url":"evil/d-%d.zip"}' % (i, i) for i in range(n))
    names = b",".join(b'"%d"' % i for i in range(n))
    got = Shaped(run(SIMPLE, SAME, b'{"files":[' + files + b'],"versions":[' + names + b"]}", name="d").stdout)
    equal((got.shown, got.json()), (0, {"files": [], "versions": []}))
    n = 150000
    doc = b'{"versions":{' + b",".join(b'"1.0.%d":{}' % i for i in range(n)) + b'},"dist-tags":{' + b",".join(
        b'"t%d":"1.0.%d"' % (i, i) for i in range(20000)) + b"}}"
    equal(Shaped(run(NPM, ONE, doc, which="t19999").stdout).body, b"{}")
    hidden = [f"1.0.{i}" for i in range(19000, 20000)]
    equal(Shaped(run(NPM, SAME, doc, hidden).stdout).json()["dist-tags"]["t19999"], "1.0.18999")


def main():
    global TOOL
    TOOL = sys.argv[1]
    return run_tap(named_tests(globals(), sys.argv[2:]))


if __name__ == "__main__":
    sys.exit(main())
