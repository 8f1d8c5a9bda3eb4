#!/usr/bin/python3 -B
"""test_files.py - the cell's file system: what it shows, mounts, the read-only root, changes, programs."""
import contextlib
import os
import resource
import secrets
import shutil
import socket
import stat
import subprocess
import tempfile
import threading

import tap
from tap import Skip, check, equal, has, python, run

OWNER = 54399  # nobody's


@contextlib.contextmanager
def folder(owner=0, mode=0o755):
    """A directory to mount, with a file in it, owned by somebody."""
    with tempfile.TemporaryDirectory() as outer:
        os.chmod(outer, 0o755)
        inner = os.path.join(outer, "src")
        os.mkdir(inner)
        os.chmod(inner, mode)
        with open(os.path.join(inner, "file"), "w") as f:
            f.write("content\n")
        for path in (inner, f.name):
            os.chown(path, owner, owner)
        yield inner


def read(path):
    with open(path) as f:
        return f.read()


# --- mounts -----------------------------------------------------------------------------------------


def test_mount_is_read_only_unless_asked():
    with folder() as src:
        for mode in ("", ":ro"):
            for user in ("user", "root"):
                d = run(
                    "--user",
                    user,
                    "--mount",
                    f"{src}:/data{mode}",
                    cmd="cat /data/file; touch /data/x || chmod 777 /data/file || rm /data/file || echo all refused",
                ).exits(0)
                equal(d.text, "content\nall refused\n")
                has(d.errors, "Read-only file system")
        equal(os.listdir(src), ["file"])


def test_mount_writable():
    for owner in (0, OWNER):
        for options in ([], ["--user", "root"], ["--profile", "locked"]):
            with folder(owner) as src:
                d = run(
                    *options,
                    "--mount",
                    f"{src}:/data:rw",
                    cmd="echo more >> /data/file; mkdir /data/d; echo new > /data/d/f; stat -c '%u %g' /data/d/f; id -u",
                )
                own, gid, uid = d.exits(0).text.split()
                equal((own, gid), (uid, uid), "who owns it inside")
                equal(read(f"{src}/file"), "content\nmore\n")
                for name in ("file", "d", "d/f"):
                    st = os.lstat(os.path.join(src, name))
                    equal((st.st_uid, st.st_gid), (owner, owner), f"owner of {name} on the host")


def test_mount_of_others_files_stays_theirs():
    """What the source's owner could not read or change, the cell cannot either, not even its root."""
    with folder(OWNER) as src:
        secret = os.path.join(src, "secret")
        with open(secret, "w") as f:
            f.write("x")
        os.chmod(secret, 0o600)
        d = run(
            "--mount",
            f"{src}:/data:rw",
            cmd="cat /data/secret || sudo cat /data/secret || sudo chown user /data/secret || sudo chmod 777 /data/secret "
            "|| sudo touch /data/by-root || echo all refused",
        ).exits(0)
        equal(d.text, "all refused\n")
        equal(sorted(os.listdir(src)), ["file", "secret"])
        st = os.lstat(secret)
        equal((st.st_uid, stat.S_IMODE(st.st_mode)), (0, 0o600))


def test_mount_refuses_set_id_files():
    code = (
        "import os,ctypes\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "def t(name, f):\n"
        "    try: f()\n"
        "    except OSError as e: print(name, e.errno)\n"
        "    else: print(name, 'WORKED')\n"
        "t('chmod', lambda: os.chmod('/data/file', 0o4755))\n"
        "t('chmod-g', lambda: os.chmod('/data/file', 0o2755))\n"
        "fd = os.open('/data/file', os.O_RDWR)\n"
        "t('fchmod', lambda: os.fchmod(fd, 0o6755))\n"
        "t('create', lambda: os.open('/data/new', os.O_CREAT | os.O_WRONLY, 0o4755))\n"
        "t('mknod', lambda: os.mknod('/data/node', 0o104755))\n"
        "t('plain', lambda: os.chmod('/data/file', 0o755))\n"
    )
    for options in (["--user", "user"], ["--user", "root"], ["--profile", "locked"]):
        with folder() as src:
            d = python(code, *options, "--mount", f"{src}:/data:rw").exits(0)
            equal(
                d.text.splitlines(),
                ["chmod 1", "chmod-g 1", "fchmod 1", "create 1", "mknod 1", "plain WORKED"],
                options,
            )
            for name in os.listdir(src):
                check(not os.lstat(os.path.join(src, name)).st_mode & 0o6000, f"{name} has a set-id bit on the host")


