#!/usr/bin/python3 -B
"""Goal: what cordon-egress tells of packages is on record: read strictly, folded to one row for each name and version,
counted, bounded, shown by the API and by cordon packages, and as a bill of materials that others can read; nobody
else's, and also when the session has ended.

    test_packages.py CORDON [name ...]

A program that stands in for cordon-egress sends the records (test_hostile_egress.py); tests/packages has the real one."""
import json
import re
import subprocess
import time

import harness
from harness import check, equal, has, run_tests, wait_for
from test_hostile_egress import RECORD, TAKEN, Taken, log_of, number

KILLS = True
DIGEST = "sha256:" + "ab" * 32
NETWORK = {"version": 1, "rules": ["a.example"]}


def record(name="left", version="1.0.0", verdict="allow", bytes_in=0, rule="", reason="", time_ms=None, **package):
    made = {"ecosystem": "npm", "registry": "npm.example", "name": name, "version": version, "kind": "file",
            "result": "downloaded" if verdict == "allow" else "refused", **package}
    whole = {"time_ms": time_ms or int(time.time() * 1000), "kind": "package", "name": "npm.example", "verdict": verdict,
             "bytes_in": bytes_in, "us": 5, "package": {k: v for k, v in made.items() if v is not None}}
    return [RECORD, json.dumps({**whole, **({"rule": rule} if rule else {}), **({"reason": reason} if reason else {})})]


def rows(server, s, query=""):
    return server.want(200, "GET", f"/v1/sessions/{s['id']}/packages{query}")["packages"]


def session(server, n=1):
    """A session of whose records n packages are made."""
    s = server.create(network=NETWORK)
    wait_for(lambda: len(rows(server, s)) >= n, 10, "rows of packages")
    return s


def cordon(server, *words, code=0):
    done = subprocess.run([harness.PROGRAM, *words, "--server", server.url, "--key-file", server.state + "/first.key"],
                          capture_output=True, text=True, timeout=60, check=False)
    equal(done.returncode, code, f"exit of {words} ({done.stderr})")
    return done.stdout + done.stderr


MANY = [[TAKEN, ""],
        record(verdict="deny", rule="age", reason="left 1.0.0 is 3 h old", age_s=10800, cache="bypass"),
        record(bytes_in=700, checksum=DIGEST, expected="index", verified=True, cache="miss", file="left-1.0.0.tgz",
               install_code="yes", released_at=1700000000000),
        record(bytes_in=700, checksum=DIGEST, expected="index", verified=True, cache="hit", file="left-1.0.0.tgz"),
        record(verdict="deny", reason="no more", cache="bypass"),
        record("@ours/right", "2.0.0-b+1", verdict="deny", reason="not allowed", rule="names", age_s=10800, cache="hit"),
        record("left", "2.0.0", result="hash_mismatch", cache="miss", age_s=40 * 86400),
        record("left", "", kind="meta", result="passed", shaped={"hidden": 2, "newest_hidden": "3.0.0"}),
        record("gone", "", kind="meta", verdict="deny", reason="not here"),
        record("up", "1", kind="publish", verdict="deny"),
        record("Req_u.ests", "2.0", bytes_in=9, ecosystem="pypi", registry="pypi.example", checksum=DIGEST, changed=True),
        record("github.com/A/b", "v1.0.0", bytes_in=9, ecosystem="go", registry="", direct=True, checksum="h1:abc=")]


