#!/usr/bin/python3 -B
"""test_diff.py - cordon run --diff: what a cell changed, deep trees included."""
import os
import resource
import signal

import tap
from level import LEVEL, differs
from tap import check, equal, finish, folder, has, python, run, start

SOON = "8s" if LEVEL == "microvm" else "1s"  # a timeout that ends the command after it has begun


# --- changes -----------------------------------------------------------------------------------------


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


def without_shm(wanted):
    """What is listed of these paths: /dev/shm of a guest may not be among its files."""
    return {path: what for path, what in wanted.items() if not (path.startswith("/dev/shm/") and differs("/dev/shm"))}


def test_diff_added():
    wanted = {
        "/opt/f": ("added", "-rwsr-x--x", 6),
        "/opt/d": ("added", "drwxr-xr-x", 0),
        "/opt/d/g": ("added", "-rw-r--r--", 1),
        "/opt/l": ("added", "lrwxrwxrwx", 2),
        "/opt/p": ("added", "prw-r--r--", 0),
        "/usr/n": ("added", "-rw-r--r--", 1),
        "/dev/shm/s": ("added", "-rw-r--r--", 1),
    }
    if differs("FIFOs and sockets in files"):
        del wanted["/opt/p"]
    made = "cd /opt; echo 12345 > f; mkdir d; echo > d/g; ln -s /x l; mkfifo p; chmod 4751 f; echo > /usr/n; echo > /dev/shm/s"
    equal(changes(made), without_shm(wanted))


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
    d = python(code, "--diff", "--user", "root", "--env", "PYTHONDONTWRITEBYTECODE=1").exits(0)
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
    wanted = dict.fromkeys(["/tmp/t", "/run/r", "/dev/shm/s", "/home/user/d"], "added")
    equal({p: w for p, (w, *_) in got.items()}, without_shm(wanted))


def test_diff_leaves_mounts_out():
    with folder() as src:
        if differs("mounts"):
            run("--diff", "--mount", f"{src}:/data", cmd="true").refused("--mount")
            return
        got = changes("echo > /data/new; echo > /opt/x", "--mount", f"{src}:/data:rw")
        got.pop("/data", None)  # the place itself was made for the mount
        equal(list(got), ["/opt/x"])


def test_diff_comes_after_all_output():
    for i in range(tap.rounds(10)):
        script = "echo first; (sleep 0.05; echo > late; sleep 1000) & while ! test -e late; do sleep 0.01; done; echo last; exit 3"
        d = run("--diff", cmd=script).exits(3)
        lines = d.text.splitlines()
        equal(lines[:2], ["first", "last"])
        check(len(lines) == 3 and lines[2].endswith(" /home/user/late"), lines)


def test_diff_after_every_end():
    for options, script, code in (
        ([], "echo > f; kill -9 $$", 137),
        (["--timeout", SOON], "echo > f; sleep 1000", 124),
        (["--profile", "locked"], "echo > f", 0),
    ):
        d = run("--diff", *options, cmd=script).exits(code)
        check(d.text.endswith(" /home/user/f\n"), f"{script}: {d.text!r}")


def test_changes_that_are_not_listed_are_told():
    """PID 1 of the cell stands still: cordon ends the command, and there is no list."""
    p = start("--diff", "--timeout", SOON, cmd="echo > f; echo ready; sleep 1000")
    equal(p.stdout.readline(), b"ready\n")
    (keeper,) = tap.children(p.pid)
    (first,) = tap.children(keeper)
    os.kill(first, signal.SIGSTOP)
    d = finish(p).exits(124)
    equal((d.text, d.errors), ("", "cordon: --diff: PID 1 of the cell did not end the command\n"))


def test_diff_of_many_files():
    d = run(
        "--diff", cmd=["python3", "-c", "import os\nos.mkdir('d')\nfor i in range(20000): open(f'd/{i}', 'w').close()"]
    ).exits(0)
    equal(len(d.text.splitlines()), 20001)


def test_diff_of_what_nobody_may_read():
    got = changes("mkdir d; echo > d/f; chmod 0 d/f d", user="user")
    equal({p: w for p, (w, *_) in got.items()}, {"/home/user/d": "added", "/home/user/d/f": "added"})


# --- deep trees --------------------------------------------------------------------------------------

DEEP = (
    "import os\nos.chdir('{where}')\n"
    "for i in range({depth}):\n"
    "    os.mkdir('d'); os.chdir('d')\n"
    "open('bottom', 'w').close()\n"
)


def test_a_deep_tree_does_not_stop_the_end():
    for where in ("/home/user", "/dev/shm", "/var/tmp"):
        python(DEEP.format(where=where, depth=2000)).exits(0)
    python(DEEP.format(where="/home/user", depth=4000)).exits(0)


def test_a_deep_tree_is_unread_below_some_depth():
    for where in ("/home/user", "/dev/shm"):
        d = python(
            DEEP.format(where=where, depth=2000) + "os.chdir('/tmp'); open('other', 'w').close()", "--diff"
        ).exits(0)
        lines = d.text.splitlines()
        if where == "/dev/shm" and differs("/dev/shm"):
            check(len(lines) == 1 and lines[0].endswith(" /tmp/other"), lines)
            continue
        unread = [line for line in lines if line.startswith("unread")]
        equal(len(unread), 1, f"lines that say so in {where}")
        check(unread[0].endswith("/d/d/d/d"), unread[0][-60:])
        check(any(line.endswith(" /tmp/other") for line in lines), "what is beside the deep tree is missing")
        check(len(lines) > 200, f"only {len(lines)} lines")


def test_a_deep_tree_with_few_descriptors():
    """The caller may open 1024 files and no more, as is usual."""

    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))

    code = DEEP.format(where="/home/user", depth=900) + "os.chdir('/tmp'); open('other', 'w').close()"
    d = python(code, "--diff", preexec_fn=few)
    if differs("open files of the machine"):
        has(d.exits(1).errors, "Too many open files")
        check(len(d.text.splitlines()) > 100, "what was made is not listed")
        d = python(code.replace("900", "100"), "--diff", preexec_fn=few)
    d.exits(0)
    check(" /tmp/other\n" in d.text, "what is beside the deep tree is missing")
    check("unread" in d.text or len(d.text.splitlines()) >= (102 if differs("open files of the machine") else 902), "cut without a word")


def test_a_long_path():
    code = (
        "import os\nos.chdir('/home/user')\n"
        "for i in range(100):\n"
        "    os.mkdir('n' * 250); os.chdir('n' * 250)\n"
        "open('bottom', 'w').close()\n"
    )
    d = python(code, "--diff").exits(0)
    equal(len(d.text.splitlines()), 101)


if __name__ == "__main__":
    tap.main(globals())
