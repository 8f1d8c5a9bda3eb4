#!/usr/bin/python3
"""test_e2b_filesystem.py - E2B's filesystem service: stat, list, make, move and remove, and the service of a server
without root."""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from sandbox_files import HOME, Sandbox, Watch, box  # noqa: E402
from harness import check, equal, rss, run_tests  # noqa: E402
from level import LEVEL, PATIENCE, differs  # noqa: E402


def test_stat(server):
    b = box(server)
    b.sh("printf hello > s.txt; chmod 640 s.txt; touch -d '2024-01-02T03:04:05.678901234Z' s.txt; ln -s s.txt s.lnk; ln -s nowhere s.bad")
    want = {
        "name": "s.txt",
        "type": "FILE_TYPE_FILE",
        "path": f"{HOME}/s.txt",
        "size": "5",
        "mode": 0o640,
        "permissions": "-rw-r-----",
        "owner": "user",
        "group": "user",
        "modifiedTime": "2024-01-02T03:04:05.678901234Z",
    }
    for path in ("s.txt", "~/s.txt", f"{HOME}/s.txt", f"{HOME}/../user//./s.txt"):
        equal(b.rpc("Stat", {"path": path}), {"entry": want}, f"Stat {path}")
    link = b.rpc("Stat", {"path": "s.lnk"})["entry"]
    equal(
        (link["name"], link["path"], link["type"], link["mode"], link["permissions"], link["symlinkTarget"], link["size"]),
        ("s.lnk", f"{HOME}/s.lnk", "FILE_TYPE_FILE", 0o640, "Lrwxrwxrwx", f"{HOME}/s.txt", "5"),
        "of a link",
    )
    link = b.rpc("Stat", {"path": "s.bad"})["entry"]
    equal(link["type"], "FILE_TYPE_UNSPECIFIED", "type of a dangling link")
    equal(b.rpc("Stat", {"path": "/tmp"})["entry"]["permissions"], "dtrwxrwxrwx", "of /tmp")
    equal(b.rpc("Stat", {"path": "/dev/null"})["entry"]["permissions"], "Dcrw-rw-rw-", "of /dev/null")
    equal(b.rpc("Stat", {"path": "/"})["entry"]["name"], "/", "name of the root")
    equal(b.rpc("Stat", {"path": "/etc/passwd"})["entry"]["owner"], "root", "owner")
    b.fails("Stat", {"path": "/no/such"}, 404, "not_found", "/no/such")
    b.fails("Stat", {"path": "s.txt/x"}, 400, "invalid_argument")
    b.fails("Stat", {"path": "s.txt"}, 401, "unauthenticated", "invalid username: 'nobody123'", user="nobody123")
    b.fails("Stat", {"path": 7}, 400, "invalid_argument", "path")


def test_the_user_asked_for(server):
    b = box(server)
    equal(b.rpc("MakeDir", {"path": "of-root/deep"}, user="root")["entry"]["path"], "/root/of-root/deep", "home of root")
    made = b.rpc("Stat", {"path": "/root/of-root"})["entry"]
    equal((made["owner"], made["permissions"]), ("root", "drwxr-xr-x"), "of a directory of root's")
    made = b.rpc("MakeDir", {"path": "/opt/for/user"})["entry"]
    equal((made["owner"], made["group"]), ("user", "user"), "made by root for the user")
    equal(b.rpc("Stat", {"path": "/opt/for"})["entry"]["owner"], "user", "and what is above it")
    b.put("/root/of-root/x", b"x", username="root")
    equal(b.rpc("Stat", {"path": "/root/of-root/x"})["entry"]["owner"], "root", "a file of root's")
    equal(b.get("of-root/x", username="root")[1], b"x", "read relative to root's home")


def test_make_dir(server):
    b = box(server)
    entry = b.rpc("MakeDir", {"path": "m/a/b"})["entry"]
    equal((entry["path"], entry["type"], entry["mode"]), (f"{HOME}/m/a/b", "FILE_TYPE_DIRECTORY", 0o755), "made")
    b.fails("MakeDir", {"path": "m/a/b"}, 409, "already_exists", "directory already exists")
    b.sh("touch m/f")
    b.fails("MakeDir", {"path": "m/f"}, 400, "invalid_argument")
    b.fails("MakeDir", {"path": "m/f/g"}, 400, "invalid_argument")
    if differs("/dev, /proc, /sys"):
        b.fails("MakeDir", {"path": "/proc/x"}, 403, "permission_denied")
    else:
        b.fails("MakeDir", {"path": "/proc/x"}, 404, "not_found")


def test_move(server):
    b = box(server)
    metadata = b.put_with_metadata("mv/a", b"content", k="v")
    entry = b.rpc("Move", {"source": "mv/a", "destination": "mv/new/deep/b"})["entry"]
    equal((entry["path"], entry["name"], entry.get("metadata")), (f"{HOME}/mv/new/deep/b", "b", metadata), "moved")
    equal(b.get("mv/new/deep/b")[1], b"content", "moved content")
    equal(b.rpc("Stat", {"path": "mv/new"})["entry"]["owner"], "user", "owner of what was made")
    b.put("mv/c", b"other")
    b.rpc("Move", {"source": "mv/new/deep/b", "destination": "mv/c"})
    equal(b.get("mv/c")[1], b"content", "replaced")
    b.fails("Move", {"source": "mv/none", "destination": "mv/x"}, 404, "not_found", "mv/none")


