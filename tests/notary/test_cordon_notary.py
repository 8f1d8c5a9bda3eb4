#!/usr/bin/python3
"""cordon-notary over its channel.

Goal: whatever a cordond that was taken over sends, and wherever it is killed, it never signs two checkpoints of one log
of which one does not extend the other; signatures are right by an implementation that is not ours; its bounds hold.

usage: test_cordon_notary.py CORDON_NOTARY [name ...]
"""
import contextlib
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [HERE, os.path.join(HERE, "..", "shared")]
from checks import Skip, check, equal, has, named_tests, run_tap, wait_for  # noqa: E402
import notary_channel as wire  # noqa: E402
from notary_channel import Log, Notary, Refused, verify  # noqa: E402

PROGRAM = ""
DICE = random.Random(17)
RECORD, SLOT = 1024, 512


class Bed:
    """A folder with a cordon-notary."""

    def __init__(self, folder=None):
        self.own = folder is None
        self.folder = folder or tempfile.mkdtemp(prefix="cordon-notary-")
        self.notary = Notary(PROGRAM, self.folder)
        self.log = Log()

    def __enter__(self):
        self.name = self.notary.keys()[0]
        return self

    def __exit__(self, *args):
        code = self.notary.close()
        if self.own:
            shutil.rmtree(self.folder)
        if args[0] is None:
            equal(code, 0, "exit status; its log: " + "".join(self.notary.log[-5:]))

    def again(self, kill=False):
        code = self.notary.kill() if kill else self.notary.close()
        if not kill:
            equal(code, 0, "exit status; its log: " + "".join(self.notary.log[-5:]))
        self.notary = Notary(PROGRAM, self.folder)

    def origin(self, log="ten_a", epoch=1):
        return f"{self.name}/{log}/{epoch}"

    def path(self, name="logs"):
        return os.path.join(self.folder, name)


def leaves(n, what=b"r"):
    return [what + struct.pack("<I", i) for i in range(n)]


@contextlib.contextmanager
def refused(reason, size=None):
    try:
        yield
    except Refused as e:
        equal(e.reason, reason, str(e))
        if size is not None:
            equal(e.size, size, "what it remembers")
        return
    raise AssertionError("not refused")


def good(note, *keys):
    note = verify.Note(note)
    for key in keys:
        check(note.signed_by(verify.Key(key)) is True, f"signed by {key}")
    equal(len(note.signatures), len(keys), "signatures")
    return note


# ---- what it signs


def test_logs_that_grow_are_signed():
    with Bed() as bed:
        _, key, former, _, logs = bed.notary.keys()
        equal((former, logs), ("", 0), "before the first log")
        log, old = Log(), 0
        for step in (1, 1, 2, 3, 64, 200, 29):
            log.add(*leaves(step, b"%d" % old))
            note = good(bed.notary.sign_log(bed.origin(), log, old), key)
            equal((note.size, note.root, note.origin), (len(log.hashes), log.root(), bed.origin()), "the note")
            old = len(log.hashes)
        equal(bed.notary.keys()[4], 1, "logs")
        # The answer may have been lost: the same again, whatever the proof.
        good(bed.notary.sign(bed.origin(), 7, old, log.root(), []), key)
        bed.again()
        equal(bed.notary.keys()[1], key, "the key after a restart")
        good(bed.notary.sign(bed.origin(), 0, old, log.root(), []), key)
        good(bed.notary.sign_log(bed.origin("node"), Log(leaves(3)), 0), key)
        good(bed.notary.sign(bed.origin("empty"), 0, 0, Log().root(), []), key)
        equal(bed.notary.keys()[4], 2, "logs: an empty one is not remembered")


