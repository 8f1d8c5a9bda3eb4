"""slim_root.py - a small root file system for tests of virtual machines, made of the machine's programs: below 100 MB.

state(cordon) gives its directory, made once per build directory; a template of a server is made from it, or `cordon run
--level microvm --template DIR` uses it as it is."""
import fcntl
import os
import pathlib
import re
import shutil
import subprocess

FORMAT = 13  # raise it with every change of what is made here
PROGRAMS = """awk base64 basename bash busybox cat chgrp chmod chown cmp cp curl cut date dd df diff dirname du echo env expr false find getent getfattr
    git git-upload-pack grep gzip head hostname id ip kill ln ls md5sum mkdir mkfifo mknod mktemp mount mv nice nohup nproc od openssl paste pgrep pkill printenv printf
    ps pwd readlink realpath rm rmdir script sed seq setfattr setsid sh sha256sum sleep sort split stat stdbuf stty su sudo sync tail tar
    tee test timeout touch tr true truncate tty uname uniq unshare wc wget which whoami xargs yes""".split()
LIBRARIES = "libsqlite3.so.0", "libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2", "security/pam_permit.so"
SUDO = "/usr/libexec/sudo"  # its plugins
GIT = "/usr/lib/git-core"  # its transports
PERMIT = "".join(f"{kind} required pam_permit.so\n" for kind in ("auth", "account", "password", "session"))
FOLDERS = "dev etc/pam.d etc/ssl home/user mnt opt proc root run srv sys tmp usr/bin usr/lib/ssl usr/lib64 usr/sbin usr/share var/lib var/tmp".split()
FILES = {  # the same as in the host template where tests look at them
    "etc/passwd": "root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000:user:/home/user:/bin/bash\n"
                  "www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n"
                  "nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\ntty:x:5:\nsudo:x:27:user\nwww-data:x:33:\nuser:x:1000:\nnogroup:x:65534:\n",
    "etc/shadow": "root:*:19000:0:99999:7:::\nuser:*:19000:0:99999:7:::\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "etc/hosts": "127.0.0.1 localhost cordon\n::1 localhost ip6-localhost ip6-loopback cordon\n",
    "etc/hostname": "cordon\n",
    "etc/resolv.conf": "nameserver 198.18.0.1\noptions timeout:2 attempts:3\n",
    "etc/networks": "loopback 127.0.0.0\n",
    "etc/magic": "# no rules\n",
    "etc/sudoers": "Defaults env_reset, !fqdn\nroot ALL=(ALL:ALL) NOPASSWD: ALL\n%sudo ALL=(ALL:ALL) NOPASSWD: ALL\n",
    "etc/ssl/openssl.cnf": "[req]\ndistinguished_name = names\n[names]\n",
    "etc/shells": "/bin/sh\n/bin/bash\n",
    **{f"etc/pam.d/{name}": PERMIT for name in ("chfn", "chsh", "login", "other", "passwd", "su", "sudo")},
}
LINKS = {"usr/lib/ssl/openssl.cnf": "/etc/ssl/openssl.cnf", "etc/localtime": "/usr/share/zoneinfo/Etc/UTC",
         "run/secrets": "/dev/shm/secrets", "etc/machine-id": "/dev/machine-id", "etc/mtab": "/proc/self/mounts", "var/run": "/run"}


def add(root, path):
    """One file at its place; directories of the merged /usr are links."""
    to = root / re.sub(r"^/(bin|sbin|lib|lib64)/", r"/usr/\1/", str(path)).lstrip("/")
    to.parent.mkdir(parents=True, exist_ok=True)
    if not to.exists():
        shutil.copy2(os.path.realpath(path), to)


def add_program(root, path):
    add(root, path)
    libraries = subprocess.run(["ldd", os.path.realpath(path)], capture_output=True, text=True).stdout
    for library in re.findall(r"(/\S+) \(0x", libraries):
        add(root, library)


def add_git(root):
    """The programs by which repositories are reached; some are git itself under another name."""
    if not os.path.exists(GIT):
        return
    folder = root / GIT.lstrip("/")
    folder.mkdir(parents=True)
    for name in ("git-upload-pack", "git-receive-pack"):
        (folder / name).symlink_to("../../bin/git")
    add_program(root, f"{GIT}/git-remote-http")
    (folder / "git-remote-https").symlink_to("git-remote-http")


def fill(root):
    for folder in FOLDERS:
        (root / folder).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    for name, text in FILES.items():
        (root / name).write_text(text)
    (root / "etc/sudoers").chmod(0o440)
    (root / "etc/shadow").chmod(0o600)
    for name, target in LINKS.items():
        (root / name).symlink_to(target)
    for folder in ("tmp", "var/tmp"):
        (root / folder).chmod(0o1777)
    (root / "root").chmod(0o700)
    if os.geteuid() == 0:
        os.chown(root / "home/user", 1000, 1000)
    for name in PROGRAMS:
        if path := shutil.which(name, path="/usr/bin:/usr/sbin:/bin:/sbin"):
            add_program(root, path)
    for found in (path for name in LIBRARIES for path in pathlib.Path("/usr/lib").glob(f"*/{name}")):
        add(root, found)
    if os.path.exists(SUDO):
        shutil.copytree(SUDO, root / SUDO.lstrip("/"), dirs_exist_ok=True)
    add_git(root)
    python = pathlib.Path("/usr/bin/python3").resolve()
    add_program(root, python)
    (root / "usr/bin/python3").symlink_to(python.name)
    # Without compiled modules: with them, a guest of 128 MiB whose memory is all used reads them again and again, and the kernel kills
    # nothing for minutes (doc/levels.md, "memory").
    unwanted = shutil.ignore_patterns("test", "tests", "__pycache__", "idlelib", "config-*", "ensurepip", "lib2to3", "tkinter", "pydoc_data")
    shutil.copytree(f"/usr/lib/{python.name}", root / f"usr/lib/{python.name}", symlinks=True, ignore=unwanted)


def made(cordon, name, fill):
    """The directory of that name in the build directory; filled once."""
    folder = pathlib.Path(cordon).resolve().parent / name
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            being_made = pathlib.Path(f"{folder}.new")
            shutil.rmtree(being_made, ignore_errors=True)
            fill(being_made)
            being_made.rename(folder)
    return folder


def state(cordon):
    return made(cordon, f"slim-root-{FORMAT}", fill)
