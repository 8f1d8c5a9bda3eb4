"""What the tests of the built-ins share: TAP, running the tool, and a decoder of its records that is
written from doc/file-protocol.md and shares nothing with the one under test.

A test program is a file of functions named test_*, each given a fresh directory. It passes if it
returns, is skipped if it raises Skip, fails otherwise. With CORDON_MUST_WORK=1 a skip is a failure.

    test_x.py TOOL [name ...]
"""
import os
import pathlib
import selectors
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
from checks import Skip, check, equal  # noqa: E402,F401

TOOL = ""
NOBODY = 65534
CODES = ["none", "invalid", "denied", "not_found", "conflict", "limit", "unsupported", "system"]
TYPES = ["file", "dir", "symlink", "fifo", "socket", "char", "block"]
WHATS = ["create", "write", "remove", "rename", "chmod", "overflow", "limited", "gone"]
ENDS = bytes(4)


class Body:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, layout):
        value = struct.unpack_from("<" + layout, self.data, self.at)[0]
        self.at += struct.calcsize("<" + layout)
        return value

    def string(self):
        n = self.number("H")
        text = self.data[self.at : self.at + n]
        check(self.data[self.at + n] == 0 and 0 not in text, "string without its NUL")
        self.at += n + 1
        return text.decode("utf-8", "surrogateescape")


def decode(kind, data):
    b, r = Body(data), {}
    if kind == 1:
        r = {"kind": "error", "code": CODES[b.number("B")], "sys": b.number("H"), "text": b.string()}
    elif kind == 2:
        check(b.number("B") == 2, "version of an entry")
        r = {"kind": "entry", "type": TYPES[b.number("B")], "flags": b.number("H")}
        r.update(zip(("mode", "uid", "gid"), (b.number("I") for _ in range(3))))
        r.update(size=b.number("Q"), mtime=b.number("q"))
        r.update(zip(("owner", "group", "path", "target"), (b.string() for _ in range(4))))
        r.update(target_type=TYPES[b.number("B")], target_mode=b.number("I"), resolved=b.string(), abs=b.string())
        end, r["meta"] = b.number("H"), {}
        end += b.at
        while b.at < end:
            key, value = b.string(), b.string()
            check(key not in r["meta"], "a key twice")
            r["meta"][key] = value
    elif kind == 3:
        r = {"kind": "data", "len": b.number("Q")}
    elif kind == 4:
        r = {"kind": "end", "truncated": b.number("I") == 1}
        r.update(zip(("count", "bytes", "skipped"), (b.number("Q") for _ in range(3))))
    elif kind == 5:
        r = {"kind": "ready"}
    elif kind == 6:
        r = {"kind": "event", "what": WHATS[b.number("B")]}
        flags = b.number("B")
        check(flags < 4, f"flags {flags} of an event")
        r.update(is_dir=flags & 1 == 1, has_entry=flags & 2 == 2)
        r.update(path=b.string(), to=b.string())
    elif kind == 7:
        r = {"kind": "process"}
        r.update(zip(("pid", "ppid", "uid"), (b.number("I") for _ in range(3))))
        r.update(state=chr(b.number("B")), start_ms=b.number("q"))
        r.update(zip(("rss", "cpu_us", "mark"), (b.number("Q") for _ in range(3))))
        r.update(name=b.string(), command=b.string())
    else:
        raise AssertionError(f"record of kind {kind}")
    check(b.at == len(data), f"{len(data) - b.at} bytes too many in a record of kind {kind}")
    return r


def split(out, raw_after=None):
    """Records, and the raw bytes behind a DATA record or behind the first of the kind named."""
    records, at = [], 0
    while at < len(out):
        n, kind = struct.unpack_from("<IB", out, at)
        check(at + 5 + n <= len(out), "a record is cut off")
        records.append(decode(kind, out[at + 5 : at + 5 + n]))
        at += 5 + n
        if records[-1]["kind"] in ("data", raw_after):
            return records, out[at:]
    return records, b""


class Done:
    def __init__(self, rc, out, err, raw_after):
        self.rc, self.err = rc, err
        self.records, self.raw = split(out, raw_after)

    def ok(self, rc=0):
        equal(self.rc, rc, f"exit status; records {self.records[-2:]}, stderr {self.err[-300:]}")
        return self

    def fails(self, code, sys=None):
        equal(self.rc, 1, f"exit status; records {self.records[-2:]}, stderr {self.err[-300:]}")
        last = self.records[-1]
        equal((last["kind"], last.get("code")), ("error", code), f"error {last}")
        if sys is not None:
            equal(last["sys"], sys, f"errno of {last}")
        return self

    @property
    def last(self):
        return self.records[-1]


