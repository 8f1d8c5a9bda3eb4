#!/usr/bin/python3 -B
"""test_mounts.py - cordon run --mount: directories of the machine in a cell."""
import os
import secrets
import shutil
import socket
import stat
import subprocess
import tempfile
import threading

import tap
from tap import Skip, check, equal, folder, has, python, run

OWNER = 54399  # nobody's


def read(path):
    with open(path) as f:
        return f.read()


def test_what_opens_the_machine_is_refused():
    """By its path, with "..", by a link, as a bind mount; and allowed only by an option that says so."""
    names = ["/", "/etc", "/etc/ssl", "/proc", "/proc/self", "/sys", "/dev", "/run", "/var/run", "/root", "/home", "/var", "/var/lib", "/boot",
             "/usr/..", "/usr/../etc", "/proc/self/root", "//", "/./run"]
    with folder() as src:
        os.symlink("/", f"{src}/root-link")
        os.symlink("../../../../../../etc", f"{src}/etc-link")
        for name in names + [f"{src}/root-link", f"{src}/etc-link", f"{src}/root-link/run"]:
            if os.path.exists(name):
                run("--mount", f"{name}:/mnt", cmd=["true"]).refused("--mount", "--mount-unsafe")
        run("--mount", "/usr/share:/mnt:rw", cmd=["true"]).refused("--mount", "--mount-unsafe")
        with tempfile.TemporaryDirectory(dir="/home") as user:
            run("--mount", f"{user}:/mnt", cmd=["true"]).refused("--mount", "keys and sockets of a user")
            os.chmod(user, 0o755)
            os.mkdir(f"{user}/project")
            run("--mount", f"{user}/project:/mnt", cmd=["true"]).exits(0)
        run("--mount", "/usr/share:/mnt", cmd=["true"]).exits(0)
        run("--mount", "/etc:/mnt", "--mount-unsafe", cmd=["cat", "/mnt/passwd"]).exits(0)
        os.mkdir(f"{src}/bound")
        code = f"mount --bind /etc {src}/bound && exec {tap.PROGRAM} run --mount {src}/bound:/mnt -- true"
        d = subprocess.run(["unshare", "--mount", "sh", "-c", code], capture_output=True, text=True, check=False)
        equal(d.returncode, 125, d.stderr)
        has(d.stderr, "/etc", "--mount-unsafe")


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
                d.misused("--mount", at)


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
            has(run("--mount", f"{src}:{place}", cmd="true").exits(2).err.decode(), "--mount", place)
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


if __name__ == "__main__":
    tap.main(globals())
