#!/usr/bin/python3 -B
"""Goal: whatever a real server answers with a package is recognised as that package, however the request is written.

    test_routers.py RECOGNISE_TOOL PACKAGES [name ...]

PACKAGES is where tools/sdk-packages puts verdaccio.

A package that the policy refuses lies at a real server: git's own http-backend, docker-registry, verdaccio, and for an archive of apt two
web servers that know nothing of apt, as mirrors have them: busybox's and Python's. Go has no packaged proxy here: its files are served
by Python's, in the layout of the protocol. Each request for it is written in many ways; recognise_tool says what the package gate makes of
each and in which form it would be sent, and the server is asked in that form. If it answers with content, the gate must have refused
the request: by name, or since it looks like a request that is not understood. What passes as a page, or as another package, is a hole."""
import base64
import functools
import gzip
import hashlib
import http.server
import json
import os
import re
import shutil
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import urllib.parse

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
from checks import Skip, check, named_tests, run_tap, wait_for  # noqa: E402

TOOL = PACKAGES = ""
HOST = "server.example"


# ---- spellings

def at_each(path, mark, *others):
    """The path with each occurrence of a mark replaced, one at a time, and all at once."""
    places = [m.start() for m in re.finditer(re.escape(mark), path)]
    for other in others:
        yield from (path[:i] + other + path[i + len(mark):] for i in places)
        yield path.replace(mark, other)


def of_segments(path):
    """The path with one of its segments changed."""
    parts = path.split("/")
    for i, part in enumerate(parts):
        if not part:
            continue
        escaped = f"%{ord(part[0]):02x}"
        for other in (part.upper(), part.title(), part + ".", part + "%20", part + ";a=b", part + "%3Ba", part + "%00", escaped + part[1:],
                      escaped.upper() + part[1:], f"%25{ord(part[0]):02x}" + part[1:], part + "/.", part + "/x/..", "./" + part, part + "%2f..%2f" + part,
                      part + "+", part + "%09", part + "%5c", part + "//"):
            yield "/".join(parts[:i] + [other] + parts[i + 1:])


def spellings(target):
    path, mark, query = target.partition("?")
    paths = [path, "/" + path, "//" + path, path + "/", path + "//", path + "%2f", path + "/.", "/." + path, "/x/.." + path, path.upper(), path.lower()]
    paths += list(at_each(path, "/", "//", "%2f", "%2F", "/./", "///", "\\", "%5c"))
    for sign in ".@:-_":
        paths += list(at_each(path, sign, f"%{ord(sign):02x}"))
    paths += list(of_segments(path))
    queries = [mark + query, "?", "?a", "?a=b", "?ns=docker.io", "?service=git-upload-pack"]
    if query:
        queries += ["?" + query + end for end in ("&a=1", "&" + query, ";a", "&")] + ["?a=1&" + query, "?" + query.replace("-", "%2d"), "", "?" + query.upper()]
    first = [p + mark + query for p in paths] + [path + q for q in queries]
    return list(dict.fromkeys(first + [paths[i] + q for q in queries[1:3] for i in (1, 5)]))


HOSTS = [HOST.upper(), HOST.title(), HOST + ".", HOST + ":443", HOST + ":00443", HOST + ":80", HOST + ".:443", HOST + "..", HOST + ":", HOST + ":x", HOST + "%2e",
         "." + HOST, HOST.replace(".", ".."), HOST.replace(".", "%2e"), HOST.replace("e", "%65", 1), HOST + "/", HOST + "@x", "x@" + HOST, f"[{HOST}]"]


# ---- the gate

def judged(policy, requests):
    """[(verdict, target, words)] of each (method, host, target)."""
    lines = "".join(" ".join(q) + "\n" for q in requests)
    done = subprocess.run([TOOL, json.dumps({"version": 1, "packages": policy})], input=lines, capture_output=True, text=True, timeout=60, check=False)
    check(done.returncode == 0, done.stderr)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    check(len(rows) == len(requests), f"{len(rows)} answers to {len(requests)} requests")
    return rows


class Asked:
    """What a server has answered, each form once."""
    def __init__(self, server):
        self.server, self.answers = server, {}

    def __call__(self, method, host, target):
        if (method, host, target) not in self.answers:
            self.answers[method, host, target] = self.server(method, target, host)
        return self.answers[method, host, target]