def test_mount_never_runs_set_id_files_or_devices():
    with folder() as src:
        shutil.copy("/usr/bin/id", os.path.join(src, "suid"))
        os.chmod(os.path.join(src, "suid"), 0o4755)
        os.mknod(os.path.join(src, "null"), 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        d = run("--mount", f"{src}:/data", cmd="/data/suid -u; cat /data/null || echo no device").exits(0)
        equal(d.text, "1000\nno device\n")


def test_mount_of_a_link():
    with folder() as src:
        link = src + "-link"
        os.symlink(src, link)
        equal(
            run("--mount", f"{link}:/data", cmd="cat /data/file; test -L /data || echo real").exits(0).text,
            "content\nreal\n",
        )
        filelink = src + "-filelink"
        os.symlink("src/file", filelink)
        equal(
            run("--mount", f"{filelink}:/tmp/f", cmd="cat /tmp/f; test -L /tmp/f || echo real").exits(0).text,
            "content\nreal\n",
        )
        dangling = src + "-dangling"
        os.symlink("/no/such", dangling)
        run("--mount", f"{dangling}:/data", cmd=["true"]).refused("--mount", "No such file")


def test_mount_through_links_of_the_cell():
    """Links on the way to DST are those of the cell and end in the cell."""
    with folder() as src:
        for at, real in (
            ("/var/run/x", "/run/x"),
            ("/var/run/a/b", "/run/a/b"),
            ("/var/run", "/run"),
            ("/lib/cordon-x", "/usr/lib/cordon-x"),
        ):
            equal(
                run("--mount", f"{src}:{at}", cmd=f"cat {real}/file; cat {at}/file").exits(0).text, "content\n" * 2, at
            )
        check(not os.path.exists("/usr/lib/cordon-x"), "made on the host")
        # A file over a link to a file: /etc/localtime leads into /usr.
        equal(run("--mount", f"{src}/file:/etc/localtime", cmd="cat /etc/localtime").exits(0).text, "content\n")


def test_mount_through_hostile_links_of_another_mount():
    """The first source brings links along that point out of it; the second is mounted through them."""
    with folder() as src, folder() as evil:
        mark = "cordon-mark-" + secrets.token_hex(4)
        os.symlink("/etc", os.path.join(evil, "abs"))
        os.symlink("../../../../../../../etc", os.path.join(evil, "rel"))
        os.symlink("/proc/self/root/etc", os.path.join(evil, "proc"))
        os.symlink("/proc/1/root", os.path.join(evil, "root"))
        os.symlink("loop", os.path.join(evil, "loop"))
        for name in ("abs", "rel"):
            d = run("--mount", f"{evil}:/evil:rw", "--mount", f"{src}:/evil/{name}/{mark}", cmd=f"cat /etc/{mark}/file")
            equal(d.exits(0).text, "content\n", name)
        for name in ("proc", "root", "loop"):
            d = run("--mount", f"{evil}:/evil:rw", "--mount", f"{src}:/evil/{name}/{mark}", cmd=["true"]).exits(125)
            has(d.errors, f"/evil/{name}", "the message")
        for where in ("/etc", "/", evil):
            check(not os.path.lexists(os.path.join(where, mark)), f"made in {where} of the host")


def test_mount_places():
    with folder() as src:
        for at in (
            "/mnt",
            "/data",
            "/a/b/c/d",
            "/home/user/in",
            "/usr/local/new",
            "/tmp/x/",
            "/opt/ with space",
            "/x:y",
            "/x:ro:y",
        ):
            d = run("--mount", f"{src}:{at}:ro", cmd=["cat", f"{at.rstrip('/')}/file"])
            equal(d.exits(0).text, "content\n", at)
        # Over something that is there: hidden, not mixed.
        equal(run("--user", "1000", "--mount", f"{src}:/etc", cmd=["ls", "/etc"]).exits(0).text, "file\n")
        equal(run("--mount", f"{src}/file:/etc/hosts", cmd=["cat", "/etc/hosts"]).exits(0).text, "content\n")
        equal(
            run("--mount", f"{src}/file:/new/place/f:rw", cmd="echo x > /new/place/f; cat /new/place/f").exits(0).text,
            "x\n",
        )
        equal(read(f"{src}/file"), "x\n")


def test_mount_at_a_path_with_dots():
    """Done as it says, or refused by name; never outside of the cell."""
    with folder() as src:
        for at, real in (
            ("/bin/../data", "/usr/data"),
            ("/tmp/../../../../up", "/up"),
            ("/srv//x", "/srv/x"),
            ("/srv/./x", "/srv/x"),
            ("/srv/..", None),
            ("/..", None),
        ):
            d = run("--mount", f"{src}:{at}", cmd=["cat", f"{real}/file"])
            if d.rc != 0 or real is None:
                d.refused("--mount", at)


def test_mounts_of_a_machine_that_shares_them():
    """systemd makes every mount shared; nothing of a cell may appear on the machine by that."""
    script = """
        mount --make-rshared /
        mkdir -p $2/a/sub $2/b
        before=$(cat /proc/self/mountinfo)
        $1 run -- true && $1 run --mount $2/a:/data --mount $2/b:/data/sub -- true || exit 9
        test "$before" = "$(cat /proc/self/mountinfo)" """
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder_:
        done = subprocess.run(
            ["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh", tap.PROGRAM, folder_],
            capture_output=True,
            timeout=60,
        )
    equal(done.returncode, 0, done.stderr)


def test_mount_in_proc_or_dev():
    with folder() as src:
        for place in ("/proc", "/proc/sys", "/dev", "/dev/shm/x"):
            has(run("--mount", f"{src}:{place}", cmd="true").exits(125).err.decode(), "--mount", place)
        # a link in a mounted tree leads there, and the real one is on top of it
        os.symlink("/proc", f"{src}/link")
        d = run("--mount", f"{src}:/m", "--mount", f"{src}:/m/link", cmd="cat /proc/1/comm")
        check(d.rc == 125 or d.text == "cordon-init\n", f"{d.rc} {d.text}")


def test_a_directory_from_outside_opens_nothing():
    """The second wall, Landlock: should a descriptor of the machine's ever turn up in a cell, here through a
    socket of a mounted directory, nothing can be opened by it."""
    if run(cmd="true", result=True).result["restrictions"]["landlock"] == 0:
        raise Skip("this kernel has no Landlock")
    code = """
import os, socket
s = socket.socket(socket.AF_UNIX)
s.connect("/m/socket")
_, fds, _, _ = socket.recv_fds(s, 1, 1)
try: print(os.read(os.open("file", os.O_RDONLY, dir_fd=fds[0]), 99))
except OSError as e: print(e.strerror)
"""
    with folder() as src, socket.socket(socket.AF_UNIX) as listener:
        os.chmod(src, 0o755)
        listener.bind(f"{src}/socket")
        os.chmod(f"{src}/socket", 0o777)
        listener.listen()
        listener.settimeout(20)

        def give():
            peer, _ = listener.accept()
            with peer:
                fd = os.open(src, os.O_RDONLY)
                socket.send_fds(peer, [b"x"], [fd])
                os.close(fd)

        giver = threading.Thread(target=give)
        giver.start()
        d = python(code, "--mount", f"{src}:/m").exits(0)
        giver.join()
        equal(d.text, "Permission denied\n")


def test_mount_eight_and_nested():
    with folder() as src:
        options = [w for i in range(7) for w in ("--mount", f"{src}:/m{i}")]
        equal(run(*options, "--mount", f"{src}/file:/m0/file", cmd="cat /m*/file").exits(0).text, "content\n" * 7)


def test_mount_source_with_a_colon():
    with tempfile.TemporaryDirectory() as outer:
        os.chmod(outer, 0o755)
        for name in ("a:b", "a:ro", "c:d:e", "sp ace", "new\nline", "\u00e9"):
            path = os.path.join(outer, name)
            os.mkdir(path)
            os.chmod(path, 0o755)
            with open(os.path.join(path, "f"), "w") as f:
                f.write(name)
            equal(run("--mount", f"{path}:/data", cmd=["cat", "/data/f"]).exits(0).text, name)


def test_mount_of_a_relative_source():
    with folder() as src:
        equal(
            run("--mount", "src:/data", cmd=["cat", "/data/file"], cwd=os.path.dirname(src)).exits(0).text, "content\n"
        )
        equal(run("--mount", ".:/data", cmd=["cat", "/data/file"], cwd=src).exits(0).text, "content\n")


def test_mount_includes_what_is_mounted_below():
    """A recursive copy, and read-only all the way down."""
    with folder() as src, folder() as other:
        os.mkdir(os.path.join(src, "sub"))
        tap.bind(other, os.path.join(src, "sub"))
        try:
            d = run("--mount", f"{src}:/data", cmd="cat /data/sub/file; touch /data/sub/x || echo refused").exits(0)
            equal(d.text, "content\nrefused\n")
            equal(os.listdir(other), ["file"])
        finally:
            tap.unbind(os.path.join(src, "sub"))


def test_mount_in_the_locked_profile():
    with folder(OWNER, 0o700) as src:
        equal(
            run("--profile", "locked", "--mount", f"{src}:/data", cmd="cat /data/file; touch /data/x || echo refused")
            .exits(0)
            .text,
            "content\nrefused\n",
        )


# --- read-only root ---------------------------------------------------------------------------------


def test_read_only_root():
    script = (
        "for d in / /etc /usr /usr/bin /var /var/tmp /opt /root /home /srv /mnt /dev; do touch $d/x 2>/dev/null && echo wrote $d; "
        "done; for d in /tmp /run /dev/shm /home/user; do touch $d/x || echo cannot write $d; done; echo end"
    )
    equal(run("--read-only", "--user", "root", cmd=script).exits(0).text, "end\n")
    equal(
        run(
            "--read-only",
            cmd="for d in /tmp /dev/shm /home/user; do touch $d/x || echo $d; done; stat -c %U:%a ~ /tmp /dev/shm",
        )
        .exits(0)
        .text,
        "user:755\nroot:1777\nroot:1777\n",
    )
    equal(run("--read-only", "--profile", "locked", cmd="touch ~/x /tmp/x && echo ok").exits(0).text, "ok\n")


def test_read_only_root_cannot_be_remounted():
    d = run(
        "--read-only",
        "--user",
        "root",
        cmd="mount -o remount,rw / || mount --bind /tmp /etc || touch /etc/x || echo refused",
    )
    has(d.exits(0).text, "refused")


def test_read_only_with_mounts():
    with folder() as src:
        equal(run("--read-only", "--mount", f"{src}:/mnt", cmd=["cat", "/mnt/file"]).exits(0).text, "content\n")
        equal(run("--read-only", "--mount", f"{src}:/tmp/a/b", cmd=["cat", "/tmp/a/b/file"]).exits(0).text, "content\n")
        d = run("--read-only", "--mount", f"{src}:/data", cmd=["cat", "/data/file"])
        if d.rc != 0:
            d.refused("/data", "Read-only")


# --- changes ----------------------------------------------------------------------------------------


def changes(script, *options, user="root", want_rc=0):
    """{path: (word, mode)} of --diff, after the command's own output has been told apart."""
    d = run("--diff", "--user", user, *options, cmd=script).exits(want_rc)
    found = {}
    for line in d.text.splitlines():
        word, mode, size, path = line.split(None, 3)
        check(path not in found, f"{path} twice")
        check(word in ("added", "changed", "deleted", "unread") and size.isdigit(), line)
        found[path] = (word, mode, int(size))
    return found


def test_diff_of_nothing():
    equal(changes("true"), {})
    equal(changes("cat /etc/passwd > /dev/null; ls -lR /etc > /dev/null; test -e /usr/bin/env"), {})
    equal(changes("touch /tmp/x; rm /tmp/x; mkdir /etc/d; rmdir /etc/d"), {})


def test_diff_added():
    equal(
        changes(
            "cd /opt; echo 12345 > f; mkdir d; echo > d/g; ln -s /x l; mkfifo p; chmod 4751 f; echo > /usr/n; echo > /dev/shm/s"
        ),
        {
            "/opt/f": ("added", "-rwsr-x--x", 6),
            "/opt/d": ("added", "drwxr-xr-x", 0),
            "/opt/d/g": ("added", "-rw-r--r--", 1),
            "/opt/l": ("added", "lrwxrwxrwx", 2),
            "/opt/p": ("added", "prw-r--r--", 0),
            "/usr/n": ("added", "-rw-r--r--", 1),
            "/dev/shm/s": ("added", "-rw-r--r--", 1),
        },
    )


def test_diff_changed():
    got = changes("echo x >> /etc/passwd; chmod 600 /etc/group; chmod 700 /opt; echo > /etc/hosts; touch /etc/shells")
    equal(
        {p: w for p, (w, *_) in got.items()},
        dict.fromkeys(["/etc/passwd", "/etc/group", "/opt", "/etc/hosts", "/etc/shells"], "changed"),
    )
    equal(got["/etc/group"][1], "-rw-------")


def test_diff_changed_owner():
    equal(
        {p: w for p, (w, *_) in changes("chown user /etc/passwd; chgrp user /opt").items()},
        {"/etc/passwd": "changed", "/opt": "changed"},
    )


def test_diff_is_not_fooled_by_times():
    """Other bytes with the old size and the old time are a change all the same."""
    script = "cp -p /etc/hosts /tmp/h; tr l L < /tmp/h > /etc/hosts; touch -r /tmp/h /etc/hosts; rm /tmp/h; grep -q LocaL /etc/hosts"
    equal({p: w for p, (w, *_) in changes(script).items()}, {"/etc/hosts": "changed"})


def test_diff_deleted():
    got = changes("rm /etc/hosts; rm -rf /etc/pam.d; rmdir /srv; rm /usr/bin/env; rm /etc/localtime")
    equal(
        {p: w for p, (w, *_) in got.items()},
        dict.fromkeys(["/etc/hosts", "/etc/pam.d", "/srv", "/usr/bin/env", "/etc/localtime"], "deleted"),
    )


def test_diff_renamed():
    got = changes("mv /etc/hosts /etc/h2; mv /etc/pam.d /opt/pam; mv /opt /opt2")
    words = {p: w for p, (w, *_) in got.items()}
    for path, word in (
        ("/etc/hosts", "deleted"),
        ("/etc/h2", "added"),
        ("/etc/pam.d", "deleted"),
        ("/opt", "deleted"),
        ("/opt2", "added"),
        ("/opt2/pam", "added"),
        ("/opt2/pam/sudo", "added"),
    ):
        equal(words.get(path), word, path)


def test_diff_of_a_directory_made_again():
    """Opaque: the new directory hides what the old one had."""
    got = changes("rm -rf /etc/pam.d; mkdir /etc/pam.d; echo > /etc/pam.d/new; echo x > /etc/pam.d/sudo")
    words = {p: w for p, (w, *_) in got.items()}
    equal(words.pop("/etc/pam.d/new"), "added")
    equal(words.pop("/etc/pam.d/sudo"), "changed")
    check(words.pop("/etc/pam.d", "changed") == "changed", "/etc/pam.d")
    check(
        len(words) >= 5 and set(words.values()) == {"deleted"} and all(p.startswith("/etc/pam.d/") for p in words),
        words,
    )


def test_diff_type_changes():
    got = changes(
        "rm /etc/hosts; mkdir /etc/hosts; echo > /etc/hosts/f; rm -rf /etc/pam.d; echo > /etc/pam.d; "
        "rm /etc/localtime; echo > /etc/localtime"
    )
    words = {p: w for p, (w, *_) in got.items()}
    equal(
        (words["/etc/hosts"], words["/etc/hosts/f"], words["/etc/pam.d"], words["/etc/localtime"]),
        ("changed", "added", "changed", "changed"),
    )


def test_diff_odd_names():
    code = (
        "import os\nos.chdir('/opt')\n"
        "for n in (b'new\\nline', b'esc\\x1b[2J', b'tab\\t', b'back\\\\slash', b'\\xff\\xfe', b'\\xc2\\x9b', '\\u00e9'.encode(), b' ', "
        "b'x' * 255, b'added    -rw', b'\\x7f'):\n"
        "    open(n, 'w').close()\n"
    )
    d = python(code, "--diff", "--user", "root").exits(0)
    check(all(b >= 0x20 or b == 10 for b in d.out) and b"\x7f" not in d.out, "a control byte was printed")
    check(b"\xc2\x9b" not in d.out and b"\xff" not in d.out, "a C1 control or a broken character was printed")
    names = sorted(
        line.split(None, 3)[3][len("/opt/") :] if not line.endswith("/opt/ ") else " " for line in d.text.splitlines()
    )
    equal(
        names,
        sorted(
            [
                "new\\x0aline",
                "esc\\x1b[2J",
                "tab\\x09",
                "back\\x5cslash",
                "\\xff\\xfe",
                "\\xc2\\x9b",
                "\u00e9",
                " ",
                "x" * 255,
                "added    -rw",
                "\\x7f",
            ]
        ),
    )


def test_diff_with_read_only_root():
    got = changes("echo > /tmp/t; echo > /run/r; echo > /dev/shm/s; mkdir /home/user/d", "--read-only")
    equal(
        {p: w for p, (w, *_) in got.items()}, dict.fromkeys(["/tmp/t", "/run/r", "/dev/shm/s", "/home/user/d"], "added")
    )


def test_diff_leaves_mounts_out():
    with folder() as src:
        got = changes("echo > /data/new; echo > /opt/x", "--mount", f"{src}:/data:rw")
        got.pop("/data", None)  # the place itself was made for the mount
        equal(list(got), ["/opt/x"])


def test_diff_comes_after_all_output():
    for i in range(10):
        d = run("--diff", cmd="echo first; (sleep 0.05; echo > late; sleep 1000) & sleep 0.1; echo last; exit 3").exits(
            3
        )
        lines = d.text.splitlines()
        equal(lines[:2], ["first", "last"])
        check(len(lines) == 3 and lines[2].endswith(" /home/user/late"), lines)


def test_diff_after_every_end():
    for options, script, code in (
        ([], "echo > f; kill -9 $$", 137),
        (["--timeout", "200ms"], "echo > f; sleep 1000", 124),
        (["--profile", "locked"], "echo > f", 0),
    ):
        d = run("--diff", *options, cmd=script).exits(code)
        check(d.text.endswith(" /home/user/f\n"), f"{script}: {d.text!r}")


def test_diff_of_many_files():
    d = run(
        "--diff", cmd=["python3", "-c", "import os\nos.mkdir('d')\nfor i in range(20000): open(f'd/{i}', 'w').close()"]
    ).exits(0)
    equal(len(d.text.splitlines()), 20001)


def test_diff_of_what_nobody_may_read():
    got = changes("mkdir d; echo > d/f; chmod 0 d/f d", user="user")
    equal({p: w for p, (w, *_) in got.items()}, {"/home/user/d": "added", "/home/user/d/f": "added"})


# --- deep trees -------------------------------------------------------------------------------------

DEEP = (
    "import os\nos.chdir('{where}')\n"
    "for i in range({depth}):\n"
    "    os.mkdir('d'); os.chdir('d')\n"
    "open('bottom', 'w').close()\n"
)


def test_a_deep_tree_does_not_stop_the_end():
    for where in ("/home/user", "/dev/shm", "/var/tmp"):
        python(DEEP.format(where=where, depth=2000), timeout=30).exits(0)
    python(DEEP.format(where="/home/user", depth=4000), timeout=30).exits(0)


def test_a_deep_tree_is_unread_below_some_depth():
    for where in ("/home/user", "/dev/shm"):
        d = python(
            DEEP.format(where=where, depth=2000) + "os.chdir('/tmp'); open('other', 'w').close()", "--diff"
        ).exits(0)
        lines = d.text.splitlines()
        unread = [line for line in lines if line.startswith("unread")]
        equal(len(unread), 1, f"lines that say so in {where}")
        check(unread[0].endswith("/d/d/d/d"), unread[0][-60:])
        check(any(line.endswith(" /tmp/other") for line in lines), "what is beside the deep tree is missing")
        check(len(lines) > 200, f"only {len(lines)} lines")


def test_a_deep_tree_with_few_descriptors():
    """The caller may open 1024 files and no more, as is usual."""

    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))

    d = python(
        DEEP.format(where="/home/user", depth=900) + "os.chdir('/tmp'); open('other', 'w').close()",
        "--diff",
        preexec_fn=few,
    ).exits(0)
    check(" /tmp/other\n" in d.text, "what is beside the deep tree is missing")
    check("unread" in d.text or len(d.text.splitlines()) >= 902, "cut without a word")


