"""registry_apt.py - the part of a fake registry that is an apt archive: one suite, one component, packages for all
architectures. Signed by a key of the test's own if gpg is there (`keyring()` is what Signed-By takes)."""
import email.utils
import gzip
import hashlib
import shutil
import subprocess
import tempfile
import time
import urllib.parse

import package_files as build
from registry_answer import Answer

SUITE = "/dists/test"


class Apt:
    hosts = {"index": "deb.example"}
    plain = True

    def __init__(self, registry):
        self.registry, self.home = registry, None

    def path(self, p):
        return f"/pool/main/{p.name[0]}/{p.name}/{build.deb_name(p)}"

    def data(self, p):
        return p.made("deb", lambda: build.deb(p))

    def stanza(self, p):
        data = self.data(p)
        return (build.deb_control(p) + f"Filename: {self.path(p)[1:]}\nSize: {len(data)}\n"
                f"SHA256: {p.digest or hashlib.sha256(data).hexdigest()}\n\n")

    def indexes(self, q):
        """{path below the suite: bytes}"""
        text = "".join(self.stanza(p) for p in self.registry.visible("apt", q)).encode()
        made = {}
        for arch in ("amd64", "arm64", "all"):
            made[f"main/binary-{arch}/Packages"] = text if arch != "all" else b""
            made[f"main/binary-{arch}/Packages.gz"] = gzip.compress(made[f"main/binary-{arch}/Packages"], mtime=0)
        return made

    def release(self, q):
        lines = ["Origin: test", "Suite: test", "Codename: test", "Components: main", "Architectures: amd64 arm64 all",
                 "Acquire-By-Hash: yes", "Date: " + email.utils.formatdate(time.time() - 60, usegmt=True), "SHA256:"]
        lines += [f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}" for name, data in self.indexes(q).items()]
        return ("\n".join(lines) + "\n").encode()

    # ---- the signature

    def gpg(self, *words, data=b""):
        if self.home is None:
            self.home = tempfile.TemporaryDirectory()
            self.gpg("--passphrase", "", "--quick-gen-key", "test <t@t.example>", "ed25519", "sign", "never")
        return subprocess.run(["gpg", "--homedir", self.home.name, "--batch", "--no-tty", "--pinentry-mode", "loopback", *words],
                              input=data, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout

    def keyring(self):
        """The public key, for a file that Signed-By names; b"" where there is no gpg."""
        return self.gpg("--export") if shutil.which("gpg") and shutil.which("gpg-agent") else b""

    def close(self):
        if self.home is not None:
            subprocess.run(["gpgconf", "--homedir", self.home.name, "--kill", "all"], check=False, stderr=subprocess.DEVNULL)
            self.home.cleanup()

    def answer(self, q):
        if q.path == SUITE + "/Release":
            return Answer(self.release(q), kind="text/plain")
        if q.path == SUITE + "/InRelease" and self.home is not None:
            return Answer(self.gpg("--passphrase", "", "--clearsign", data=self.release(q)), kind="text/plain")
        for name, data in self.indexes(q).items():
            folder, digest = name.rsplit("/", 1)[0], hashlib.sha256(data).hexdigest()
            if q.path in (f"{SUITE}/{name}", f"{SUITE}/{folder}/by-hash/SHA256/{digest}"):
                return Answer(data)
        for p in self.registry.visible("apt", q):
            if self.path(p) == urllib.parse.unquote(q.path):
                return Answer(self.data(p), kind="application/vnd.debian.binary-package")
        return Answer(b"not found", 404, "text/plain")
