#!/usr/bin/python3
"""Goal: what the client prints, sends and returns is right, whatever a server does: break connections,
answer with errors, send names that would move a terminal or files that would leave the folder.

    test_fake.py CORDON_CLIENT [name ...]
"""
import contextlib
import io
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fake import DENIED, EVIL, KEY, Fake  # noqa: E402

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
from checks import equal  # noqa: E402

CLIENT = os.path.abspath(sys.argv[1])


class World:
    """A fake server with one session, a home without keys, and the client."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="cordon-client-")
        self.cell, self.home = self.dir + "/cell", self.dir + "/home"
        os.mkdir(self.cell)
        os.mkdir(self.home)
        self.fake = Fake(self.cell)
        self.env = {"PATH": os.environ["PATH"], "HOME": self.home, "CORDON_SERVER": self.fake.url,
                    "CORDON_API_KEY": KEY}
        self.id = self("create", "--metadata", "k=v").stdout.decode().strip()

    def __call__(self, *words, code=0, stdin=b"", env=None):
        run = subprocess.run([CLIENT, *words], input=stdin, capture_output=True, timeout=30,
                             env=self.env if env is None else env, cwd=self.home)
        assert run.returncode == code, (words, run.returncode, run.stdout, run.stderr)
        return run

    def close(self):
        self.fake.shutdown()
        self.fake.server_close()
        shutil.rmtree(self.dir)


def clean(text):
    """Nothing in it moves a terminal."""
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]", text.decode()), text


def test_create_and_list(w):
    assert re.fullmatch("ses_[0-9a-f]{16}", w.id), w.id
    for _ in range(4):
        w("create")
    lines = w("ls").stdout.decode().splitlines()
    assert re.fullmatch("ID +STATE +AGE +EXPIRES +TEMPLATE +LEVEL +STORAGE +RUNNING +METADATA", lines[0]), lines
    equal(len(lines), 6)  # three pages
    assert re.fullmatch(f"{w.id} +running +[0-9]+[smhd] +- +host +- +- +0 +k=v", lines[1]), lines
    equal(w("ls", "-q").stdout.decode().split()[0], w.id)
    equal(len(json.loads(w("ls", "--json").stdout)["sessions"]), 5)


def test_refused_hosts_are_told(w):
    """With the option that allows them; a name that is no host is not written as one."""
    def said(*names):
        DENIED[:] = [{"kind": "dns", "name": name, "reason": "no"} for name in names]
        try:
            return w("exec", w.id, "--", "echo", "x").stderr
        finally:
            DENIED.clear()

    assert said("registry.npmjs.org", "PyPI.org", "a.example").endswith(b"; what allows them: --policy npm --policy pypi --allow a.example\n")
    assert said("github.com", "api.github.com").endswith(b"; what allows them: --policy github-read\n")
    for name in ("$(id)", "-a", "a b", EVIL, ""):
        text = said(name)
        clean(text)
        assert b"refused 1 host" in text and text.endswith(b"; what allows them: --allow HOST\n"), text
    assert b"(a, b, c, ...)" in said(*"abcd") and b"refused 4 hosts" in said(*"abcd")
    equal(said(), b"")


def serve_tls(w):
    """The URL of a TLS server whose certificate nobody trusts."""
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
            "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{w.dir}/key.pem", "-out", f"{w.dir}/cert.pem"]
    subprocess.run(made, check=True, capture_output=True, timeout=60)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{w.dir}/cert.pem", f"{w.dir}/key.pem")
    listener = socket.create_server(("127.0.0.1", 0))

    def answer():
        while True:
            link, _ = listener.accept()
            with contextlib.suppress(OSError), context.wrap_socket(link, server_side=True) as inside:
                inside.recv(65536)
                inside.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\nConnection: close\r\n\r\n{"sessions":[]}')

    threading.Thread(target=answer, daemon=True).start()
    return f"https://127.0.0.1:{listener.getsockname()[1]}"


def test_advice_for_tls(w):
    """A certificate, or a server without TLS, is not a server that does not run."""
    url = serve_tls(w)
    for server, why in ((url, "--ca-file or SSL_CERT_FILE names the certificates to trust"), (w.fake.url.replace("http:", "https:"), "http:// instead?")):
        said = w("ls", env={**w.env, "CORDON_SERVER": server}, code=5).stderr.decode()
        assert why in said and "is the server running" not in said, said
    w("ls", "--ca-file", f"{w.dir}/cert.pem", env={**w.env, "CORDON_SERVER": url})
    said = w("ls", env={**w.env, "CORDON_SERVER": "http://127.0.0.1:1"}, code=5).stderr.decode()
    assert "is the server running" in said, said


def test_create_sends_what_was_asked(w):
    w("create", "--memory", "64M", "--cpus=0.5", "--env", "A=1", "--env", "B=x=y", "--timeout", "90", "--on-idle",
      "pause", "--mount", "/a:b:/c:rw", "--mount", "/d:/e", "--idle-timeout", "0")
    equal(json.loads(w.fake.requests[-1][3]), {
        "limits": {"memory": 64 << 20, "cpus": 0.5}, "env": {"A": "1", "B": "x=y"}, "timeout": "90000ms",
        "on_idle": "pause", "idle_timeout": 0,
        "mounts": [{"source": "/a:b", "target": "/c", "mode": "rw"}, {"source": "/d", "target": "/e", "mode": "ro"}]})


def test_usage(w):
    for words in (["create", "x"], ["ls", "--nope"], ["exec", w.id], ["exec"], ["rm"], ["rm", "-a", w.id],
                  ["cp", "a", "b"], ["cp", "ses_1:a", "ses_2:b"], ["key"], ["key", "eat"], ["timeout", w.id],
                  ["logs"], ["attach"], ["nosuch"], ["run", "--server"], ["run", "--server=x", "--", "true"],
                  ["create", "--memory", "much"], ["logs", "--stream", "x", "a", "b"],
                  ["create", "--env", "x"], ["create", "--mount", "x"], ["create", "--volume", "v"],
                  ["create", "--volume", "v:/a:wr"], ["run", "--server", "--volume", "x", "--", "true"],
                  ["key", "create", "--expires-in", "1x"], ["secret", "set", "S", "--ttl", "1x"], ["secret", "set", "S", "--metadata", "x"],
                  ["secret", "set", "S", "--from-file", "-", "--value-env", "A"], ["secret", "set", "S", "--value-env", "NOT_SET"],
                  ["create", "--port", "0"], ["port", w.id, "x"], ["timeout", w.id, "soon"]):
        run = w(*words, code=2)
        assert run.stderr.startswith(b"cordon: "), (words, run.stderr)
        equal(run.stdout, b"")
    assert b"(0.001 to 1000)" in w("create", "--cpus", "0", code=2).stderr, "a bound that does not allow what it refuses"
    run = w("secret", "set", "nosuch", code=2)
    assert b"--from-file" in run.stderr and b"--value-env" in run.stderr, run.stderr
    for verb in ("create", "ls", "exec", "run", "attach", "cp", "logs", "watch", "events", "ps", "kill", "diff",
                 "pause", "resume", "rm", "timeout", "top", "key", "tenant", "node", "mcp", "limits", "usage", "inspect",
                 "timeline", "cast", "replay"):
        assert w(verb, "--help").stdout.startswith(b"usage: cordon " + verb.encode()), verb
        assert max(map(len, w(verb, "--help").stdout.splitlines())) <= 120, verb
        assert verb.encode() in w("--verbs").stdout
        assert b".SH CORDON " + verb.encode() in w("--man").stdout


def test_errors_are_told(w):
    run = w("pause", "ses_9", code=3)
    clean(run.stderr.replace(b"\n", b""))
    assert re.search(r"no such thing .*\(not_found, request req_1", run.stderr.decode()), run.stderr
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = f"127.0.0.1:{listener.getsockname()[1]}"
    run = w("ls", "--server", "http://" + place, code=5)
    assert place.encode() in run.stderr and b"refused" in run.stderr, run.stderr


def test_exit_codes(w):
    """Wrong use, nothing there, refused, no server: a script can tell them apart. Verbs with a command keep 125."""
    for status, code, want in ((400, "invalid", 2), (404, "not_found", 3), (410, "gone", 3), (401, "unauthorized", 4), (403, "forbidden", 4),
                               (409, "conflict", 4), (422, "unsupported", 4), (429, "quota_sessions", 4), (507, "storage_full", 4),
                               (502, "bad", 5), (503, "unavailable", 5), (500, "internal", 125)):
        w.fake.failing = (status, code)
        for words in (["ls"], ["node"], ["pause", w.id], ["tenant", "ls"], ["net", w.id], ["logs", w.id]):
            w(*words, code=want)
        for words in (["exec", w.id, "--", "true"], ["run", "--server", "--", "true"], ["attach", w.id]):
            w(*words, code=2 if want == 2 else 125)
    w.fake.failing = None
    away = {**w.env, "CORDON_SERVER": "http://127.0.0.1:1"}
    w("ls", env=away, code=5)
    w("exec", w.id, "--", "true", env=away, code=125)
    w("pause", w.id, "ses_9", code=3)
    w("template", "build", "t", "--file", "/no/such/file", code=125)


def test_key_is_found(w):
    env = {k: v for k, v in w.env.items() if k != "CORDON_API_KEY"}
    if not os.path.exists("/var/lib/cordon/first.key"):
        assert b"CORDON_API_KEY" in w("ls", env=env, code=4).stderr
    os.makedirs(w.home + "/.local/state/cordon")
    os.makedirs(w.home + "/.config/cordon")
    with open(w.home + "/.config/cordon/key", "w") as f:
        f.write(KEY + "\n")
    w("ls", env=env)
    with open(w.home + "/other", "w") as f:
        f.write("two words")
    assert b"does not contain an API key" in w("ls", "--key-file", w.home + "/other", code=2).stderr
    assert b"nowhere" in w("ls", "--key-file", "/nowhere", code=2).stderr
    w("ls", "--key-file", w.home + "/.config/cordon/key", env=env)
    os.unlink(w.home + "/.config/cordon/key")
    if os.path.exists("/var/lib/cordon/first.key"):
        return
    with open(w.home + "/.local/state/cordon/first.key", "w") as f:  # of a server on this machine, for that one only
        f.write(KEY + "\n")
    w("ls", env=env)
    with open(w.home + "/.local/state/cordon/first.key", "w") as f:
        f.write("not to be read")
    for local in ("http://127.0.0.1:1", "http://localhost:1", "https://[::1]:1", "unix:/nowhere"):
        assert b"does not contain an API key" in w("ls", "--server", local, env=env, code=2).stderr, local
    for other in ("http://127.0.0.1.invalid:1", "https://localhost.invalid"):
        assert b"API key" not in w("ls", "--server", other, env=env, code=5).stderr, other


def test_ids_may_be_short(w):
    other = w("create").stdout.decode().strip()
    equal(w("pause", other[:-1] + other[-1]).stdout.decode().strip(), other)
    assert b"matches 2" in w("pause", "ses_", code=2).stderr
    w("rm", w.id)
    equal(w("pause", "ses_").stdout.decode().strip(), other)  # the ended one does not count
    assert b"not an id" in w("pause", "../x", code=2).stderr


def test_terminal_is_safe(w):
    w("create", "--metadata", "note=" + EVIL)
    for words in (["ls"], ["ls", "--json"], ["node"], ["node", "--json"]):
        clean(w(*words).stdout)
        assert b"evil" in w(*words).stdout
    w("exec", w.id, "--", "true")
    clean(w("ls", w.id).stdout)
    for words in (["net", w.id], ["fork", w.id]):
        out = w(*words).stdout
        clean(out)
        assert b"evil" in out and "\u202e" not in out.decode(), out


def test_exec(w):
    run = w("exec", w.id, "--", "sh", "-c", "echo out; echo err >&2; exit 7", code=7)
    equal((run.stdout, run.stderr), (b"out\n", b"err\n"))
    equal(w("exec", w.id, "printf", r"\000\377\033[1m").stdout, b"\0\xff\x1b[1m")  # a program's own
    w("exec", w.id, "--", "/no/such", code=127)
    w("exec", w.id, "--", "sh", "-c", "kill -9 $$", code=137)
    equal(w("exec", "-e", "A=b c", w.id, "--", "sh", "-c", "echo $A").stdout, b"b c\n")
    equal(w("exec", w.id, "--", "cat", stdin=b"not sent").stdout, b"")


def test_exec_json(w):
    """One JSON object on stdout, with the output in it; --result leaves the output as it is."""
    for words in (["exec", "--json", w.id], ["run", "--server", "--json"]):
        run = w(*words, "--", "sh", "-c", "echo out; echo err >&2; exit 7", code=7)
        got = json.loads(run.stdout)
        equal((got["stdout"], got["stderr"], got["inline_truncated"], got["exit_code"], run.stderr), ("out\n", "err\n", False, 7, b""))
    equal(json.loads(w("exec", "--json", w.id, "--", "printf", r"\377").stdout)["stdout_base64"], "/w==")
    got = json.loads(w("exec", "--json", w.id, "--", "sh", "-c", "head -c 1100000 /dev/zero | tr '\\0' x").stdout)
    equal((len(got["stdout"]), got["inline_truncated"]), (1 << 20, True))
    got = json.loads(w("exec", "--json", "-i", w.id, "--", "cat", stdin=b"in").stdout)
    equal(got["stdout"], "in")
    run = w("exec", "--result", "r", w.id, "--", "sh", "-c", "echo out; exit 3", code=3)
    with open(w.home + "/r") as f:
        equal((json.load(f)["exit_code"], run.stdout), (3, b"out\n"))
    run = w("exec", "--result", "-", w.id, "--", "echo", "out").stdout.decode()
    equal((run[:5], json.loads(run[4:])["exit_code"]), ("out\n{", 0))
    assert b"--result" in w("exec", "--json", "-t", w.id, "--", "true", code=2).stderr
    w("exec", "--result", "/no/such/dir/r", w.id, "--", "true", code=125)


def test_exec_input(w):
    equal(w("exec", "-i", w.id, "--", "cat", stdin=b"some\nlines").stdout, b"some\nlines")
    big = os.urandom(1 << 20)
    equal(w("exec", "-i", w.id, "--", "cat", stdin=big).stdout, big)


def test_exec_survives_breaks(w):
    """Each connection is broken after so many pieces; no byte is missing and none comes twice."""
    want = b"".join(b"%d\n" % i for i in range(40))
    w.fake.break_after = [0, 1, 5, 0, 2, 4, 3]
    run = w("exec", w.id, "--", "sh", "-c", "i=0; while [ $i -lt 40 ]; do echo $i; [ $((i % 7)) = 0 ] && echo e$i >&2; "
            "i=$((i+1)); sleep 0.01; done; exit 3", code=3)
    equal(run.stdout, want)
    equal(run.stderr, b"".join(b"e%d\n" % i for i in range(0, 40, 7)))
    equal(w.fake.break_after, [])


def test_exec_signals(w):
    for signo in (signal.SIGINT, signal.SIGTERM):
        p = subprocess.Popen([CLIENT, "exec", w.id, "--", "sh", "-c", "trap 'echo got; exit 9' INT TERM; echo ready; "
                              "while :; do sleep 0.05; done"], env=w.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        equal(p.stdout.readline(), b"ready\n")
        p.send_signal(signo)
        equal(p.stdout.read(), b"got\n")
        equal(p.wait(10), 9)


def test_exec_output_closed(w):
    p = subprocess.Popen([CLIENT, "exec", w.id, "--", "sh", "-c", "while echo y; do sleep 0.01; done"], env=w.env,
                         stdout=subprocess.PIPE)
    p.stdout.readline()
    p.stdout.close()
    equal(p.wait(10), 128 + signal.SIGPIPE)


def test_exec_detached(w):
    name = w("exec", "-d", w.id, "--", "sh", "-c", "sleep 0.3; echo later; echo more >&2; exit 4").stdout.decode().strip()
    equal(w("logs", "-f", w.id, name).stdout, b"later\n")
    run = w("logs", w.id, name[:-2])  # the beginning is enough
    equal((run.stdout, run.stderr), (b"later\n", b"more\n"))
    equal(w("logs", "--stream", "stderr", w.id, name).stdout, b"more\n")
    run = w("attach", w.id, name, code=4)
    equal((run.stdout, run.stderr), (b"later\n", b"more\n"))


def test_logs_survive_breaks(w):
    name = w("exec", "-d", w.id, "--", "sh", "-c", "for i in 1 2 3 4 5 6; do echo $i; sleep 0.05; done; "
             r"printf '\377\n'").stdout.decode().strip()
    w.fake.break_after = [1, 0, 3]
    equal(w("logs", "-f", w.id, name).stdout, b"1\n2\n3\n4\n5\n6\n\xff\n")


def test_run_on_server(w):
    run = w("run", "--server", "--memory", "1G", "-e", "A=1", "--", "sh", "-c", "cat; exit 5", stdin=b"in", code=5)
    equal(run.stdout, b"in")
    equal([r[0] for r in w.fake.requests if r[1].startswith("/v1/sessions")][-4:], ["POST", "POST", "GET", "DELETE"])
    equal(w("ls", "-q").stdout.decode().split(), [w.id])
    w("run", "--server", "--result", w.dir + "/r", "--", "true")
    with open(w.dir + "/r") as f:
        equal(json.load(f)["exit_code"], 0)
    w("run", "--server", "--", "/no/such", code=127)
    equal(w("ls", "-q").stdout.decode().split(), [w.id])


def test_run_interrupted_deletes(w):
    p = subprocess.Popen([CLIENT, "run", "--server", "--", "sh", "-c", "echo ready; sleep 60"], env=w.env,
                         stdout=subprocess.PIPE)
    equal(p.stdout.readline(), b"ready\n")
    p.send_signal(signal.SIGTERM)
    equal(p.wait(10), 128 + signal.SIGTERM)
    equal(w("ls", "-q").stdout.decode().split(), [w.id])


def test_copy_files(w):
    data = os.urandom(3 << 20)
    with open(w.home + "/big", "wb") as f:
        f.write(data)
    os.chmod(w.home + "/big", 0o750)
    open(w.home + "/empty", "w").close()
    os.mkdir(w.cell + "/dir")
    w("cp", "big", w.id + ":new")
    w("cp", "big", w.id + ":dir")
    w("cp", "empty", w.id + ":dir/")
    w("cp", "-", w.id + ":typed", stdin=b"typed")
    for path in ("new", "dir/big"):
        with open(w.cell + "/" + path, "rb") as f:
            equal(f.read() == data, True)
    equal(os.stat(w.cell + "/new").st_mode & 0o777, 0o750)
    equal(os.stat(w.cell + "/dir/empty").st_size, 0)
    os.chmod(w.cell + "/new", 0o6755)
    w("cp", w.id + ":new", "back")
    with open(w.home + "/back", "rb") as f:
        equal(f.read() == data, True)
    equal(os.stat(w.home + "/back").st_mode & 0o7777, 0o755)  # setuid is not taken over
    equal(w("cp", w.id + ":typed", "-").stdout, b"typed")
    assert b"no such file" in w("cp", w.id + ":missing", ".", code=3).stderr
    equal(sorted(os.listdir(w.home)), ["back", "big", "empty"])


def make_tree(top):
    os.makedirs(top + "/a/b/empty")
    os.symlink("../x", top + "/a/link")
    long = "/a/" + "n" * 150 + "/" + "m" * 150
    os.makedirs(os.path.dirname(top + long))
    for name in ("/x", "/a/b/y z", long):
        with open(top + name, "w") as f:
            f.write(name * 100)
    os.chmod(top + "/x", 0o700)


def same(one, other):
    return subprocess.run(["diff", "-r", "--no-dereference", one, other], capture_output=True).stdout.decode()


def test_copy_trees(w):
    make_tree(w.home + "/tree")
    os.mkfifo(w.home + "/tree/pipe")
    run = w("cp", "tree", w.id + ":up")
    assert b"left out: pipe" in run.stderr, run.stderr
    os.unlink(w.home + "/tree/pipe")
    equal(same(w.home + "/tree", w.cell + "/up"), "")
    w("cp", w.id + ":up", "down")
    equal(same(w.home + "/tree", w.home + "/down"), "")
    w("cp", w.id + ":up", ".")
    equal(same(w.home + "/tree", w.home + "/up"), "")
    w("cp", "tree", w.id + ":up")  # into it
    equal(same(w.home + "/tree", w.cell + "/up/tree"), "")
    with tarfile.open(fileobj=io.BytesIO(w("cp", w.id + ":up", "-").stdout)) as archive:
        assert "a/b/y z" in archive.getnames()


def evil_archive(*entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, kind, link, content in entries:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.size, entry.mode = kind, link, len(content), 0o6777
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def test_evil_trees(w):
    """Each archive tries to write to the file outside; none may."""
    outside = w.dir + "/outside"
    os.mkdir(w.cell + "/t")
    file, link, hard = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
    cases = {
        "dotdot": [("../../outside", file, "", b"bad")],
        "inner dotdot": [("a/../../../outside", file, "", b"bad")],
        "absolute": [(outside, file, "", b"bad")],
        "through a link": [("l", link, w.dir, b""), ("l/outside", file, "", b"bad")],
        "over a link": [("l", link, outside, b""), ("l", file, "", b"good")],
        "hard link": [("h", hard, "../../outside", b""), ("h", file, "", b"good")],
        "device": [("d", tarfile.CHRTYPE, "", b"")],
    }
    for name, entries in cases.items():
        with open(outside, "w") as f:
            f.write("safe")
        with open(w.cell + "/t/evil.tar", "wb") as f:
            f.write(evil_archive(*entries))
        shutil.rmtree(w.home + "/d", ignore_errors=True)
        run = subprocess.run([CLIENT, "cp", w.id + ":t", "d"], env=w.env, cwd=w.home, capture_output=True, timeout=30)
        with open(outside) as f:
            equal((name, f.read()), (name, "safe"))
        equal((name, run.returncode), (name, 125 if "dotdot" in name or name == "through a link" else 0))
        for place, _, files in os.walk(w.home + "/d"):
            for f in files:
                equal(os.lstat(os.path.join(place, f)).st_mode & 0o6000, 0)
    with open(w.cell + "/t/evil.tar", "wb") as f:
        f.write(evil_archive(("x", file, "", b"y" * 5000))[:3000])
    w("cp", w.id + ":t", "d", code=125)


def test_life(w):
    assert w("timeout", w.id, "10m").stdout.decode().strip() == w.id
    equal(json.loads(w.fake.requests[-1][3]), {"timeout": "600000ms"})
    w("pause", w.id)
    assert b"paused" in w("ls").stdout
    w("pause", "--no-memory", w.id[:-1])
    equal(w("ls").stdout.decode().splitlines()[1].split()[1], "stopped", "in the list, without a reason")
    equal(w("rm", "-a").stdout.decode().split(), [w.id])
    equal(w("ls", "-q").stdout, b"")
    assert b"ended (deleted)" in w("ls", "-a").stdout


def test_top_once(w):
    lines = w("top", "--once").stdout.decode().splitlines()
    assert re.fullmatch("ID +STATE +CPU % +MEMORY +PIDS +DISK +TIME +METADATA", lines[0]), lines
    share = float(lines[1].split()[2])
    assert 40 < share < 60, lines  # the fake uses half a processor
    assert "2K/1G" in lines[1] and "3/9" in lines[1], lines


def read_until(fd, word, seconds=10):
    got, end = b"", time.monotonic() + seconds
    while word not in got and time.monotonic() < end:
        if select.select([fd], [], [], 0.1)[0]:
            try:
                got += os.read(fd, 65536)
            except OSError:
                break
    assert word in got, got
    return got


def test_top_restores_the_terminal(w):
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(CLIENT, [CLIENT, "top", "--interval", "300ms"], w.env)
    read_until(fd, b"METADATA")
    read_until(fd, b"METADATA")  # again
    os.write(fd, b"q")
    read_until(fd, b"\x1b[?1049l")
    equal(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
    os.close(fd)


def on_terminal(w, *words, **env):
    """What it prints on a terminal."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(CLIENT, [CLIENT, *words], {**w.env, **env})
    got = b""
    with contextlib.suppress(OSError):
        while data := os.read(fd, 65536):
            got += data
    equal(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
    os.close(fd)
    return got.decode().replace("\r\n", "\n")


def test_colours_on_terminals_only(w):
    assert "\x1b[32mrunning\x1b[0m" in on_terminal(w, "ls", TERM="xterm"), on_terminal(w, "ls", TERM="xterm")
    equal(on_terminal(w, "ls", TERM="xterm").replace("\x1b[32m", "").replace("\x1b[0m", ""), w("ls").stdout.decode())
    for env in ({"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}):
        equal(on_terminal(w, "ls", **env), w("ls").stdout.decode())
    assert "\x1b[32m" in on_terminal(w, "ls", TERM="xterm", NO_COLOR=""), "an empty NO_COLOR says nothing"


def test_net_on_a_terminal(w):
    """Headings, and no columns without a value. Programs get the same form as ever."""
    lines = on_terminal(w, "net", w.id, TERM="dumb").splitlines()
    assert re.fullmatch("TIME +OUTCOME +KIND +METHOD +TARGET +RESULT", lines[0]), lines
    equal(len(lines), 2)
    assert " deny " in lines[1] and " request " in lines[1] and not re.search(r" - |0\.0ms", lines[1]), lines
    clean("\n".join(lines).encode())
    piped = w("net", w.id).stdout.decode().splitlines()
    assert len(piped) == 1 and " - 0 0.0ms " in piped[0], piped


def test_diff_of_some_paths(w):
    def paths(*words):
        return [line.split(" ", 1)[1] for line in w("diff", w.id, *words).stdout.decode().splitlines()]

    equal(len(paths()), 6)
    equal(paths("p"), ["/home/user/p", "/home/user/p/a.c", "/home/user/p/.git/x/y"])
    equal(paths("p/", "--exclude", ".git"), ["/home/user/p", "/home/user/p/a.c"])
    equal(paths("/tmp", "pq", "--exclude", "*.pyc")[0], "/home/user/pq")
    equal(len(paths("--exclude", "tmp", "--exclude", "user")), 0)
    equal([c["path"] for c in json.loads(w("diff", "--json", w.id, "pq").stdout)["changes"]], ["/home/user/pq"])


def test_exec_tty(w):
    """In raw mode a typed ^C is a byte for the command, and the terminal is given back."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execve("/bin/sh", ["sh", "-c", f"stty -echo; stty rows 33 cols 77; before=$(stty -g); {CLIENT} exec -t {w.id} -- sh -c "
                              "'echo ready; head -c 2 | od -An -tx1'; [ \"$before\" = \"$(stty -g)\" ] && echo same"], w.env)
    read_until(fd, b"ready")
    os.write(fd, b"\x03\r")
    got = read_until(fd, b"same")
    assert b"03 0d" in got, got
    os.waitpid(pid, 0)
    os.close(fd)
    spec = next(json.loads(r[3]) for r in w.fake.requests if r[0] == "POST" and r[1].endswith("/executions"))
    equal(spec["tty"], {"rows": 33, "cols": 77})


def main():
    tests = [(n[5:], f) for n, f in globals().items() if n.startswith("test_")]
    tests = [t for t in tests if not sys.argv[2:] or t[0] in sys.argv[2:]]
    print(f"1..{len(tests)}")
    failed = 0
    for i, (name, run) in enumerate(tests, 1):
        w = World()
        try:
            run(w)
            print(f"ok {i} - {name}")
        except Exception:
            failed += 1
            print("".join("# " + line for line in traceback.format_exc().splitlines(True)))
            print(f"not ok {i} - {name}")
        w.close()
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