def test_a_long_path():
    code = (
        "import os\nos.chdir('/home/user')\n"
        "for i in range(100):\n"
        "    os.mkdir('n' * 250); os.chdir('n' * 250)\n"
        "open('bottom', 'w').close()\n"
    )
    d = python(code, "--diff").exits(0)
    equal(len(d.text.splitlines()), 101)


# --- what the cell shows ----------------------------------------------------------------------------


def test_nothing_of_the_host_is_visible():
    name = "cordon-canary-" + secrets.token_hex(6)
    made = []
    try:
        for where in (
            "/etc",
            "/home",
            "/root",
            "/var",
            "/var/lib",
            "/var/tmp",
            "/opt",
            "/run",
            "/srv",
            "/mnt",
            "/media",
            "/tmp",
            "/",
            "/boot",
            "/dev/shm",
        ):
            if os.path.isdir(where):
                path = os.path.join(where, name)
                with open(path, "w") as f:
                    f.write("canary")
                made.append(path)
        d = run(
            "--user",
            "root",
            cmd=f"find / -path /proc -prune -o -name '{name}' -print; ls /; ls /sys /boot 2>/dev/null; "
            "ls -A /home /root /opt /srv /mnt /media /var/lib /tmp",
        )
        check(name not in d.text, f"seen in the cell: {d.text}")
        for path in made:
            for link in ("/proc/1/root", "/proc/self/root", "/proc/1/cwd"):
                d = run("--user", "root", cmd=["cat", link + path])
                check(d.rc != 0 and b"canary" not in d.out, f"{link}{path} can be read")
                break
    finally:
        for path in made:
            os.unlink(path)
    equal(set(os.listdir("/")) >= {"usr", "etc"}, True)