def test_folded_and_counted():
    with Taken(answer=MANY) as server:
        s = session(server, 6)
        found = {(r["name"], r["version"]): r for r in rows(server, s)}
        equal(sorted(k[0] for k in found), ["@ours/right", "github.com/A/b", "gone", "left", "left", "req-u-ests"], "rows")
        r = found["left", "1.0.0"]
        equal([r[k] for k in ("ecosystem", "registry", "result", "attempts", "downloads", "refusals", "bytes", "size")],
              ["npm", "npm.example", "downloaded", 4, 2, 2, 1400, 700], "a version that was refused, then taken twice")
        equal([r[k] for k in ("checksum", "verified", "cache", "file", "verdict")],
              [DIGEST, True, "hit", "left-1.0.0.tgz", "allow"], "details of the last download")
        equal(found["left", "2.0.0"]["result"], "hash_mismatch", "a wrong digest")
        equal([found["gone", None][k] for k in ("result", "reason", "version")], ["refused", "not here", None], "a name")
        equal(found["github.com/A/b", "v1.0.0"]["registry"], None, "a direct URL")
        equal(found["req-u-ests", "2.0"]["changed"], True, "an alarm, under the name in its one form")
        equal([x["name"] for x in rows(server, s, "?result=refused")], ["@ours/right", "gone"], "by result")
        equal([x["name"] for x in rows(server, s, "?ecosystem=go")], ["github.com/A/b"], "by ecosystem")
        equal(len(rows(server, s, "?name=left")), 2, "by name")
        page = server.want(200, "GET", f"/v1/sessions/{s['id']}/packages?limit=4")
        rest = server.want(200, "GET", f"/v1/sessions/{s['id']}/packages?after={page['next']}")
        equal((len(page["packages"]), len(rest["packages"]), rest["next"]), (4, 2, None), "pages")
        server.refused(400, "invalid", "GET", f"/v1/sessions/{s['id']}/packages?result=bad", None, "result")
        server.refused(400, "invalid", "GET", f"/v1/sessions/{s['id']}/packages?ecosystem=bad", None, "ecosystem")
        sums = server.want(200, "GET", f"/v1/sessions/{s['id']}/metrics")["packages"]
        equal(sums, {"downloaded": 4, "refused": 5, "hash_mismatches": 1, "bytes": 1418, "cache_hits": 1}, "the session's")
        equal(number(server, 'cordon_packages_total{result="refused"}'), 5, "the node's")
        equal(number(server, "cordon_package_bytes_total"), 1418, "bytes of the node")
        equal(number(server, 'cordon_package_cache_total{cache="hit"}'), 2, "the cache, metadata of a refusal included")
        log = [r for r in log_of(server, s) if r["kind"] == "package"]
        equal(len(log), len(MANY) - 1, "every record is in the log of the network, too")
        equal([r["package"]["shaped"]["hidden"] for r in log if "shaped" in r["package"]], [2], "what was hidden")
        kinds = server.want(200, "GET", f"/v1/sessions/{s['id']}/network/log?kind=package&allowed=false")["records"]
        equal(len(kinds), 5, "refusals in the log")


def test_hidden_versions_have_a_row():
    """A row of the newest one that was hidden, which a refusal of its file replaces."""
    hidden = {"kind": "meta", "result": "hidden", "rule": "session packages.min_age", "reason": "2 versions hidden, newest 3.0.0: it is 3 h old"}
    with Taken(answer=[[TAKEN, ""], record("left", "", shaped={"hidden": 2, "newest_hidden": "3.0.0"}, **hidden),
                       record("right", "3.0.0", verdict="deny", reason="it is denied"),
                       record("right", "", shaped={"hidden": 1, "newest_hidden": "3.0.0"}, **hidden)]) as server:
        s = session(server, 2)
        found = {r["name"]: r for r in rows(server, s)}
        equal([found["left"][k] for k in ("version", "result", "rule", "refusals", "downloads", "verdict")],
              ["3.0.0", "hidden", hidden["rule"], 0, 0, "allow"], "the row")
        wait_for(lambda: number(server, 'cordon_packages_total{result="hidden"}') == 2, 10, "both are counted")
        right = rows(server, s, "?name=right")[0]
        equal((right["result"], right["reason"], right["attempts"]), ("refused", "it is denied", 2), "a refusal counts more")
        equal([r["name"] for r in rows(server, s, "?result=hidden")], ["left"], "by result")
        line = next(x for x in cordon(server, "net", s["id"], "--kind", "package").splitlines() if "newest 3.0.0" in x)
        equal(line.split()[1], "allow", "the metadata was given")
        has(cordon(server, "packages", s["id"]), hidden["reason"], "the client's list")


def test_shown_by_the_client():
    with Taken(answer=MANY) as server:
        s = session(server, 6)
        text = cordon(server, "packages", s["id"])
        has(text, "left", "a name")
        has(text, "hash_mismatch", "a result")
        has(text, " 40d ", "an age in days")
        has(text, " 3h ", "an age in hours")
        has(text, "not allowed", "a reason")
        has(cordon(server, "net", s["id"], "--kind", "package"), "npm:left@1.0.0", "in the log")
        equal(len(json.loads(cordon(server, "packages", "--json", s["id"]))["packages"]), 6, "as JSON")
        has(cordon(server, "packages", "--sbom=xml", s["id"], code=2), "cyclonedx or spdx", "another form")
        server.delete(s["id"])
        wait_for(lambda: server.get(s["id"])["state"] == "ended", 10, "its end")
        cyclonedx(json.loads(cordon(server, "packages", s["id"], "--sbom")), s["id"])
        spdx(json.loads(cordon(server, "packages", s["id"], "--sbom=spdx")), s["id"])
        cyclonedx(json.loads(cordon(server, "packages", "--sbom", s["id"])), s["id"])