def chunks(data, size=1 << 16):
    """Complete content: chunks and the end."""
    return broken(data, size) + ENDS


def broken(data, size=1 << 16):
    """Content that breaks off."""
    return b"".join(
        struct.pack("<I", len(data[i : i + size])) + data[i : i + size] for i in range(0, len(data), size)
    )


def run(*args, data=b"", within=None, without=None, whose=None, user=None, drop=None, cwd=None, prefix=(), raw_after=None, timeout=60):
    """Runs the tool; `whose` is for --for, `user` who runs it, `drop` the same behind the prefix."""
    argv = [*prefix, *(["setpriv", f"--reuid={drop}", f"--regid={drop}", "--clear-groups"] if drop else []), TOOL]
    argv += [*(["--within", within] if within else []), *(["--without", without] if without else [])]
    argv += [*(["--for", whose] if whose is not None else [])]
    more = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    p = subprocess.run(
        [*argv, *map(str, args)], input=data, capture_output=True, cwd=cwd, timeout=timeout, check=False, **more
    )
    return Done(p.returncode, p.stdout, p.stderr, raw_after)


class Watch:
    """A running `watch`."""

    def __init__(self, *args):
        self.p = subprocess.Popen([TOOL, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        os.set_blocking(self.p.stdout.fileno(), False)
        self.bytes = b""

    def next(self, timeout=5.0):
        """The next record; None if there is none in time."""
        end = time.monotonic() + timeout
        with selectors.DefaultSelector() as s:
            s.register(self.p.stdout, selectors.EVENT_READ)
            while True:
                if len(self.bytes) >= 5:
                    n, kind = struct.unpack_from("<IB", self.bytes)
                    if len(self.bytes) >= 5 + n:
                        body, self.bytes = self.bytes[5 : 5 + n], self.bytes[5 + n :]
                        return decode(kind, body)
                if not s.select(max(0, end - time.monotonic())):
                    return None
                more = os.read(self.p.stdout.fileno(), 65536)
                if not more:
                    return None
                self.bytes += more

    def until(self, what, path, to="", timeout=5.0):
        """Reads until this event; returns those before it."""
        before = []
        while True:
            r = self.next(timeout)
            if r is None:
                raise AssertionError(f"no {what} of {path!r} {to!r}, but {before[-20:]}")
            if r["kind"] == "event" and (r["what"], r["path"], r["to"]) == (what, path, to):
                return before
            before.append((r.get("what"), r.get("path"), r.get("to")))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.p.stdout.close()
        try:
            self.p.wait(10)
        except subprocess.TimeoutExpired:
            self.p.kill()
            self.p.wait()
            raise AssertionError("watch does not end when its output closes") from None


def need_root():
    if os.geteuid() != 0:
        raise Skip("needs root, to be two users")


def names(path):
    return sorted(p.relative_to(path).as_posix() for p in pathlib.Path(path).rglob("*"))


def one_test(function):
    """(verdict, why): "ok", "not ok" or a reason to skip."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cordon-builtins-", dir="/var/tmp"))
    try:
        folder.chmod(0o755)
        function(folder)
        return "ok", ""
    except Skip as e:
        return str(e), ""
    except Exception:
        return "not ok", traceback.format_exc()
    finally:
        subprocess.run(["rm", "-rf", folder], check=False)


def main(module):
    global TOOL
    # A copy that other users can reach.
    folder = tempfile.mkdtemp(prefix="cordon-builtins-", dir="/var/tmp")
    os.chmod(folder, 0o755)
    TOOL = shutil.copy(os.path.abspath(sys.argv[1]), folder)
    wanted = sys.argv[2:]
    tests = [f for n, f in module.items() if n.startswith("test_") and (not wanted or n[5:] in wanted)]
    must, bad = os.environ.get("CORDON_MUST_WORK") == "1", 0
    print(f"1..{len(tests)}")
    for number, function in enumerate(tests, 1):
        since = time.monotonic()
        verdict, why = one_test(function)
        skipped = verdict not in ("ok", "not ok")
        good = verdict == "ok" or (skipped and not must)
        bad += not good
        name = function.__name__[5:].replace("_", " ")
        print(f"{'ok' if good else 'not ok'} {number} - {name}" + (f" # SKIP {verdict}" if skipped and good else ""))
        for line in (why or (verdict if skipped and not good else "")).splitlines():
            print("#", line)
        if time.monotonic() - since > 3:
            print(f"# took {time.monotonic() - since:.1f} s")
        sys.stdout.flush()
    shutil.rmtree(folder)
    sys.exit(1 if bad or not tests else 0)
