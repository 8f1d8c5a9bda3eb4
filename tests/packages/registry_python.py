"""registry_python.py - the part of a fake registry that is PyPI: simple pages (JSON and HTML), metadata, files."""
import hashlib
import html
import json

import package_files as build
from registry_answer import Answer

JSON = "application/vnd.pypi.simple.v1+json"


def normal(name):
    for c in "_.":
        name = name.replace(c, "-")
    while "--" in name:
        name = name.replace("--", "-")
    return name.lower()


class Pypi:
    hosts = {"index": "pypi.example", "files": "files.pypi.example"}

    def __init__(self, registry):
        self.registry = registry

    def files(self, p):
        """{file name: bytes} of one version."""
        return p.made("files", lambda: {**({build.wheel_name(p): build.wheel(p)} if p.wheel else {}),
                                        **({build.sdist_name(p): build.sdist(p)} if p.source else {})})

    def path(self, p, file=None):
        """Of a file (the first one, if none is named), on the file host."""
        name = file or next(iter(self.files(p)))
        digest = hashlib.blake2b(name.encode(), digest_size=32).hexdigest()
        return f"/packages/{digest[:2]}/{digest[2:4]}/{digest[4:]}/{name}"

    def digest(self, p, data):
        return p.digest or hashlib.sha256(data).hexdigest()

    def entry(self, p, name, data):
        made = {"filename": name, "url": p.url or self.registry.url("pypi", "files") + self.path(p, name),
                "hashes": {"sha256": self.digest(p, data)}, "size": len(data), "yanked": p.yanked or False,
                "requires-python": ">=3.6"}
        if p.released:
            made["upload-time"] = p.time("%Y-%m-%dT%H:%M:%S.000000Z")
        if p.core_metadata and name.endswith(".whl"):
            made["core-metadata"] = {"sha256": hashlib.sha256(build.python_metadata(p)).hexdigest()}
        return made

    def page(self, name, q):
        found = self.registry.versions("pypi", name, q, normal)
        if not found:
            return Answer(b"404 Not Found", 404, "text/html")
        entries = [self.entry(p, n, data) for p in found for n, data in self.files(p).items()]
        if JSON in (q.get("Accept") or ""):
            whole = {"meta": {"api-version": "1.1"}, "name": normal(name), "versions": [p.version for p in found],
                     "files": entries}
            return Answer(json.dumps(whole).encode(), kind=JSON)
        rows = "".join('<a href="{}#sha256={}"{}>{}</a><br/>\n'.format(
            html.escape(e["url"]), e["hashes"]["sha256"],
            f' data-yanked="{html.escape(str(e["yanked"]))}"' if e["yanked"] else "", e["filename"]) for e in entries)
        text = f"<!DOCTYPE html><html><head><meta name=\"pypi:repository-version\" content=\"1.1\"></head><body>{rows}</body></html>"
        return Answer(text.encode(), kind="text/html")

    def old_json(self, name, version, q):
        found = self.registry.versions("pypi", name, q, normal)
        found = [p for p in found if not version or p.version == version]
        if not found:
            return Answer(b"{}", 404, "application/json")

        def one(p):
            return [{"filename": n, "url": self.registry.url("pypi", "files") + self.path(p, n), "size": len(data),
                     "digests": {"sha256": self.digest(p, data)}, "yanked": bool(p.yanked),
                     "packagetype": "bdist_wheel" if n.endswith(".whl") else "sdist",
                     "upload_time_iso_8601": p.time("%Y-%m-%dT%H:%M:%S.000000Z")} for n, data in self.files(p).items()]
        newest = found[-1]
        return Answer(json.dumps({"info": {"name": newest.name, "version": newest.version}, "urls": one(newest),
                                  "releases": {p.version: one(p) for p in found}}).encode(), kind="application/json")

    def file(self, path, q):
        wanted, _, tail = path.partition(".metadata")
        for p in self.registry.visible("pypi", q):
            for name, data in self.files(p).items():
                if self.path(p, name) == wanted and not tail:
                    return Answer(build.python_metadata(p) if path != wanted else data)
        return Answer(b"no such file", 404, "text/plain")

    def answer(self, q):
        words = q.path.strip("/").split("/")
        if q.method == "POST":
            return Answer(b"thank you", 200, "text/plain")
        if words == ["simple"]:
            names = sorted({normal(p.name) for p in self.registry.visible("pypi", q)})
            return Answer(json.dumps({"meta": {"api-version": "1.1"}, "projects": [{"name": n} for n in names]}).encode(), kind=JSON)
        if words[0] == "simple" and len(words) == 2:
            if not q.path.endswith("/") or words[1] != normal(words[1]):
                return Answer(b"", 301, headers={"Location": f"/simple/{normal(words[1])}/"})
            return self.page(words[1], q)
        if words[0] == "pypi" and words[-1] == "json":
            return self.old_json(words[1], words[2] if len(words) == 4 else "", q)
        return self.file(q.path, q) if words[0] == "packages" else Answer(b"not found", 404, "text/plain")
