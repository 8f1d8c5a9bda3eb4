#!/usr/bin/python3 -B
"""Goal: the packages of `make deb` and `make dist-bin` install Cordon without a compiler: programs that find each other, the
users, the unit; an upgrade and a removal keep state, a purge removes it. In a copy of this machine's root that nobody else sees.

    test_package.py CORDON [name ...]
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
from checks import Skip, check, equal, has  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve().parent
SOURCE = pathlib.Path(__file__).resolve().parents[2]
USERS = ("cordon", "cordon-net", "cordon-cache", "cordon-notary")

# Mounts of a namespace of its own: what is written goes to memory. Then each line of standard input is run inside.
INSIDE = r"""
set -eu
mount -t tmpfs none "$1"
mkdir "$1/upper" "$1/work" "$1/root"
for d in var/cache/cordon var/lib/cordon; do # those of the machine are not seen
	mkdir -p "$1/upper/$d"
	python3 -c 'import os, sys; os.setxattr(sys.argv[1], "trusted.overlay.opaque", b"y")' "$1/upper/$d"
done
chmod 755 "$1/upper" "$1/upper/var" "$1"/upper/var/*
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" none "$1/root"
mount -t proc none "$1/root/proc"
mount --bind /dev "$1/root/dev"
mount -t tmpfs none "$1/root/run"
mkdir "$1/root/packages"
cp "$2"/* "$1/root/packages"
exec chroot "$1/root" bash
"""


class Root:
    def __init__(self, packages):
        self.folder = tempfile.mkdtemp(prefix="cordon-package-")
        self.process = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-c", INSIDE, "sh", self.folder, packages],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.process.stdin.close()
        self.process.wait(60)
        os.rmdir(self.folder)

    def run(self, line, status=0):
        self.process.stdin.write(f"({line}) </dev/null 2>&1; s=$?; echo; echo @@ends $s\n")
        self.process.stdin.flush()
        said = []
        while not (said and said[-1].startswith("@@ends ")):
            said.append(self.process.stdout.readline())
            check(said[-1], f"{line}: {said}")
        equal(int(said[-1][7:]), status, f"{line}: {''.join(said)}")
        return "".join(said[:-1]).strip()


def made(folder, kind, version):
    got = subprocess.run([SOURCE / "tools/package", kind, BUILD, folder], env={**os.environ, "VERSION": version}, capture_output=True, text=True)
    equal(got.returncode, 0, got.stderr)
    return pathlib.Path(got.stdout.strip())


def test_packages():
    if os.getuid() != 0 or not shutil.which("dpkg-deb") or not shutil.which("meson"):
        raise Skip("needs root, dpkg-deb and meson")
    version = subprocess.run([BUILD / "cordon", "--version"], capture_output=True, text=True, check=True).stdout
    with tempfile.TemporaryDirectory(prefix="cordon-package-") as folder:
        one, two = made(folder, "deb", "0.1~one"), made(folder, "deb", "0.1~two")
        tar = made(folder, "tar", "0.1")
        with Root(folder) as r:
            r.run("for u in " + " ".join(USERS) + "; do ! getent passwd $u >/dev/null || userdel $u; done; rm -rf /var/lib/cordon /var/lib/cordon.made-by-make-up /usr/local/bin/cordon")
            has(r.run(f"dpkg -i /packages/{one.name}"), "systemctl enable --now cordon", "the next step")
            for user in USERS:
                r.run(f"getent passwd {user}")
            equal(r.run("/usr/bin/cordon --version"), version.strip())
            has(r.run("/usr/bin/cordon ls --server http://127.0.0.1:1", 5), "is the server running", "the client beside it")
            has(r.run("/usr/bin/cordon serve --check"), "state_dir = /var/lib/cordon")
            has(r.run("cat /usr/lib/systemd/system/cordon.service"), "ExecStart=/usr/bin/cordon serve")
            has(r.run("zcat /usr/share/man/man1/cordon.1.gz"), ".TH")
            r.run("test -f /usr/share/bash-completion/completions/cordon -a -f /usr/share/zsh/vendor-completions/_cordon")
            r.run("mkdir -p /var/lib/cordon /etc/cordon && touch /var/lib/cordon/kept /etc/cordon/cordon.conf")

            check("Next:" not in r.run(f"dpkg -i /packages/{two.name}"), "told again at an upgrade")
            equal(r.run("dpkg-query -W -f '${Version}' cordon"), "0.1~two")
            r.run("test -f /var/lib/cordon/kept")

            # The server's user may write there, and removal is root's.
            r.run("mkdir -p /run/cordon-server/cells && touch /run/cordon-server/cells/--help.sock '/run/cordon-server/cells/a --help.sock'")
            said = r.run("dpkg -r cordon")
            check("--clean" not in said, f"names of files became options: {said}")
            r.run("test ! -e /usr/bin/cordon -a ! -e /usr/libexec/cordon -a -f /var/lib/cordon/kept -a -f /etc/cordon/cordon.conf")
            r.run("getent passwd cordon")

            r.run("dpkg -P cordon")
            r.run("test ! -e /var/lib/cordon -a ! -e /etc/cordon -a ! -e /var/lib/cordon.made-by-make-up")
            for user in USERS:
                r.run(f"getent passwd {user}", 2)

            r.run(f"tar -C /usr/local --strip-components=1 -xJf /packages/{tar.name}")
            equal(r.run("/usr/local/bin/cordon --version"), version.strip())
            has(r.run("cat /usr/local/lib/systemd/system/cordon.service"), "ExecStart=/usr/local/bin/cordon serve")


def main():
    print("1..1", flush=True)
    try:
        test_packages()
        print("ok 1 - packages")
    except Skip as e:
        print(f"ok 1 - packages # SKIP {e}")
    except Exception as e:  # noqa: BLE001 # a failure of any kind is told as one
        print(f"not ok 1 - packages\n# {e}")
        return 1
    return 0


sys.exit(main())