def test_what_contradicts_is_refused():
    with Bed() as bed:
        log, other = Log(leaves(300)), Log(leaves(100) + leaves(200, b"other"))
        origin = bed.origin()
        bed.notary.sign_log(origin, log, 0, 150)

        def all_refused(why):
            for old, size, of, reason in ((0, 100, log, wire.ROLLBACK), (100, 149, log, wire.ROLLBACK), (0, 0, log, wire.ROLLBACK),
                                          (150, 150, other, wire.FORK), (150, 300, other, wire.FORK), (100, 300, log, wire.STALE),
                                          (0, 300, log, wire.STALE), (151, 300, log, wire.STALE), (0, 300, other, wire.STALE)):
                with refused(reason, 150):
                    bed.notary.sign(origin, old, size, of.root(size), of.proof(old, size))
            proof = log.proof(150, 300)
            for wrong in ([], proof[1:], proof[:-1], proof + [proof[0]], proof[::-1], [bytes(32)] * len(proof), other.proof(150, 300), [bytes(32)] * 64):
                with refused(wire.FORK, 150):
                    bed.notary.sign(origin, 150, 300, log.root(), wrong)
            with refused(wire.FORK, 150):
                bed.notary.sign(origin, 150, 300, other.root(), proof)
            with refused(wire.FORK, 150):
                bed.notary.sign(origin, 150, 2**64 - 1, log.root(), proof)
            check(bed.notary.keys()[4] == 1, why)
        all_refused("at once")
        bed.again()
        all_refused("after a restart")
        bed.again(kill=True)
        all_refused("after a kill")
        # None of it was signed or remembered.
        good(bed.notary.sign_log(origin, log, 150), bed.notary.keys()[1])


def test_origins():
    with Bed() as bed:
        name, log = bed.name, Log(leaves(2))
        for origin in ("", "x", name, name + "/", name + "/a", name + "/a/", name + "/a/0", name + "/a/01", name + "/a/x", name + "/a/1/2", name + "//1",
                       name + "/a b/1", name + "/a\n/1", name + "/a+/1", name + "/\u00e9/1", name + "x/a/1", "cordon.0/a/1", name[:-1] + "/a/1", name + "/a/1 ",
                       name + "/a/1234567890", name + "/../1"):
            with refused(wire.ORIGIN):
                bed.notary.sign_log(origin, log, 0)
        longest = f"{name}/{'a' * (127 - len(name) - 3)}/1"
        bed.notary.sign_log(longest, log, 0)
        equal(bed.notary.keys()[4], 1, "logs")


def test_documents():
    with Bed() as bed:
        _, key, _, documents, _ = bed.notary.keys()
        check(documents != key and verify.Key(documents).name == bed.name + ".documents", "a key of their own")
        for payload, name in ((1, "application/vnd.in-toto+json"), (2, "application/vnd.cordon.report+json"), (3, "application/vnd.cordon.bundle+json")):
            for body in (b"{}", b"", DICE.randbytes(196608)):
                keyid, sig = bed.notary.attest(payload, body)
                text = f"DSSEv1 {len(name)} {name} {len(body)} ".encode() + body
                check(verify.ed25519_holds(verify.Key(documents).key, text, sig), "the signature")
                equal(keyid, documents.rsplit("+", 1)[0] if documents.count("+") == 2 else "+".join(documents.split("+", 2)[:2]), "key id")
        # Nothing that is signed as a document can be a checkpoint.
        check(not verify.ed25519_holds(verify.Key(key).key, text, sig), "not the key of checkpoints")


def test_rotation():
    with Bed() as bed:
        log = Log(leaves(50))
        first = bed.notary.keys()[1]
        bed.notary.sign_log(bed.origin(), log, 0, 10)
        name, second, former, documents, _ = bed.notary.keys(wire.ROTATE)
        check(second != first and former == first and name == bed.name, "a new key")
        good(bed.notary.sign_log(bed.origin(), log, 10, 10), second, first)
        with refused(wire.FULL):
            bed.notary.keys(wire.ROTATE)
        bed.again(kill=True)
        equal(bed.notary.keys()[1:4], (second, first, documents), "after a kill")
        good(bed.notary.sign_log(bed.origin(), log, 10, 20), second, first)
        equal(bed.notary.keys(wire.RETIRE)[1:3], (second, ""), "retired")
        good(bed.notary.sign_log(bed.origin(), log, 20, 30), second)
        equal(bed.notary.keys(wire.RETIRE)[1:3], (second, ""), "nothing to retire")
        bed.again()
        equal(bed.notary.keys()[1:3], (second, ""), "after a restart")
        with open(bed.path("keys"), "rb") as f:
            kept = f.read()
        third = bed.notary.keys(wire.ROTATE)[1]
        with open(bed.path("keys"), "rb") as f:
            check(len(f.read()) == len(kept) and third not in (first, second), "a third one")