def led(answer, host):
    """Where a redirect leads a client that follows it: [(host, target)]."""
    where = urllib.parse.urlsplit(answer[2]) if answer[0] in (301, 302, 303, 307, 308) and len(answer) > 2 else None
    if where is None or (where.scheme not in ("", "http", "https")) or not where.path.startswith("/"):
        return []
    # a server that does not know its name has its own address there
    host = host if where.netloc.startswith("127.0.0.1") or where.netloc == "" else where.netloc
    return [(host, where.path + ("?" + where.query if where.query else ""))]


def no_hole(server, policies, requests, is_content, pages=()):
    """Asks the server for all that a policy does not refuse, and for the places that its answers lead to. Every request must be
    answered with content as it is, or the test is none. pages: more to begin with. Returns how many redirects were followed."""
    asked = Asked(server)
    holes, held, followed = [], 0, 0
    spelled = [(m, HOST, t) for m, target in requests for t in spellings(target)] + [(m, h, t) for m, t in requests for h in HOSTS] + [("GET", HOST, p) for p in pages]
    for name, policy in policies.items():
        passing = [(q, q) for q in spelled]  # as it was written at first, and where that has led
        for hop in range(4):
            rows, leads = judged(policy, [q for _, q in passing]), []
            for (written, (method, host, _)), (verdict, target, words) in zip(passing, rows):
                if verdict == "bad":
                    continue
                answer = asked(method, host, target)
                if is_content(*answer[:2]):
                    held += hop == 0 and verdict == "refuse"
                    if verdict != "refuse":
                        holes.append(f"{name}: {' '.join(written)} is sent as {target}, after {hop} redirects: {verdict} {words}")
                elif verdict != "refuse":
                    leads += [(written, (method, *place)) for place in led(answer, host)]
            passing, followed = list(dict.fromkeys(leads)), followed + len(leads)
    check(not holes, f"{len(holes)} holes: " + "; ".join(holes[:6]))
    for method, target in requests:
        check(is_content(*asked(method, HOST, target)[:2]), f"no content at {target}: {asked(method, HOST, target)}")
    check(held >= len(requests) * len(policies), f"only {held} requests were answered with content: the test is not one")
    print(f"# {len(spelled)} requests, {len(asked.answers)} forms asked for, {held} with content, all refused; {followed} redirects followed")
    return followed


# ---- servers

def ask(port, method, target, body=b"", headers="", host=HOST):
    """(status, body, where it leads) of a request, byte by byte."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
        s.sendall(f"{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body)
        got = b""
        while True:
            data = s.recv(65536)
            if not data:
                break
            got += data
    head, _, rest = got.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    place = re.search(rb"(?im)^location: *(\S*)", head)
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0, rest, place[1].decode("latin-1") if place else ""


class Plain:
    """A folder behind Python's own web server."""
    def __init__(self, files):
        self.folder = tempfile.TemporaryDirectory(prefix="cordon-routers-")
        for path, data in files.items():
            where = os.path.join(self.folder.name, path.lstrip("/"))
            os.makedirs(os.path.dirname(where), exist_ok=True)
            with open(where, "wb") as f:
                f.write(data)
        handler = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), functools.partial(handler, directory=self.folder.name))
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __call__(self, method, target, host=HOST):
        return ask(self.server.server_address[1], method, target, host=host)

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.folder.cleanup()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Program:
    """A server that is another program, at a port of its own."""
    def __init__(self, words, port, **more):
        self.port = port
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)
        wait_for(self.listens, 60, words[0], step=0.1)

    def listens(self):
        check(self.process.poll() is None, f"{self.process.args[0]} ended")
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            return True
        except OSError:
            return False

    def __call__(self, method, target, host=HOST):
        return ask(self.port, method, target, host=host)

    def close(self):
        self.process.terminate()
        self.process.wait(20)


class Httpd(Program):
    """The same folder behind busybox's web server, a C program with a reader of paths of its own."""
    def __init__(self, folder):
        port = free_port()
        super().__init__(["busybox", "httpd", "-f", "-p", f"127.0.0.1:{port}", "-h", folder], port)


def found(status, body, words):
    return status == 200 and words in body


# ---- tests

GIT = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b", "GIT_CONFIG_NOSYSTEM": "1",
       "HOME": "/nonexistent", "PATH": os.environ.get("PATH", "/usr/bin:/bin")}


