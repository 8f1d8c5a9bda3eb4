#!/usr/bin/python3 -B
"""test_files.py - what a cell shows of files, and its read-only root."""
import os
import secrets

import tap
from level import TEMPLATE, differs
from tap import Skip, check, equal, folder, has, python, run

def read(path):
    with open(path) as f:
        return f.read()


# --- read-only root ----------------------------------------------------------------------------------


def test_read_only_root():
    script = (
        "for d in / /etc /usr /usr/bin /var /var/tmp /opt /root /home /srv /mnt /dev; do touch $d/x 2>/dev/null && echo wrote $d; "
        "done; for d in /tmp /run /dev/shm /home/user; do touch $d/x || echo cannot write $d; done; echo end"
    )
    wrote = "wrote /dev\n" if differs("/dev, /proc, /sys") else ""
    equal(run("--read-only", "--user", "root", cmd=script).exits(0).text, wrote + "end\n")
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
        if differs("mounts"):
            run("--read-only", "--mount", f"{src}:/mnt", cmd=["cat", "/mnt/file"]).refused("--mount")
            return
        equal(run("--read-only", "--mount", f"{src}:/mnt", cmd=["cat", "/mnt/file"]).exits(0).text, "content\n")
        equal(run("--read-only", "--mount", f"{src}:/tmp/a/b", cmd=["cat", "/tmp/a/b/file"]).exits(0).text, "content\n")
        d = run("--read-only", "--mount", f"{src}:/data", cmd=["cat", "/data/file"])
        if d.rc != 0:
            d.refused("/data", "Read-only")


# --- what the cell shows -----------------------------------------------------------------------------


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
        links = ("/proc/1/root", "/proc/self/root", "/proc/1/cwd")
        d = run("--user", "root", cmd=["cat", *(link + path for path in made for link in links)])
        check(d.rc != 0 and b"canary" not in d.out, f"can be read: {d.text}")
        equal(len(d.errors.splitlines()), len(links) * len(made), "paths that cannot be read")
    finally:
        for path in made:
            os.unlink(path)
    equal(set(os.listdir("/")) >= {"usr", "etc"}, True)


def test_the_root_directory():
    d = run(
        "--user", "root", cmd="ls -A /; echo; ls -A /sys /boot /lost+found 2>/dev/null; echo; ls -A /home /root /opt /srv /mnt"
    ).exits(0)
    top, system, rest = (part.split() for part in d.text.split("\n\n", 2))
    known = "bin sbin lib lib32 lib64 libx32 dev etc home media mnt opt proc root run srv sys tmp usr var"
    check(set(top) <= set(known.split()), f"more than expected in /: {top}")
    if differs("/dev, /proc, /sys"):
        has(system, "kernel", "gVisor's own")
    else:
        equal(system, ["/sys:"])
    equal(rest, ["/home:", "user", "/mnt:", "/opt:", *(["cordon"] if TEMPLATE == "host" else []), "/root:", "/srv:"])


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
    equal(run(cmd="stat -c %U:%G /usr /usr/bin/env; touch /usr/bin/x || echo refused").exits(0).text, "root:root\nroot:root\nrefused\n")
    equal(run("--user", "root", cmd="touch /usr/bin/x && stat -c %U /usr/bin/x").exits(0).text, "root\n")
    d = run(cmd="sudo touch /usr/bin/x && ls -l /usr/bin/x | wc -l")
    if differs("set-user-id"):
        has(d.exits(1).errors, "no new privileges")
    else:
        equal(d.exits(0).text, "1\n")
    check(not os.path.exists("/usr/bin/x"), "made on the host")


def test_sudo():
    if not os.path.exists("/usr/bin/sudo"):
        raise Skip("no sudo on this machine")
    run("--profile", "locked", cmd="sudo -n true && echo became root").exits(1)
    if differs("set-user-id"):
        has(run(cmd=["sudo", "id", "-u"]).exits(1).errors, "no new privileges")
        return
    for name in ("cordon", "other-name"):
        d = run(
            "--hostname", name, cmd="sudo id -u; sudo -u www-data id -un; sudo sh -c 'echo hi > /etc/x; cat /etc/x'"
        ).exits(0)
        equal((d.text, d.errors), ("0\nwww-data\nhi\n", ""), f"host name {name}")
    if TEMPLATE == "host" and os.path.exists("/usr/sbin/useradd"):
        d = run(cmd="sudo useradd -m bob && sudo -u bob sh -c 'cd; pwd; touch x; stat -c %U x'").exits(0)
        equal(d.text, "/home/bob\nbob\n")


def need(program):
    if not os.path.exists(f"/usr/bin/{program}"):
        raise Skip(f"no {program} on this machine")


def has_it(program):
    """Whether the root has this program of the machine; the small root of virtual machines has few."""
    need(program)
    if TEMPLATE != "host":
        has(run(cmd=[program]).exits(127).errors, "not found")
    return TEMPLATE == "host"


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
    if has_it("node"):
        equal(run(cmd=["node", "-e", "console.log([1,2,3].map(x => x * 2).join())"]).exits(0).text, "2,4,6\n")


def test_compiler_works():
    if not has_it("gcc"):
        return
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