def test_statements_of_new_keys():
    """A key names one other key in its life: the one that cordon-notary made after it. No request gives it another one."""
    with Bed() as bed:
        none = bytes(64)
        first = bed.notary.keys()[1]
        equal(bed.notary.next_proof, none, "without a former key")
        equal(bed.notary.keys(wire.RETIRE)[1], first, "nothing to retire")
        equal(bed.notary.next_proof, none)
        before = first
        for turn in range(3):
            # Killed at any moment of a rotation: there is a new key with its statement, or none.
            number = bed.notary.send(wire.ROTATE)
            time.sleep(DICE.random() * 0.02 * turn)  # the kill comes at any moment
            bed.again(kill=True)
            _, now, former, documents, _ = bed.notary.keys()
            if former == "":
                equal((now, bed.notary.next_proof), (before, none), f"no rotation by request {number}")
                _, now, former, documents, _ = bed.notary.keys(wire.ROTATE)
            equal(former, before)
            statement = bed.notary.next_proof
            check(now != before and statement != none, "a statement")
            check(verify.ed25519_holds(verify.Key(before).key, f"cordon next key\n{now}\n".encode(), statement), "by the former key, of the new one")
            for other in (first + "x", before, documents):
                check(not verify.ed25519_holds(verify.Key(before).key, f"cordon next key\n{other}\n".encode(), statement), "of no other")
            # Again and again: the same one.
            with refused(wire.FULL):
                bed.notary.keys(wire.ROTATE)
            equal((bed.notary.keys()[1:3], bed.notary.next_proof), ((now, before), statement))
            bed.again(kill=True)
            equal((bed.notary.keys()[1:3], bed.notary.next_proof), ((now, before), statement), "after a kill")
            # A key that somebody else gives has no place in any request.
            foreign = verify.Key(first).text.replace("+", "x+", 1)
            for kind in (wire.KEY, wire.ROTATE, wire.RETIRE):
                bed.notary.send(kind, wire.string(foreign))
                bed.notary.wait()
                bed.notary = Notary(PROGRAM, bed.folder)
                equal((bed.notary.keys()[1:3], bed.notary.next_proof), ((now, before), statement), "nothing was done")
            # Nor is the text of a statement an origin, or a document of that key.
            for origin in (f"cordon next key\n{foreign}", f"cordon next key/{foreign}/1", f"{bed.name}/cordon next key/1"):
                with refused(wire.ORIGIN):
                    bed.notary.sign(origin, 0, 0, Log().root(), [])
            equal(bed.notary.keys(wire.RETIRE)[1:3], (now, ""))
            equal(bed.notary.next_proof, none, "the key that could make another one is gone")
            before = now


# ---- what it reads


def test_garbage_ends_it():
    valid = wire.HEAD.pack(4, wire.KEY, 0) + struct.pack("<I", 1)
    cases = [wire.HEAD.pack(4, kind, 0) + struct.pack("<I", 1) for kind in (0, 6, 32, 33, 99, 65535)]
    cases += [wire.HEAD.pack(4, wire.KEY, 0) + bytes(4), wire.HEAD.pack(4, wire.KEY, 1) + struct.pack("<I", 1), wire.HEAD.pack(5, wire.KEY, 0) + struct.pack("<IB", 1, 0),
              wire.HEAD.pack(0, wire.KEY, 0), wire.HEAD.pack(196865, wire.KEY, 0), wire.HEAD.pack(2**32 - 1, wire.KEY, 0), wire.HEAD.pack(5, wire.ATTEST, 0) + struct.pack("<IB", 1, 9)]
    cases += [DICE.randbytes(64) for _ in range(5)]
    for case in cases:
        bed = Bed()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            bed.notary.raw(valid + case)
            # Of a frame that never ends, only the end of the channel is the end.
            bed.notary.sock.shutdown(wire.socket.SHUT_WR)
        kinds = []
        try:
            while True:
                kinds.append(bed.notary.receive()[0])
        except (EOFError, ConnectionResetError):
            pass
        check(set(kinds) <= {wire.KEY_IS}, f"answers to {case[:16]!r}: {kinds}")
        equal(bed.notary.wait(), 0, "exit status")
        shutil.rmtree(bed.folder)


def rss_kib(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))