def git(folder, *words, **more):
    return subprocess.run(["git", "-C", folder, *words], env=GIT, capture_output=True, check=True, timeout=30, **more).stdout


def test_git():
    """As web servers call it: the path without escapes, slashes merged or not."""
    if not shutil.which("git"):
        raise Skip("git is not installed")
    backend = os.path.join(subprocess.run(["git", "--exec-path"], capture_output=True, text=True, check=True).stdout.strip(), "git-http-backend")
    if not os.path.exists(backend):
        raise Skip("git-http-backend is not installed")
    with tempfile.TemporaryDirectory(prefix="cordon-routers-") as root:
        bare = os.path.join(root, "evil", "x.git")
        git("/", "init", "-q", "--bare", bare)
        commit = git(bare, "commit-tree", "-m", "c", git(bare, "mktree", input=b"").decode().strip()).decode().strip()
        git(bare, "update-ref", "refs/heads/master", commit)
        git(bare, "update-server-info")
        pack = git(bare, "pack-objects", "--all", "objects/pack/pack", "-q").decode().strip()
        want = f"want {commit}\n".encode()
        body = b"%04x" % (len(want) + 4) + want + b"00000009done\n"

        def server(method, target, _host):
            path, _, query = target.partition("?")
            answers = []
            for merge in (False, True):
                info = urllib.parse.unquote(path)
                info = re.sub("/+", "/", info) if merge else info
                if "\0" in info:
                    continue
                done = subprocess.run([backend], input=body if method == "POST" else b"", capture_output=True, timeout=30, check=False, env={
                    **GIT, "GIT_PROJECT_ROOT": root, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": info, "QUERY_STRING": query, "REQUEST_METHOD": method,
                    "CONTENT_TYPE": "application/x-git-upload-pack-request", "CONTENT_LENGTH": str(len(body) if method == "POST" else 0)})
                head, _, rest = done.stdout.partition(b"\r\n\r\n")
                answers.append(200 if b"Status:" not in head and rest else 404)
            return min(answers, default=404), b""

        requests = [("GET", "/evil/x.git/info/refs?service=git-upload-pack"), ("GET", "/evil/x.git/info/refs"), ("POST", "/evil/x.git/git-upload-pack"),
                    ("GET", f"/evil/x.git/objects/{commit[:2]}/{commit[2:]}"), ("GET", f"/evil/x.git/objects/pack/pack-{pack}.pack"),
                    ("GET", "/evil/x.git/objects/info/packs")]
        entry = {"ecosystem": "git", "host": HOST}
        no_hole(server, {"denied": {"registries": [entry], "deny": ["git:evil/*"]}, "not allowed": {"registries": [entry], "allow": ["git:good/*"]},
                         "no registry": {"direct": "deny"}, "no registry, denied": {"deny": ["git:evil/x"]}}, requests, lambda status, _: status == 200)


