"""registry_go.py - the part of a fake registry that is a Go module proxy, and the checksum database beside it.

The database has one tile of at most 256 records and a tree head signed by a key of its own; SUMDB names it for GOSUMDB."""
import base64
import hashlib
import json
import re
import subprocess
import tempfile

import package_files as build
from registry_answer import Answer


def unescape(text):
    return re.sub("!([a-z])", lambda m: m[1].upper(), text)


class Key:
    """An Ed25519 key of a signed note, by openssl."""

    def __init__(self, name):
        self.name, self.file = name, tempfile.NamedTemporaryFile(suffix=".pem")
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", self.file.name], check=True, capture_output=True)
        der = subprocess.run(["openssl", "pkey", "-in", self.file.name, "-pubout", "-outform", "DER"], check=True,
                             capture_output=True).stdout
        public = b"\x01" + der[-32:]
        self.id = hashlib.sha256(name.encode() + b"\n" + public).digest()[:4]
        self.text = f"{name}+{self.id.hex()}+{base64.b64encode(public).decode()}"

    def sign(self, text):
        with tempfile.NamedTemporaryFile() as f:
            f.write(text.encode())
            f.flush()
            made = subprocess.run(["openssl", "pkeyutl", "-sign", "-rawin", "-inkey", self.file.name, "-in", f.name],
                                  check=True, capture_output=True).stdout
        return f"{text}\n\u2014 {self.name} {base64.b64encode(self.id + made).decode()}\n"


def tree_hash(leaves):
    if len(leaves) == 1:
        return leaves[0]
    k = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + tree_hash(leaves[:k]) + tree_hash(leaves[k:])).digest()


class Go:
    hosts = {"index": "proxy.go.example", "sums": "sum.go.example"}

    def __init__(self, registry):
        self.registry, self.key = registry, None

    def data(self, p):
        return p.made("zip", lambda: build.go_zip(p))

    def path(self, p, end=".zip"):
        return f"/{re.sub('[A-Z]', lambda m: '!' + m[0].lower(), p.name)}/@v/{p.version}{end}"

    def info(self, p):
        made = {"Version": p.version, **({"Time": p.time("%Y-%m-%dT%H:%M:%SZ")} if p.released else {})}
        return Answer(json.dumps(made).encode(), kind="application/json")

    # ---- the checksum database

    def sum_key(self):
        """What GOSUMDB has to be: NAME+ID+KEY URL."""
        if self.key is None:
            self.key = Key(self.hosts["sums"])
        return f"{self.key.text} {self.registry.url('go', 'sums')}"

    def records(self):
        made = []
        for p in self.registry.packages:
            if p.ecosystem == "go":
                whole, mod = build.go_sums(p)
                whole = p.digest or whole
                made.append((p, f"{p.name} {p.version} {whole}\n{p.name} {p.version}/go.mod {mod}\n"))
        return made

    def database(self, path):
        records = self.records()
        leaves = [hashlib.sha256(b"\0" + text.encode()).digest() for _, text in records]
        self.sum_key()
        head = f"go.sum database tree\n{len(leaves)}\n{base64.b64encode(tree_hash(leaves)).decode()}\n" if leaves else ""
        if path == "/latest":
            return Answer(self.key.sign(head).encode(), kind="text/plain")
        if path.startswith("/lookup/"):
            for number, (p, text) in enumerate(records):
                if unescape(path[8:]) == f"{p.name}@{p.version}":
                    return Answer(f"{number}\n{text}\n{self.key.sign(head)}".encode(), kind="text/plain")
        if path == f"/tile/8/0/000.p/{len(leaves)}":
            return Answer(b"".join(leaves))
        return Answer(b"not found", 404, "text/plain")

    def answer(self, q):
        path = q.path.removeprefix(f"/sumdb/{self.hosts['sums']}")
        if path == "/supported":
            return Answer(b"", kind="text/plain")
        if path.startswith(("/lookup/", "/tile/", "/latest")):
            return self.database(path)
        name, _, end = unescape(path[1:]).partition("/@")
        found = self.registry.versions("go", name, q)
        if not found:
            return Answer(b"not found: no such module", 404, "text/plain")
        if end == "v/list":
            return Answer("".join(p.version + "\n" for p in found).encode(), kind="text/plain")
        if end == "latest":
            return self.info(found[-1])
        for p in found:
            if end == f"v/{p.version}.info":
                return self.info(p)
            if end == f"v/{p.version}.mod":
                return Answer(build.go_mod(p), kind="text/plain")
            if end == f"v/{p.version}.zip":
                return Answer(self.data(p), kind="application/zip")
        return Answer(b"not found: no such version", 404, "text/plain")