def test_list(server):
    b = box(server)
    b.sh("mkdir -p l/b/in l/a l/a.d && touch l/b/in/z l/b/in.x l/a/1 l/a.d/2 l/a-x l/z 'l/new\nline' && ln -s b l/s")
    names = lambda depth: [e["path"][len(f"{HOME}/l/") :] for e in b.rpc("ListDir", {"path": "l", "depth": depth})["entries"]]
    one = ["a", "a-x", "a.d", "b", "new\nline", "s", "z"]
    equal(names(0), one, "depth 0")
    equal(names(1), one, "depth 1")
    equal(
        names(3),
        ["a", "a/1", "a-x", "a.d", "a.d/2", "b", "b/in", "b/in/z", "b/in.x", "new\nline", "s", "z"],
        "depth 3",
    )
    equal(names(4000000000), names(3), "depth 4000000000")
    entries = {e["name"]: e for e in b.rpc("ListDir", {"path": "l"})["entries"]}
    equal((entries["s"]["symlinkTarget"], entries["s"]["type"]), (f"{HOME}/l/b", "FILE_TYPE_DIRECTORY"), "a link")
    equal([e["path"] for e in b.rpc("ListDir", {"path": "l/s"})["entries"]], [f"{HOME}/l/s/in", f"{HOME}/l/s/in.x"], "over a link")
    equal(b.rpc("ListDir", {"path": "l/a.d/../a"})["entries"][0]["path"], f"{HOME}/l/a/1", "cleaned")
    equal("/etc" in [e["path"] for e in b.rpc("ListDir", {"path": "/"})["entries"]], True, "of the root")
    b.sh("mkdir l/empty")
    equal(b.rpc("ListDir", {"path": "l/empty"}), {"entries": []}, "an empty one")
    b.fails("ListDir", {"path": "l/z"}, 400, "invalid_argument", "not a directory")
    b.fails("ListDir", {"path": "none"}, 404, "not_found", "none")
    b.sh("ln -s loop1 loop2; ln -s loop2 loop1")
    b.fails("ListDir", {"path": "loop1"}, 400, "failed_precondition")
    b.fails("ListDir", {"path": "l", "depth": -1}, 400, "invalid_argument", "depth")


def test_a_long_list(server):
    b = box(server)
    b.sh("mkdir long && cd long && seq -f 'file-with-a-name-%.0f' 1 20000 | xargs touch")
    began = time.monotonic()
    entries = b.rpc("ListDir", {"path": "long"})["entries"]
    equal(len(entries), 20000, "entries")
    equal([e["name"] for e in entries], sorted(e["name"] for e in entries), "order")
    check(time.monotonic() - began < 10 * PATIENCE, "slow")
    b.sh("cd long && seq 20001 110000 | xargs touch")
    b.fails("ListDir", {"path": "long"}, 429, "resource_exhausted", "entries")
    b.sh("rm -r long")


def test_remove(server):
    b = box(server)
    b.sh("mkdir -p r/a/b && touch r/a/b/c && chmod 0 r/a/b")
    equal(b.rpc("Remove", {"path": "r"}), {}, "Remove")
    b.fails("Stat", {"path": "r"}, 404, "not_found")
    equal(b.rpc("Remove", {"path": "r"}), {}, "what is not there")


def test_many_lists_at_a_time(server):
    """They are large, and what is kept of them is bounded: some may be refused, others are served."""
    b = box(server)
    entries = 20000 if LEVEL == "container" else 2000
    b.sh(f"mkdir lists && cd lists && seq -f 'a-file-with-a-rather-long-name-to-make-the-answer-long-%.0f' 1 {entries} | xargs touch")
    got = []

    def ask():
        got.append(b.ask("POST", "/filesystem.Filesystem/ListDir", b'{"path":"lists"}', {"Content-Type": "application/json"})[0])

    threads = [threading.Thread(target=ask) for _ in range(40)]
    for t in threads:
        t.start()
    equal(b.get("/etc/hostname")[0]["accept-ranges"], "bytes", "others are served")
    for t in threads:
        t.join()
    check(set(got) <= {200, 429} and 200 in got, f"statuses {sorted(set(got))}")
    size = rss(server.pid("cordond"))
    print(f"# {got.count(200)} of 40 lists; cordond has {size >> 20} MiB")
    equal(len(b.rpc("ListDir", {"path": "lists"})["entries"]), entries, "afterwards")
    b.sh("rm -r lists")


# --- servers without root --------------------------------------------------------------------------------


def of_a_user(mode):
    import test_rootless_server as rootless

    rootless.plain.possible(mode)
    with rootless.plain.account(mode) as who, rootless.UserServer(who, pool_size=1) as server:
        b = Sandbox(server)
        equal(b.put("d/x", b"hello"), [{"path": f"{HOME}/d/x", "name": "x", "type": "file"}], "upload")
        equal(b.get("~/d/x")[1], b"hello", "download")
        entry = b.rpc("Stat", {"path": "d/x"}, user="user")["entry"]
        equal((entry["owner"], entry["permissions"], entry["size"]), ("user", "-rw-r--r--", "5"), "entry")
        b.fails("Stat", {"path": "d/x"}, 401, "unauthenticated", user="nobody123")
        equal(b.rpc("MakeDir", {"path": "e/f"})["entry"]["owner"], "user", "MakeDir")
        w = Watch(b, "d")
        equal(w.next(), (0, {"start": {}}), "first message")
        b.put("d/y", b"y")
        w.until(("WRITE", "y"))
        w.close()
        b.rpc("Move", {"source": "d/x", "destination": "d/z"})
        b.rpc("Remove", {"path": "e"})
        equal([e["name"] for e in b.rpc("ListDir", {"path": "d"})["entries"]], ["y", "z"], "ListDir")


def test_a_users_server_with_one_id():
    of_a_user("single")


def test_a_users_server_with_a_range():
    of_a_user("mapped")


if __name__ == "__main__":
    run_tests(globals(), pool_size=2)
