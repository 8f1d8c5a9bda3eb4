"""registry_cargo.py - the part of a fake registry that is cargo's: sparse index, web API, .crate files."""
import hashlib
import json

import package_files as build
from registry_answer import Answer


def index_path(name):
    low = name.lower()
    if len(low) < 4:
        return f"/{len(low)}/{low[0] + '/' if len(low) == 3 else ''}{low}"
    return f"/{low[:2]}/{low[2:4]}/{low}"


class Cargo:
    hosts = {"index": "index.cargo.example", "files": "static.cargo.example", "api": "cargo.example"}

    def __init__(self, registry):
        self.registry = registry

    def data(self, p):
        return p.made("crate", lambda: build.crate(p))

    def path(self, p):
        return f"/crates/{p.name}/{p.name}-{p.version}.crate"

    def line(self, p):
        deps = [{"name": name, "req": want if want[:1] in "^=<>~*" else "^" + want, "features": [], "optional": False,
                 "default_features": True, "target": None, "kind": "normal"} for name, want in p.depends.items()]
        made = {"name": p.name, "vers": p.version, "deps": deps, "features": {}, "yanked": bool(p.yanked),
                "cksum": p.digest or hashlib.sha256(self.data(p)).hexdigest()}
        if p.released and self.registry.pubtime:
            made["pubtime"] = p.time("%Y-%m-%dT%H:%M:%SZ")
        return json.dumps(made)

    def about(self, name, q):
        found = self.registry.versions("cargo", name, q)
        if not found:
            return Answer(b'{"errors":[{"detail":"not found"}]}', 404, "application/json")
        rows = [{"num": p.version, "created_at": p.time("%Y-%m-%dT%H:%M:%S.000000+00:00"), "yanked": bool(p.yanked),
                 "checksum": p.digest or hashlib.sha256(self.data(p)).hexdigest()} for p in found[::-1]]
        return Answer(json.dumps({"crate": {"id": name, "name": name}, "versions": rows}).encode(), kind="application/json")

    def download(self, words, q):
        for p in self.registry.versions("cargo", words[3], q):
            if p.version == words[4]:
                return Answer(b"", 302, headers={"Location": self.registry.url("cargo", "files") + self.path(p)})
        return Answer(b"no such crate", 404, "text/plain")

    def answer(self, q):
        words = q.path.strip("/").split("/")
        if q.method != "GET" and q.method != "HEAD":
            return Answer(b'{"warnings":{}}', 200, "application/json")
        if q.path == "/config.json":
            files = self.registry.url("cargo", "files")
            return Answer(json.dumps({"dl": files + "/crates/{crate}/{crate}-{version}.crate",
                                      "api": self.registry.url("cargo", "api")}).encode(), kind="application/json")
        if q.path.startswith("/api/v1/crates"):
            if words[-1] == "download" and len(words) == 6:
                return self.download(words, q)
            return self.about(words[3], q) if len(words) > 3 else Answer(b'{"crates":[]}', kind="application/json")
        for p in self.registry.visible("cargo", q):
            if self.path(p) == q.path:
                return Answer(self.data(p))
            if index_path(p.name) == q.path:
                lines = "".join(self.line(o) + "\n" for o in self.registry.versions("cargo", p.name, q))
                return Answer(lines.encode(), kind="text/plain")
        return Answer(b"not found", 404, "text/plain")
