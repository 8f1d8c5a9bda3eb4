"""registry_other.py - the parts of a fake registry that are small: git over https, RubyGems, Maven, OCI."""
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import urllib.parse

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
import images  # noqa: E402
import package_files as build  # noqa: E402
from registry_answer import Answer  # noqa: E402

GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_AUTHOR_NAME": "t", "GIT_COMMITTER_NAME": "t",
       "GIT_AUTHOR_EMAIL": "t@t.example", "GIT_COMMITTER_EMAIL": "t@t.example", "PATH": os.environ.get("PATH", "")}


class Git:
    """A package is a repository `NAME.git`; each version is a commit with a tag."""
    hosts = {"index": "code.example"}

    def __init__(self, registry):
        self.registry, self.folder = registry, None

    def path(self, p):
        return f"/{p.name}.git"

    def git(self, *words, **more):
        return subprocess.run(["git", *words], check=True, capture_output=True, text=True,
                              env={**GIT, "HOME": self.folder.name}, **more).stdout.strip()

    def repository(self, p):
        """Its commit's id; made when it is first asked for."""
        if self.folder is None:
            self.folder = tempfile.TemporaryDirectory()
        where = os.path.join(self.folder.name, p.name + ".git")
        work = where[:-4] + ".work"
        if not os.path.isdir(where):
            os.makedirs(os.path.dirname(where), exist_ok=True)
            self.git("init", "-q", "--bare", "-b", "main", where)
            self.git("-C", where, "config", "http.receivepack", "true")
            self.git("init", "-q", "-b", "main", work)
        with open(os.path.join(work, "version"), "w", encoding="utf-8") as f:
            f.write(p.version)
        with open(os.path.join(work, "data"), "wb") as f:
            f.write(build.padding(p))
        self.git("-C", work, "add", ".")
        self.git("-C", work, "commit", "-q", "-m", p.version)
        self.git("-C", work, "tag", p.version)
        self.git("-C", work, "push", "-q", "--tags", where, "main")
        return self.git("-C", work, "rev-parse", "HEAD")

    def commit(self, p):
        return p.made("commit", lambda: self.repository(p))

    def answer(self, q):
        for p in self.registry.visible("git", q):
            self.commit(p)
        if self.folder is None:
            return Answer(b"no repositories", 404, "text/plain")
        env = {**GIT, "GIT_PROJECT_ROOT": self.folder.name, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": q.path,
               "QUERY_STRING": q.query, "REQUEST_METHOD": q.method, "CONTENT_TYPE": q.get("Content-Type") or "",
               "REMOTE_USER": "cell", "REMOTE_ADDR": "192.0.2.1", "CONTENT_LENGTH": str(len(q.body)), "HOME": self.folder.name}
        for name, variable in (("Content-Encoding", "HTTP_CONTENT_ENCODING"), ("Git-Protocol", "GIT_PROTOCOL")):
            if q.get(name):
                env[variable] = q.get(name)
        done = subprocess.run(["git", "http-backend"], input=q.body, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        status = int(headers.pop("Status", "200").split()[0])
        return Answer(body, status, headers.pop("Content-Type", "text/plain"), headers)


class Gem:
    hosts = {"index": "gem.example"}

    def __init__(self, registry):
        self.registry = registry

    def data(self, p):
        return p.made("gem", lambda: build.gem(p))

    def path(self, p):
        return f"/gems/{p.name}-{p.version}.gem"

    def digest(self, p):
        return p.digest or hashlib.sha256(self.data(p)).hexdigest()

    def answer(self, q):
        found = self.registry.visible("gem", q)
        names = list(dict.fromkeys(p.name for p in found))
        info = {n: "---\n" + "".join(f"{p.version} |checksum:{self.digest(p)}\n" for p in found if p.name == n) for n in names}
        if q.path == "/names":
            return Answer("\n".join(["---", *names, ""]).encode(), kind="text/plain")
        if q.path == "/versions":
            rows = "".join("{} {} {}\n".format(n, ",".join(p.version for p in found if p.name == n),
                                               hashlib.md5(info[n].encode()).hexdigest()) for n in names)
            return Answer(f"created_at: 2020-01-01T00:00:00Z\n---\n{rows}".encode(), kind="text/plain")
        if q.path.startswith("/info/") and q.path[6:] in info:
            return Answer(info[q.path[6:]].encode(), kind="text/plain")
        if q.path.startswith("/api/v1/versions/"):
            rows = [{"number": p.version, "created_at": p.time("%Y-%m-%dT%H:%M:%S.000Z"), "sha": self.digest(p),
                     "platform": "ruby"} for p in found if f"/api/v1/versions/{p.name}.json" == q.path]
            return Answer(json.dumps(rows[::-1]).encode(), 200 if rows else 404, "application/json")
        for p in found:
            if self.path(p) == q.path:
                return Answer(self.data(p))
        return Answer(b"not found", 404, "text/plain")


class Maven:
    hosts = {"index": "maven.example"}

    def __init__(self, registry):
        self.registry = registry

    def path(self, p, end=".jar"):
        group, artifact = p.name.split(":")
        return f"/{group.replace('.', '/')}/{artifact}/{p.version}/{artifact}-{p.version}{end}"

    def metadata(self, found):
        group, artifact = found[0].name.split(":")
        rows = "".join(f"<version>{p.version}</version>" for p in found)
        return (f'<?xml version="1.0"?><metadata><groupId>{group}</groupId><artifactId>{artifact}</artifactId><versioning>'
                f"<latest>{found[-1].version}</latest><release>{found[-1].version}</release><versions>{rows}</versions>"
                f"<lastUpdated>{found[-1].time('%Y%m%d%H%M%S')}</lastUpdated></versioning></metadata>").encode()

    def plain(self, path, q):
        found = self.registry.visible("maven", q)
        for p in found:
            modified = {"Last-Modified": p.time("%a, %d %b %Y %H:%M:%S GMT")} if p.released else {}
            if path == self.path(p):
                return Answer(p.made("jar", lambda p=p: build.jar(p)), kind="application/java-archive", headers=modified)
            if path == self.path(p, ".pom"):
                return Answer(build.pom(p), kind="text/xml", headers=modified)
            if path == self.path(p).rsplit("/", 2)[0] + "/maven-metadata.xml":
                return Answer(self.metadata([o for o in found if o.name == p.name]), kind="text/xml")
        return Answer(b"not found", 404, "text/plain")

    def answer(self, q):
        if q.method == "PUT":
            return Answer(b"", 201)
        base, _, end = q.path.rpartition(".")
        if end in ("sha1", "sha256", "sha512", "md5"):
            a = self.plain(base, q)
            return Answer(hashlib.new(end, a.body).hexdigest().encode(), kind="text/plain") if a.status == 200 else a
        return self.plain(q.path, q)


class Oci:
    """A package is a repository; a version is a tag of an image with one layer."""
    hosts = {"index": "oci.example"}

    def __init__(self, registry):
        self.registry = registry

    def image(self, p):
        layer = images.archive(images.member("version", p.version.encode()), images.member("data", build.padding(p)))
        return p.made("image", lambda: images.Image([layer]))

    def path(self, p):
        return f"/v2/{p.name}/manifests/{p.version}"

    def answer(self, q):
        if q.path in ("/v2/", "/v2"):
            return Answer(b"{}", kind="application/json")
        name, _, rest = urllib.parse.unquote(q.path[4:]).rpartition("/")
        name, _, kind = name.rpartition("/")
        for p in self.registry.visible("oci", q):
            image = self.image(p)
            if p.name != name:
                continue
            if kind == "manifests" and rest in (p.version, image.manifest_digest):
                return Answer(image.blobs[image.manifest_digest], kind=image.manifest["mediaType"],
                              headers={"Docker-Content-Digest": image.manifest_digest})
            if kind == "blobs" and rest in image.blobs:
                return Answer(image.blobs[rest])
        return Answer(b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}', 404, "application/json")