def test_a_flood():
    """A cordond that asks and reads no answer: cordon-notary takes no more, its memory is bounded, and each request that it took is answered
    once and in order when the answers are read."""
    with Bed() as bed:
        key = bed.notary.keys()[1]
        before = rss_kib(bed.notary.pid)
        for kind, body in ((wire.KEY, b""), (wire.ATTEST, b"\1" + bytes(150000)), (wire.SIGN, wire.string(bed.origin("none")) + struct.pack("<QQ", 5, 1) + bytes(32) + b"\0")):
            first, data, idle = bed.notary.last + 1, b"", 0
            bed.notary.sock.setblocking(False)
            while idle < 40 and bed.notary.last - first < 300000:
                if not data:
                    bed.notary.last += 1
                    data = struct.pack("<I", bed.notary.last) + body
                    data = wire.HEAD.pack(len(data), kind, 0) + data
                try:
                    data, idle = data[bed.notary.sock.send(data):], 0
                except BlockingIOError:
                    idle += 1
                    time.sleep(0.05)  # it takes no more for two seconds
            count = bed.notary.last - first + 1
            check(idle == 40, f"{count} requests of kind {kind} were taken")
            check("sanitized" in PROGRAM or rss_kib(bed.notary.pid) < before + 16384, f"{rss_kib(bed.notary.pid)} KiB after {count} requests of kind {kind}, {before} before")
            bed.notary.sock.settimeout(60)
            rest = threading.Thread(target=bed.notary.raw, args=(data,))
            rest.start()
            for number in range(first, bed.notary.last + 1):
                equal(bed.notary.receive()[1], number, f"the answer to a request of kind {kind}")
            rest.join()
        good(bed.notary.sign_log(bed.origin(), Log(leaves(5)), 0), key)
        equal(bed.notary.keys()[4], 1, "logs")


def test_random_requests():
    """Requests of any kind for a few logs, beside a model that says which may be signed."""
    with Bed() as bed:
        key = verify.Key(bed.notary.keys()[1])
        logs = [Log(leaves(120)), Log(leaves(60) + leaves(60, b"x")), Log(leaves(120, b"y"))]
        known, signed = {}, 0
        for step in range(1000):
            origin, log = bed.origin(f"t{DICE.randrange(4)}"), DICE.choice(logs)
            have, root = known.get(origin, (0, Log().root()))
            old, size = DICE.choice([have, DICE.randrange(121)]), DICE.choice([have, min(120, have + DICE.randrange(5)), DICE.randrange(121)])
            proof = log.proof(old, size) if old <= size else []
            broken = DICE.random() < 0.1 and proof != []
            if broken:
                proof[DICE.randrange(len(proof))] = DICE.randbytes(32)
            same = size == have and log.root(size) == root
            may = same or (size > have and old == have and log.root(have) == root and not broken)
            try:
                note = bed.notary.sign(origin, old, size, log.root(size), proof)
            except Refused as e:
                check(not may, f"step {step}: refused: {e}")
                equal(e.size, have, f"step {step}: what it remembers")
                continue
            check(may, f"step {step}: signed {size} from {old}, known {have}")
            known[origin] = size, log.root(size)
            signed += 1
            if DICE.random() < 0.02:
                check(verify.Note(note).signed_by(key) is True, f"step {step}: the signature")
            if step % 400 == 399:
                bed.again(kill=step % 800 == 799)
        check(signed > 100 and max(size for size, _ in known.values()) > 60, f"{signed} signed: {known}")


# ---- kills, full disks, damage


