"""steps_files.py - routes of the native interface about files of sessions (steps_base.py)."""
import hashlib
import io
import os
import tarfile

from client import Finding
from steps_base import same, step


def stat_of(w, path):
    status, _, data = w.server.request("GET", f"/v1/sessions/{w.s}/files/stat?path={path}")
    return data if status == 200 else None


def read_back(w, path):
    status, _, data = w.server.request("GET", f"/v1/sessions/{w.s}/files?path={path}", raw=True)
    return data if status == 200 else None


@step
def put_file(w):
    name, data = w.fresh(), os.urandom(150 << 10)
    yield
    answer = w.in_session("PUT", f"/files?path={name}", data)
    yield
    got = read_back(w, name)
    if w.good(answer, 200, 201, 204):
        same(hashlib.md5(got or b"").digest(), hashlib.md5(data).digest(), f"{name}, which was acknowledged")
    elif got not in (None, data):
        raise Finding(f"{answer!r}: {name} is neither whole nor absent: {len(got)} bytes")


@step
def get_file(w):
    yield
    answer, part = w.in_session("GET", "/files?path=fixed"), w.in_session("GET", "/files?path=fixed", headers={"Range": "bytes=10-99"})
    yield
    if w.good(answer, 200):
        same(hashlib.md5(answer.data).digest(), hashlib.md5(w.text).digest(), "the file's bytes")
    if w.good(part, 206):
        same(part.data, w.text[10:100], "the range")


@step
def look_at_files(w):
    yield
    answers = [w.in_session("GET", "/files/stat?path=fixed"), w.in_session("GET", "/files/list?path=tree")]
    yield
    if w.good(answers[0], 200):
        same(answers[0].json["size"], len(w.text), "size")
    if w.good(answers[1], 200):
        same(len(answers[1].json["entries"]), 40, "entries")


@step
def change_files(w):
    one, two = w.fresh("d"), w.fresh("d")
    yield
    made = w.in_session("POST", "/files/mkdir", {"path": one})
    moved = w.in_session("POST", "/files/move", {"from": one, "to": two}) if made.status in (200, 201, 204) else None
    gone = w.in_session("DELETE", f"/files?path={two}") if moved is not None and moved.status in (200, 204) else None
    yield
    if not w.good(made, 200, 201, 204):
        return
    if not w.good(moved, 200, 204):
        same(bool(stat_of(w, one)) or bool(stat_of(w, two)), True, "it is in one of two places")
        return
    if w.good(gone, 204):
        same((stat_of(w, one), stat_of(w, two)), (None, None), "it is gone")


@step
def get_tar(w):
    yield
    answer = w.in_session("GET", "/files/tar?path=tree")
    yield
    if w.good(answer, 200):
        try:
            with tarfile.open(fileobj=io.BytesIO(answer.data)) as t:
                files = [m for m in t.getmembers() if m.isfile()]
                sizes = {m.size for m in files}
        except tarfile.TarError as e:
            raise Finding(f"{answer.what}: a broken archive with a good end: {e}, {len(answer.data)} bytes") from None
        same((len(files), sizes), (40, {9000}), "files in the archive")
        same(answer.data[-1024:], bytes(1024), "the end of the archive")


@step
def put_tar(w):
    name = w.fresh("t")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as t:
        for i in range(20):
            info = tarfile.TarInfo(f"{name}/{i}")
            info.size = 5000
            t.addfile(info, io.BytesIO(w.text[:5000]))
    yield
    answer = w.in_session("PUT", "/files/tar?path=.", packed.getvalue(), {"Content-Type": "application/x-tar"})
    yield
    if w.good(answer, 200, 201, 204):
        for i in range(20):
            same(read_back(w, f"{name}/{i}"), w.text[:5000], f"{name}/{i}")


@step
def watch_files(w):
    name = w.fresh("w")
    yield
    link = w.link("GET", f"/v1/sessions/{w.s}/files/watch?path=.", patience=2.5)
    if link.answer.status == 200:
        w.control.disarm()
        put = w.in_session("PUT", f"/files?path={name}", b"x")
        try:
            while name.encode() not in link.bytes:
                link.more()
        except TimeoutError:
            if put.status in (200, 201, 204):
                raise Finding("watch: the event does not come, and the stream goes on") from None
        except (EOFError, OSError):
            pass
    elif link.answer.status != 0:
        w.good(link.finish(), 200)
    link.close()
    yield