def test_the_root_directory():
    d = run(
        "--user", "root", cmd="ls -A /; ls -A /sys /boot /lost+found 2>/dev/null; ls -A /home /root /opt /srv /mnt"
    ).exits(0)
    top = set(d.text.split("/home:")[0].split())
    check(
        top
        <= {
            "bin",
            "sbin",
            "lib",
            "lib32",
            "lib64",
            "libx32",
            "dev",
            "etc",
            "home",
            "media",
            "mnt",
            "opt",
            "proc",
            "root",
            "run",
            "srv",
            "sys",
            "tmp",
            "usr",
            "var",
            "/sys:",
        },
        f"more than expected in /: {top}",
    )
    equal(d.text.split("/home:")[1].split(), ["user", "/mnt:", "/opt:", "cordon", "/root:", "/srv:"])


def test_passwd_and_homes():
    d = run(
        cmd="getent passwd user root; stat -c '%U %G %a' /home/user /root /tmp /etc/passwd /etc/shadow /etc/sudoers; "
        "test -r /etc/shadow || echo unreadable"
    ).exits(0)
    equal(
        d.text.splitlines(),
        [
            "user:x:1000:1000:user:/home/user:/bin/bash",
            "root:x:0:0:root:/root:/bin/bash",
            "user user 755",
            "root root 700",
            "root root 1777",
            "root root 644",
            "root root 600",
            "root root 440",
            "unreadable",
        ],
    )
    with open("/etc/passwd") as f:
        hosts = {line.split(":")[0] for line in f}
    inside = {line.split(":")[0] for line in run(cmd=["cat", "/etc/passwd"]).text.splitlines()}
    check(inside <= {"root", "daemon", "bin", "sys", "man", "www-data", "_apt", "user", "nobody"}, f"{inside & hosts}")