def test_killed_at_any_moment():
    """Killed while it signs: what was signed is remembered, and what is remembered is the last one asked for, or the one before."""
    with Bed() as bed:
        log, signed, moved = Log(leaves(4000)), 0, 0
        deadline = time.monotonic() + 3
        runs = 0
        while time.monotonic() < deadline and runs < 120:
            runs += 1
            asked = [signed]
            try:
                for _ in range(DICE.randrange(1, 6)):
                    size = asked[-1] + DICE.randrange(1, 6)
                    bed.notary.begin_sign(bed.origin(), asked[-1], size, log.root(size), log.proof(asked[-1], size))
                    asked.append(size)
                time.sleep(DICE.random() * 0.004)  # at any moment of a request
            finally:
                os.kill(bed.notary.pid, 9)
            answered = signed
            with contextlib.suppress(EOFError, ConnectionResetError):
                while True:
                    kind, number, _ = bed.notary.receive()
                    equal(kind, wire.SIGNED, "an answer")
                    answered = asked[asked.index(answered) + 1]
            bed.notary.wait()
            bed.notary = Notary(PROGRAM, bed.folder)
            try:
                # Too small for anything it may know: it says what it remembers.
                bed.notary.sign(bed.origin(), 0, 0, Log().root(), [])
                have = 0
            except Refused as e:
                have = e.size
                equal(e.root, log.root(have), "the root that it remembers")
            check(have in asked and have >= answered, f"remembers {have}, answered {answered}, asked {asked}")
            moved += have != signed
            signed = have
        check(runs > 3 and moved > 1, f"{runs} kills, {moved} of them after a change")


def test_killed_while_it_starts():
    """The first start: the files are made, or made again, and the key stays once it was told."""
    folder, told = tempfile.mkdtemp(prefix="cordon-notary-"), None
    for run in range(24):
        notary = Notary(PROGRAM, folder)
        if run % 4 == 3:
            key = notary.keys()[1]
            equal(told or key, key, "the key")
            told = key
        else:
            time.sleep(DICE.random() * 0.01)  # at any moment of a start
        notary.kill()
        if told is None and run % 10 == 1:
            shutil.rmtree(folder)
            os.mkdir(folder, 0o700)
    shutil.rmtree(folder)


def test_a_full_disk():
    if os.getuid() != 0:
        raise Skip("mounts a small file system: needs root")
    folder = tempfile.mkdtemp(prefix="cordon-notary-")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", folder], capture_output=True, text=True)
    if done.returncode != 0:
        os.rmdir(folder)
        raise Skip("cannot mount: " + done.stderr)
    try:
        with Bed(folder) as bed:
            key, log = bed.notary.keys()[1], Log(leaves(40))
            bed.notary.sign_log(bed.origin(), log, 0, 10)
            with open(bed.path("ballast"), "wb", buffering=0) as f, contextlib.suppress(OSError):
                while f.write(bytes(4096)):
                    pass
            new = 0
            while True:
                try:
                    bed.notary.sign_log(bed.origin(f"n{new}"), log, 0, 10)
                except Refused as e:
                    equal(e.reason, wire.DISK, str(e))
                    break
                new += 1
            check(new < 64, f"{new} new logs on a full disk")
            good(bed.notary.sign_log(bed.origin(), log, 10, 20), key)  # its slots are there
            with refused(wire.DISK):
                bed.notary.keys(wire.ROTATE)
            equal(bed.notary.keys()[1:3], (key, ""), "the key is the same")
            os.unlink(bed.path("ballast"))
            good(bed.notary.sign_log(bed.origin(f"n{new}"), log, 0, 10), key)
            bed.again()
            equal(bed.notary.keys()[4], new + 2, "logs")
            with refused(wire.ROLLBACK, 20):
                bed.notary.sign_log(bed.origin(), log, 10, 12)
    finally:
        subprocess.run(["umount", folder], check=True)
        os.rmdir(folder)


def damage(path, at, n=1):
    with open(path, "r+b") as f:
        f.seek(at)
        data = bytearray(f.read(n))
        f.seek(at)
        f.write(bytes(b ^ 0x55 for b in data))


def test_damaged_records():
    with Bed() as bed:
        log = Log(leaves(40))
        for i in range(3):
            bed.notary.sign_log(bed.origin(f"t{i}"), log, 0, 10)
        bed.notary.sign_log(bed.origin("t1"), log, 10, 20)
        # The newer slot of t1: the older one holds.
        damage(bed.path(), 2 * RECORD + SLOT + 100)
        bed.again()
        with refused(wire.ROLLBACK, 10):
            bed.notary.sign_log(bed.origin("t1"), log, 5, 9)
        bed.notary.sign_log(bed.origin("t1"), log, 10, 30)
        # Both slots: that log is unknown, so no new one is taken, and others go on.
        damage(bed.path(), 2 * RECORD + 50)
        damage(bed.path(), 2 * RECORD + SLOT + 50)
        bed.again()
        for name in ("t1", "t9"):
            with refused(wire.DAMAGED):
                bed.notary.sign_log(bed.origin(name), log, 0, 10)
        bed.notary.sign_log(bed.origin("t2"), log, 10, 30)
        has("".join(bed.notary.log), "cannot be read", "its log")


