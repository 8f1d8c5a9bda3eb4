"""registry_npm.py - the part of a fake registry that is npm's: documents (full and short), tarballs, audit, publish."""
import base64
import hashlib
import json
import urllib.parse

import package_files as build
from registry_answer import Answer

SHORT = "application/vnd.npm.install-v1+json"


class Npm:
    hosts = {"index": "npm.example"}

    def __init__(self, registry):
        self.registry = registry

    def path(self, p):
        return f"/{p.name}/-/{p.name.rsplit('/', 1)[-1]}-{p.version}.tgz"

    def data(self, p):
        return p.made("tgz", lambda: build.npm_tgz(p))

    def integrity(self, p):
        return p.digest or "sha512-" + base64.b64encode(hashlib.sha512(self.data(p)).digest()).decode()

    def entry(self, p, full):
        made = build.npm_manifest(p)
        made["dist"] = {"tarball": p.url or self.registry.url("npm") + self.path(p), "integrity": self.integrity(p),
                        "shasum": hashlib.sha1(self.data(p)).hexdigest()}
        if p.script:
            made["hasInstallScript"] = True
        if full:
            made["_id"] = f"{p.name}@{p.version}"
        else:
            for name in ("scripts", "description", "main"):
                made.pop(name, None)
        return made

    def document(self, name, q):
        found = self.registry.versions("npm", name, q)
        if not found:
            return Answer(b'{"error":"Not found"}', 404, "application/json")
        short = SHORT in (q.get("Accept") or "").split(";")[0] and self.registry.short_forms
        latest = [p for p in found if "-" not in p.version] or found
        made = {"name": name, "dist-tags": {"latest": latest[-1].version, **{p.tag: p.version for p in found if p.tag}},
                "versions": {p.version: self.entry(p, not short) for p in found},
                "modified": found[-1].time("%Y-%m-%dT%H:%M:%S.000Z")}
        if not short:
            made["_id"] = name
            made["time"] = {"created": found[0].time("%Y-%m-%dT%H:%M:%S.000Z"), "modified": made.pop("modified"),
                            **{p.version: p.time("%Y-%m-%dT%H:%M:%S.000Z") for p in found if p.released}}
        return Answer(json.dumps(made).encode(), kind=SHORT if short else "application/json")

    def answer(self, q):
        path = urllib.parse.unquote(q.path)
        if q.method in ("PUT", "DELETE"):
            return Answer(b'{"ok":true}', 201, "application/json")
        if path.startswith("/-/"):
            return Answer(b'{"objects":[],"total":0}' if "search" in path else b"{}", 200, "application/json")
        if path.endswith(".tgz") and "/-/" in path:
            for p in self.registry.visible("npm", q):
                if self.path(p) == path:
                    return Answer(self.data(p))
            return Answer(b'{"error":"Not found"}', 404, "application/json")
        words = path.strip("/").split("/")
        name = "/".join(words[:2]) if path.startswith("/@") else words[0]
        rest = words[2:] if path.startswith("/@") else words[1:]
        if not rest:
            return self.document(name, q)
        for p in self.registry.versions("npm", name, q)[::-1]:
            if rest[0] in (p.version, p.tag or "latest"):
                return Answer(json.dumps(self.entry(p, True)).encode(), kind="application/json")
        return Answer(b'{"error":"version not found"}', 404, "application/json")