def test_usr_belongs_to_root_and_can_be_written_by_it():
    d = run(
        cmd="stat -c %U:%G /usr /usr/bin/env; touch /usr/bin/x || echo refused; sudo touch /usr/bin/x && ls -l /usr/bin/x | wc -l"
    )
    equal(d.exits(0).text, "root:root\nroot:root\nrefused\n1\n")
    check(not os.path.exists("/usr/bin/x"), "made on the host")


def test_sudo():
    if not os.path.exists("/usr/bin/sudo"):
        raise Skip("no sudo on this machine")
    for name in ("cordon", "other-name"):
        d = run(
            "--hostname", name, cmd="sudo id -u; sudo -u www-data id -un; sudo sh -c 'echo hi > /etc/x; cat /etc/x'"
        ).exits(0)
        equal((d.text, d.errors), ("0\nwww-data\nhi\n", ""), f"host name {name}")
    run("--profile", "locked", cmd="sudo -n true && echo became root").exits(1)
    if os.path.exists("/usr/sbin/useradd"):
        d = run(cmd="sudo useradd -m bob && sudo -u bob sh -c 'cd; pwd; touch x; stat -c %U x'").exits(0)
        equal(d.text, "/home/bob\nbob\n")


def need(program):
    if not os.path.exists(f"/usr/bin/{program}"):
        raise Skip(f"no {program} on this machine")