def test_lost_files():
    """A file of the two is gone or damaged: it does not start with a new key or an empty memory."""
    for name, how in (("keys", "gone"), ("keys", "damaged"), ("keys", "open"), ("keys", "short"), ("logs", "gone"), ("logs", "damaged")):
        folder = tempfile.mkdtemp(prefix="cordon-notary-")
        with Bed(folder) as bed:
            bed.notary.sign_log(bed.origin(), Log(leaves(4)), 0)
        path = os.path.join(folder, name)
        if how == "gone":
            os.rename(path, path + ".old")
        elif how == "open":
            os.chmod(path, 0o644)
        elif how == "short":
            os.truncate(path, 100)
        else:
            damage(path, 3)
        notary = Notary(PROGRAM, folder)
        equal(notary.wait(), 1, f"{name} {how}: exit status")
        has("".join(notary.log), "cannot start", "its log")
        check(how != "gone" or not os.path.exists(path), f"{name} was made again")
        shutil.rmtree(folder)


def test_many_logs():
    """As many as it takes, and one more. The file is written here: each one by a request would take 65,536 writes to the disk."""
    with Bed() as bed:
        log = Log(leaves(8))
        bed.notary.sign_log(bed.origin(), log, 0, 4)
        name = bed.name
        bed.notary.close()
        record = b""
        with open(bed.path(), "r+b") as f:
            f.seek(2 * RECORD)
            for i in range(65536 - 2):
                body = struct.pack("<QQ", 1, 4) + log.root(4) + f"{name}/n{i}/1".encode()
                body += bytes(SLOT - 32 - len(body))
                record = verify.hashlib.sha256(body).digest() + body
                f.write(record + bytes(SLOT))
        bed.notary = Notary(PROGRAM, bed.folder)
        equal(bed.notary.keys()[4], 65535, "logs")
        bed.notary.sign_log(bed.origin("last"), log, 0, 4)
        with refused(wire.FULL):
            bed.notary.sign_log(bed.origin("more"), log, 0, 4)
        bed.notary.sign_log(bed.origin("n65533"), log, 4, 8)
        bed.again()
        equal(bed.notary.keys()[4], 65536, "logs after a restart")
        with refused(wire.FULL):
            bed.notary.sign_log(bed.origin("more"), log, 0, 4)
        with refused(wire.ROLLBACK, 8):
            bed.notary.sign_log(bed.origin("n65533"), log, 0, 5)
        with open(f"/proc/{bed.notary.pid}/status") as f:
            rss = int(next(line for line in f if line.startswith("VmRSS")).split()[1])
        check(rss < 64 << 10, f"memory with all logs: {rss} KiB")


# ---- its rights


def test_its_rights():
    with Bed() as bed:
        with open(f"/proc/{bed.notary.pid}/status") as f:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
        equal((status["Seccomp"], status["NoNewPrivs"]), ("2", "1"), "filter of system calls")
        if os.getuid() == 0:
            targets = {fd: os.readlink(f"/proc/{bed.notary.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{bed.notary.pid}/fd")}
            files = [t for fd, t in targets.items() if t.startswith("/") and int(fd) > 2]
            check(set(files) <= {bed.folder, bed.path()}, f"files that it has open: {files}")
            equal(sum("socket:" in t for t in targets.values()), 1, "sockets")
        for name in ("keys", "logs"):
            equal(os.stat(bed.path(name)).st_mode & 0o777, 0o600, f"mode of {name}")


def test_one_at_a_time():
    with Bed() as bed:
        second = Notary(PROGRAM, bed.folder)
        wait_for(lambda: os.path.exists(f"/proc/{second.pid}"), 5, "the second one")
        bed.notary.keys()
        equal(second.wait(), 1, "exit status of a second one")
        has("".join(second.log), "another cordon-notary", "its log")


def main():
    global PROGRAM
    PROGRAM = os.path.abspath(sys.argv[1])
    return run_tap(named_tests(globals(), sys.argv[2:]))


if __name__ == "__main__":
    sys.exit(main())