PURLS = ["pkg:npm/left@1.0.0", "pkg:pypi/req-u-ests@2.0"]  # and a direct file, which only claims to be a package


def cyclonedx(b, session_id):
    """What the JSON schema of CycloneDX 1.5 asks of the members that are there."""
    equal((b["bomFormat"], b["specVersion"], b["version"]), ("CycloneDX", "1.5", 1), "what it is")
    check(re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", b["serialNumber"]), b["serialNumber"])
    equal(set(b) - {"bomFormat", "specVersion", "serialNumber", "version", "metadata", "components"}, set(), "members")
    check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", b["metadata"]["timestamp"]), "a time")
    equal(b["metadata"]["component"], {"type": "container", "bom-ref": session_id, "name": session_id}, "of what")
    equal([(t["type"], t["name"]) for t in b["metadata"]["tools"]["components"]], [("application", "cordon")], "by what")
    equal([c.get("purl") for c in b["components"]], PURLS + [None], "what was downloaded")
    equal(len({c["bom-ref"] for c in b["components"]}), len(PURLS) + 1, "references are unique")
    direct = b["components"][-1]
    equal((direct["type"], direct["name"], direct.get("version")), ("file", "github.com/A/b", None), "a direct file")
    has(direct["properties"], {"name": "cordon:direct", "value": "true"}, "is marked")
    has(direct["properties"], {"name": "cordon:claims", "value": "github.com/A/b v1.0.0"}, "with what it claims to be")
    for c in b["components"]:
        equal(set(c) - {"type", "bom-ref", "name", "version", "purl", "hashes", "properties"}, set(), "members")
        check(c is direct or c["type"] == "library", "type")
        for h in c.get("hashes", ()):
            check(h["alg"] in ("SHA-1", "SHA-256", "SHA-384", "SHA-512") and set(h) == {"alg", "content"}, h)
            check(re.fullmatch(r"[a-f0-9]{40}|[a-f0-9]{64}|[a-f0-9]{96}|[a-f0-9]{128}", h["content"]), h)
        for p in c["properties"]:
            check(set(p) == {"name", "value"} and isinstance(p["value"], str), p)
    equal(b["components"][0]["hashes"], [{"alg": "SHA-256", "content": "ab" * 32}], "the digest")
    has(b["components"][0]["properties"], {"name": "cordon:registry", "value": "npm.example"}, "where from")


def spdx(b, session_id):
    """The same for SPDX 2.3."""
    equal(set(b) - {"spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo", "packages", "relationships"}, set())
    equal((b["spdxVersion"], b["dataLicense"], b["SPDXID"], b["name"]),
          ("SPDX-2.3", "CC0-1.0", "SPDXRef-DOCUMENT", session_id), "what it is")
    check(b["documentNamespace"].startswith("urn:uuid:") and "#" not in b["documentNamespace"], "its namespace")
    check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", b["creationInfo"]["created"]), "a time")
    check(all(re.match("(Tool|Person|Organization): ", c) for c in b["creationInfo"]["creators"]), "who made it")
    ids = [p["SPDXID"] for p in b["packages"]]
    check(len(set(ids)) == len(PURLS) + 1 and all(re.fullmatch(r"SPDXRef-[a-zA-Z0-9.-]+", i) for i in ids), ids)
    equal([p.get("externalRefs") for p in b["packages"]],
          [[{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": u}] for u in PURLS] + [None], "refs")
    has(b["packages"][-1]["comment"], "direct: a file of no registry, which claims to be github.com/A/b v1.0.0", "a direct file")
    for p in b["packages"]:
        check(p["downloadLocation"] == "NOASSERTION" and p["filesAnalyzed"] is False and p["name"], p)
        equal(set(p) - {"SPDXID", "name", "versionInfo", "downloadLocation", "filesAnalyzed", "licenseConcluded", "licenseDeclared",
                        "copyrightText", "comment", "externalRefs", "checksums", "packageFileName"}, set(), "members")
        for c in p.get("checksums", ()):
            check(c["algorithm"] in ("SHA1", "SHA256", "SHA384", "SHA512") and re.fullmatch("[0-9a-f]+", c["checksumValue"]), c)
    equal([(r["spdxElementId"], r["relationshipType"], r["relatedSpdxElement"]) for r in b["relationships"]],
          [("SPDXRef-DOCUMENT", "DESCRIBES", i) for i in ids], "what it describes")


def digest(n):
    return f"sha256:{n:064x}"


def test_several_files_of_a_version():
    """Each one's digest is in the list and in both forms of the bill, also after a refusal and a wrong file."""
    files = {"a-1.0-py3-none-any.whl": digest(1), "a-1.0'\"\\.tar.gz": digest(2), "a-1.0-cp311.whl": digest(3)}
    many = [record("a", "1.0", ecosystem="pypi", bytes_in=10, file=f, checksum=c, verified=True) for f, c in files.items()]
    wrong = record("a", "1.0", ecosystem="pypi", file="a-1.0-cp312.whl", checksum=digest(9), result="hash_mismatch")
    more = [record("b", "1.0", bytes_in=10, file=f"{i:0300}", checksum=digest(i)) for i in range(100)]
    with Taken(answer=[[TAKEN, ""], *many, record("a", "1.0", ecosystem="pypi", verdict="deny", reason="no"), wrong, *more]) as server:
        s = session(server, 2)
        wait_for(lambda: rows(server, s, "?name=b")[0]["downloads"] == 100, 10, "all records")
        row, = rows(server, s, "?name=a")
        equal((row["result"], row["downloads"], row["files"]), ("hash_mismatch", 3, files), "the row")
        row, = rows(server, s, "?name=b")
        check(20 < len(row["files"]) < 60 and row["file"] == f"{99:0300}", f"bounded: {len(row['files'])} files")
        bom = json.loads(cordon(server, "packages", s["id"], "--sbom", "--name", "a"))
        part, = bom["components"]
        equal({c["name"]: "sha256:" + c["hashes"][0]["content"] for c in part["components"]}, files, "CycloneDX")
        equal(len({c["bom-ref"] for c in part["components"]} | {part["bom-ref"]}), 4, "references")
        bom = json.loads(cordon(server, "packages", s["id"], "--sbom=spdx", "--name", "a"))
        equal({p["packageFileName"]: "sha256:" + p["checksums"][0]["checksumValue"] for p in bom["packages"]}, files, "SPDX")
        equal(sorted(r["relatedSpdxElement"] for r in bom["relationships"]), sorted({p["SPDXID"] for p in bom["packages"]}), "ids")


WRONG = [record(ecosystem="nuget"), record(ecosystem=None), record(kind="eat"), record(kind=None), record(result="installed"),
         record(result=None), record(name="a" * 256), record(version="a\n"), record(file="\u2028"), record(registry=7),
         record(cache="maybe"), record(verified="yes"), record(age_s=-1), record(released_at="x"), record(shaped=[]),
         record(shaped={"hidden": "x"}), record(expected="me"), record(install_code=True), record(checksum="x" * 200),
         [RECORD, json.dumps({"time_ms": 1, "kind": "package", "verdict": "allow"})],
         [RECORD, json.dumps({"time_ms": 1, "kind": "package", "verdict": "allow", "package": "x"})]]


def test_what_is_no_record():
    with Taken(answer=[[TAKEN, ""], *WRONG, record("good", extra="x" * 50, seq=9)]) as server:
        s = session(server)
        equal([r["name"] for r in rows(server, s)], ["good"], "rows")
        equal(number(server, "cordon_egress_invalid_total"), len(WRONG), "records that were dropped")
        check("extra" not in json.dumps(log_of(server, s)), "a member that nobody knows is not kept")


def test_only_the_owner_sees_them():
    with Taken(answer=[[TAKEN, ""], record()]) as server:
        s = session(server)
        _, key = server.tenant("other")
        equal(server.request("GET", f"/v1/sessions/{s['id']}/packages", key=key)[0], 404, "another tenant")


def test_bounded():
    many = [record(f"n{i}", verdict="deny", reason="no") for i in range(400)]
    many[100] = record("kept", bytes_in=5)
    with Taken(answer=[[TAKEN, ""], *many], settings={"network_records_session_max": 100}) as server:
        s = server.create(network=NETWORK)
        wait_for(lambda: any(r["name"] == "n399" for r in rows(server, s, "?limit=1000")), 15, "the last one")
        found = rows(server, s, "?limit=1000")
        check(len(found) <= 164, f"{len(found)} rows")
        check(any(r["name"] == "kept" for r in found), "what was downloaded goes last")
        server.restart()
        equal(rows(server, s, "?limit=1000"), found, "after a restart")


if __name__ == "__main__":
    run_tests(globals(), pool_size=0)