def test_python_works():
    need("python3")
    code = "import ssl,sqlite3,json,multiprocessing as m\nwith m.Pool(2) as p: print(sum(p.map(abs, range(10))))"
    equal(python(code).exits(0).text, "45\n")
    equal(
        python("import threading; t=threading.Thread(target=print, args=('t',)); t.start()", "--profile", "locked")
        .exits(0)
        .text,
        "t\n",
    )


def test_git_works():
    need("git")
    d = run(
        cmd="git init -q r && cd r && git config user.email a@b && git config user.name n && echo x > f && git add f && "
        "git commit -qm msg && git log --format=%s && git status --short && git clone -q . ../s && ls ../s"
    )
    equal(d.exits(0).text, "msg\nf\n")


def test_curl_works():
    need("curl")
    d = run(
        cmd="python3 -m http.server 8000 --bind 127.0.0.1 >/dev/null 2>&1 & echo hello > f; "
        "curl -s --retry 20 --retry-connrefused --retry-delay 1 http://127.0.0.1:8000/f"
    )
    equal(d.exits(0).text, "hello\n")
    d = run(cmd="curl -sS https://example.com")
    check(d.rc in (6, 7), f"exit code {d.rc}: {d.errors}")


def test_node_works():
    need("node")
    equal(run(cmd=["node", "-e", "console.log([1,2,3].map(x => x * 2).join())"]).exits(0).text, "2,4,6\n")


def test_compiler_works():
    need("gcc")
    d = run(
        cmd="echo 'int puts(const char *); int main(void) { puts(\"built\"); return 3; }' > a.c && gcc a.c && ./a.out"
    ).exits(3)
    equal(d.text, "built\n")


def test_terminal_programs_and_shells():
    equal(run(cmd=["bash", "-lc", "echo $((6*7)); shopt -q login_shell && echo login"]).exits(0).text, "42\nlogin\n")
    equal(
        run(cmd="printf 'b\\na\\n' | sort | tr '\\n' ' '; date +%Z; mktemp -d >/dev/null && echo ok").exits(0).text,
        "a b UTC\nok\n",
    )


def test_two_cells_do_not_see_each_others_files():
    run(cmd="echo secret > /tmp/x; echo secret > /dev/shm/x; echo > /home/user/x").exits(0)
    equal(run(cmd="ls /tmp /dev/shm /home/user").exits(0).text.split(), ["/dev/shm:", "/home/user:", "/tmp:"])


if __name__ == "__main__":
    tap.main(globals())