def test_images():
    program = shutil.which("docker-registry")
    if not program:
        raise Skip("docker-registry is not installed")
    with tempfile.TemporaryDirectory(prefix="cordon-routers-") as root:
        port = free_port()
        config = os.path.join(root, "config.yml")
        with open(config, "w", encoding="ascii") as f:
            f.write(f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {root}/data}}}}\nhttp: {{addr: '127.0.0.1:{port}'}}\n")
        server = Program([program, "serve", config], port, cwd=root)
        try:
            blob = b"evil content"
            digest = "sha256:" + hashlib.sha256(blob).hexdigest()
            kind = "application/vnd.oci.image.manifest.v1+json"
            with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
                s.sendall(f"POST /v2/evil/x/blobs/uploads/ HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
                head = b"".join(iter(lambda: s.recv(65536), b"")).decode()
            where = urllib.parse.urlsplit(re.search(r"(?im)^location: (\S+)", head).group(1))
            status, said, _ = ask(port, "PUT", f"{where.path}?{where.query}&digest={digest}", blob)
            check(status == 201, (status, said))
            part = {"mediaType": "application/octet-stream", "size": len(blob), "digest": digest}
            manifest = json.dumps({"schemaVersion": 2, "mediaType": kind, "config": part, "layers": [part]}).encode()
            status, said, _ = ask(port, "PUT", "/v2/evil/x/manifests/latest", manifest, f"Content-Type: {kind}\r\n")
            check(status == 201, (status, said))
            requests = [("GET", f"/v2/evil/x/blobs/{digest}"), ("GET", "/v2/evil/x/manifests/latest"), ("GET", "/v2/evil/x/tags/list")]
            get = lambda method, target, host: ask(port, method, target, b"", f"Accept: {kind}\r\n", host)  # noqa: E731
            entry = {"ecosystem": "oci", "host": HOST}
            no_hole(get, {"denied": {"registries": [entry], "deny": ["oci:evil/*"]}, "not allowed": {"registries": [entry], "allow": ["oci:good/*"]},
                          "no registry": {"deny": ["oci:evil/x"]}}, requests,
                    lambda status, body: status == 200 and (b"evil" in body or b"schemaVersion" in body))
        finally:
            server.close()


def test_a_go_proxy():
    files = {"/evil.com/x/@v/list": b"v1.0.0\n", "/evil.com/x/@v/v1.0.0.info": b'{"Version":"v1.0.0"}', "/evil.com/x/@v/v1.0.0.mod": b"module evil.com/x\n",
             "/evil.com/x/@v/v1.0.0.zip": b"PK v1.0.0", "/evil.com/x/@latest": b'{"Version":"v1.0.0"}'}
    server = Plain(files)
    try:
        entry = {"ecosystem": "go", "host": HOST}
        no_hole(server, {"denied": {"registries": [entry], "deny": ["go:evil.com/x"]}, "not allowed": {"registries": [entry], "allow": ["go:good.com/*"]},
                         "no registry": {"deny": ["go:evil.com/x"]}, "no direct": {"direct": "deny"}}, [("GET", p) for p in files],
                lambda status, body: status == 200 and (b"v1.0.0" in body or b"module" in body) and b"<html" not in body.lower())
    finally:
        server.close()


def test_an_archive_of_apt():
    """Packages, sources in all their parts; and its indexes, which name no package, where apt is off."""
    pool = "/debian/pool/main/e/evil/"
    files = {pool + name: b"evil content" for name in ("evil_1.0-1_amd64.deb", "evil_1.0-1_amd64.udeb", "evil_1.0-1.dsc", "evil_1.0.orig.tar.gz",
                                                       "evil_1.0-1.debian.tar.xz", "evil_1.0-1.diff.gz")}
    index = gzip.compress(b"Package: evil\n", mtime=0)
    hashed = f"/debian/dists/stable/main/binary-amd64/by-hash/SHA256/{hashlib.sha256(index).hexdigest()}"
    indexes = {"/debian/dists/stable/main/binary-amd64/Packages.gz": index, hashed: index, "/debian/dists/stable/InRelease": b"Suite: evil\n",
               "/debian/dists/stable/main/source/Sources.gz": index}
    plain = Plain({**files, **indexes})
    try:
        has_no_hole_in_apt(plain, files, indexes, index)
        if "httpd" not in subprocess.run(["busybox", "--list"], capture_output=True, text=True, check=False).stdout.split():
            raise Skip("busybox here has no web server")
        httpd = Httpd(plain.folder.name)
        try:
            has_no_hole_in_apt(httpd, files, indexes, index)
        finally:
            httpd.close()
    finally:
        plain.close()


def has_no_hole_in_apt(server, files, indexes, index):
    entry = {"ecosystem": "apt", "host": HOST}
    no_hole(server, {"denied": {"registries": [entry], "deny": ["apt:evil"]}, "not allowed": {"registries": [entry], "allow": ["apt:good"]}},
            [("GET", p) for p in files], lambda status, body: found(status, body, b"evil content"))
    no_hole(server, {"not listed": {"registries": ["npm"]}}, [("GET", p) for p in files if p.endswith("deb")],
            lambda status, body: found(status, body, b"evil content"))
    no_hole(server, {"offline": {"registries": [entry], "mode": "offline"}}, [("GET", p) for p in {**files, **indexes}],
            lambda status, body: status == 200 and (b"evil" in body or body == index) and b"<html" not in body.lower())


def test_a_server_that_redirects():
    """Pages that lead to a repository, however its path is written there: a client that follows is judged again."""
    target = "/evil/x/archive/v1.tar.gz"
    plain, places = Plain({target: b"evil content"}), spellings(target)

    def server(method, at, host):
        number = re.fullmatch(r"/pages/(\d+)", at)
        return (302, b"", places[int(number[1])]) if number else plain(method, at, host)

    try:
        entry = {"ecosystem": "git", "host": HOST}
        followed = no_hole(server, {"denied": {"registries": [entry], "deny": ["git:evil/*"]}, "not allowed": {"registries": [entry], "allow": ["git:good/*"]}},
                           [("GET", target)], lambda status, body: found(status, body, b"evil content"), [f"/pages/{i}" for i in range(len(places))])
        check(followed >= 2 * len(places) - 20, f"{followed} redirects of {len(places)} pages were followed")
    finally:
        plain.close()


def test_other_layouts():
    """Files as registries lay them out, at a plain server."""
    for eco, name, paths, more in (("maven", "org.evil:lib", ["/maven2/org/evil/lib/1.0/lib-1.0.jar", "/maven2/org/evil/lib/1.0/lib-1.0.pom"], {"path": "/maven2/"}),
                                   ("npm", "@evil/x", ["/@evil/x/-/x-1.0.0.tgz"], {}), ("cargo", "evil", ["/crates/evil/evil-1.0.0.crate"], {}),
                                   ("gem", "evil", ["/gems/evil-1.0.gem"], {}), ("pypi", "evil", ["/packages/evil-1.0-py3-none-any.whl"], {})):
        server = Plain({p: b"evil content" for p in paths})
        try:
            entry = {"ecosystem": eco, "host": HOST, **more}
            no_hole(server, {f"{eco}, denied": {"registries": [entry], "deny": [f"{eco}:{name}"]},
                             f"{eco}, not allowed": {"registries": [entry], "allow": [f"{eco}:good{':x' if eco == 'maven' else ''}"]}},
                    [("GET", p) for p in paths], lambda status, body: found(status, body, b"evil content"))
        finally:
            server.close()


def test_verdaccio():
    here = os.path.dirname(os.path.abspath(__file__))
    done = subprocess.run([os.path.join(here, "..", "..", "tools", "sdk-packages"), PACKAGES, os.path.join(here, "verdaccio", "package.json"), "18"],
                          capture_output=True, text=True, timeout=600, check=False)
    check(done.returncode == 0, done.stderr)
    program = [os.path.join(PACKAGES, "bin", "node"), os.path.join(PACKAGES, "node_modules", "verdaccio", "bin", "verdaccio")]
    with tempfile.TemporaryDirectory(prefix="cordon-routers-") as root:
        port = free_port()
        config = os.path.join(root, "config.yaml")
        with open(config, "w", encoding="ascii") as f:
            f.write(f"storage: {root}/data\nuplinks: {{}}\npackages: {{'**': {{access: $all, publish: $all}}}}\nlog: {{type: stdout, level: fatal}}\n"
                    "auth: {htpasswd: {file: ./htpasswd}}\n")
        server = Program([*program, "--config", config, "--listen", f"127.0.0.1:{port}"], port, cwd=root, env={**os.environ, "HOME": root})
        try:
            data = b"evil content"
            tgz = {"dist": {"tarball": f"http://127.0.0.1:{port}/@evil/x/-/x-1.0.0.tgz", "shasum": hashlib.sha1(data).hexdigest()}, "name": "@evil/x", "version": "1.0.0"}
            document = {"_id": "@evil/x", "name": "@evil/x", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": tgz},
                        "_attachments": {"x-1.0.0.tgz": {"content_type": "application/octet-stream", "data": base64.b64encode(data).decode(), "length": len(data)}}}
            status, said, _ = ask(port, "PUT", "/@evil%2fx", json.dumps(document).encode(), "Content-Type: application/json\r\n")
            check(status == 201, (status, said[-300:]))
            entry = {"ecosystem": "npm", "host": HOST}
            requests = [("GET", "/@evil%2fx"), ("GET", "/@evil/x"), ("GET", "/@evil/x/-/x-1.0.0.tgz"), ("GET", "/@evil/x/1.0.0")]
            no_hole(server, {"denied": {"registries": [entry], "deny": ["npm:@evil/x"]}, "not allowed": {"registries": [entry], "allow": ["npm:good"]}},
                    requests, lambda status, body: status == 200 and (b"evil content" in body or b'"@evil/x"' in body))
        finally:
            server.close()


def main():
    global TOOL, PACKAGES
    TOOL, PACKAGES = map(os.path.abspath, sys.argv[1:3])
    return run_tap(named_tests(globals(), sys.argv[3:]))


if __name__ == "__main__":
    sys.exit(main())
