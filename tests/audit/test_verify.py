#!/usr/bin/python3
"""Two verifiers of audit logs, `cordon audit verify` and examples/verify.py, over good logs and changed ones.

Goal: both say the same about every log (exit status, first bad record, what was counted), and what they say is right.

usage: test_verify.py CORDON_CLIENT CORDON_NOTARY [name ...]
"""
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [HERE, os.path.join(HERE, "..", "shared"), os.path.join(HERE, "..", "notary"), os.path.join(HERE, "..", "..", "examples")]
from audit_world import START_MS, Signer, World, compact, pack  # noqa: E402
from checks import check, equal, has, named_tests, run_tap  # noqa: E402
from notary_channel import Log, Notary  # noqa: E402
import verify  # noqa: E402

CLIENT = NOTARY = FOLDER = ""
GOOD, CHANGED, INCOMPLETE, UNREADABLE = range(4)
COUNTS = ("verified", "records", "pruned", "checkpoints", "cosignatures", "witnessed", "holes", "backwards", "erased")
DICE = random.Random(18)


def path_of(name, data):
    path = os.path.join(FOLDER, name)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())
    return path


def by_client(data, args):
    done = subprocess.run([CLIENT, "audit", "verify", "--json", *args, path_of("log", data)], capture_output=True, text=True, timeout=60)
    found = json.loads(done.stdout) if done.stdout else {"exit": done.returncode, "error": done.stderr}
    equal(done.returncode, found["exit"], f"exit status of the client: {done.stderr}")
    return done.returncode, found


def by_python(data, keys=(), since=None, witnesses=(), quorum=None):
    """In this process: a start of Python for each log would take most of the time. test_the_program runs it as a program."""
    import io
    return verify.verify(verify.lines_of(io.BytesIO(data)), keys=[verify.Key(k) for k in keys], since=verify.Note(since) if since else None,
                         witnesses=[verify.Key(w) for w in witnesses], quorum=quorum)


def both(lines, want, first_bad=None, what="", key=None, since=None, witnesses=(), quorum=None):
    """Runs both. key: one, or several. Returns what was found. want None: whatever, but the same."""
    data = lines if isinstance(lines, bytes) else "".join(line + "\n" for line in lines).encode()
    keys = [key] if isinstance(key, str) else key or []
    args = [f"--witness={w}" for w in witnesses] + [f"--key={k}" for k in keys] + ([f"--quorum={quorum}"] if quorum is not None else [])
    if since:
        args.append("--since=" + path_of("since", since))
    code, found = by_client(data, args)
    code2, found2 = by_python(data, keys, since, witnesses, quorum)
    said = f"{what}: client {found}, verify.py {found2}"
    equal((code, found.get("first_bad")), (code2, found2.get("first_bad")), said)
    equal({k: found[k] for k in COUNTS}, {k: found2[k] for k in COUNTS}, said)
    if want is not None:
        equal(code, want, said)
        check(first_bad is None or found.get("first_bad") == first_bad, said + f", want {first_bad}")
        check((code == CHANGED) == ("first_bad" in found), said)
    return found


def world(n=40, every=13, **how):
    w = World(**how)
    for _ in range(0, n, every):
        w.grow(min(every, n - len(w.leaves)))
        w.checkpoint()
    return w


def index_of(lines, i):
    return next(at for at, line in enumerate(lines) if line.startswith(f'{{"index":{i},'))


# ---- good logs


def test_good_logs():
    w = world()
    found = both(w.lines(), GOOD, key=w.vkey)
    equal((found["verified"], found["records"], found["checkpoints"], found["erased"]), (40, 40, 4, 0), "counted")
    both(w.lines(), GOOD, what="the key that the log names")
    empty = World()
    empty.checkpoint()
    both(empty.lines(), GOOD, what="no record")
    for n in (1, 2, 3, 255, 256, 257, 600):
        both(world(n, 97).lines(), GOOD, what=f"{n} records")


def test_by_the_real_notary():
    folder = tempfile.mkdtemp(prefix="cordon-notary-")
    notary = Notary(NOTARY, folder)
    try:
        name, first = notary.keys()[:2]
        w = World(signer=Signer(name))
        w.vkey, signed = first, [0]

        def sign(size, root):
            note = notary.sign(w.origin, signed[0], size, root, w.log.proof(signed[0], size))
            signed[0] = size
            return note
        w.sign_with = sign
        for _ in range(3):
            w.grow(20)
            w.checkpoint()
        both(w.lines(), GOOD, key=first)
        second = notary.keys(4)[1]  # ROTATE
        w.add("audit.key", {"vkey": second, "former": first, "proof": verify.base64.b64encode(notary.next_proof).decode()})
        w.checkpoint()
        notary.keys(5)  # RETIRE
        w.grow(5)
        w.checkpoint()
        equal(both(w.lines(), GOOD, key=first)["checkpoints"], 5, "checkpoints over a rotation")
        # Who begins with the new key believes what it signed, with all that is below. Not what only the former one did.
        equal(both(w.lines(), GOOD, key=second)["checkpoints"], 2, "checkpoints by the new key")
        both(w.lines()[:64], CHANGED, 0, "only checkpoints from before the key", key=second)
    finally:
        equal(notary.close(), 0, "exit status of cordon-notary")
        shutil.rmtree(folder)


def test_the_program():
    """examples/verify.py as its users run it, and both on standard input."""
    w = world()
    lines = w.lines()
    program = os.path.join(HERE, "..", "..", "examples", "verify.py")
    for change, want in ((0, GOOD), (1, CHANGED)):
        data = "".join(line + "\n" for line in lines).encode()
        data = data.replace(b"req_20", b"req_21", 1) if change else data
        done = subprocess.run([sys.executable, program, "--key", w.vkey], input=data, capture_output=True, timeout=60)
        equal((done.returncode, json.loads(done.stdout)["exit"]), (want, want), done.stderr)
        done = subprocess.run([CLIENT, "audit", "verify", "-"], input=data, capture_output=True, timeout=60)
        equal(done.returncode, want, done.stderr)
        has(done.stdout.decode(), "verdict                " + ("good" if not change else "changed: "), "the text")
        has(done.stdout.decode(), "give the one you kept", "a word on the key")
    for args in (["--key", "nonsense", path_of("log", "")], ["--since", path_of("since", "x\n"), path_of("log", "")], ["/nonexistent"]):
        for run in ([sys.executable, program], [CLIENT, "audit", "verify"]):
            equal(subprocess.run([*run, *args], capture_output=True, timeout=60).returncode, UNREADABLE, f"{run[-1]} {args}")


# ---- changed logs


def test_each_flipped_bit():
    """One bit anywhere: it is always noticed, but where it says nothing (letters of a number in hexadecimal, an erased name)."""
    w = world(12, 5)
    data = "".join(line + "\n" for line in w.lines()).encode()
    quiet = 0
    for at in DICE.sample(range(len(data)), 350):
        changed = bytearray(data)
        changed[at] ^= 1 << DICE.randrange(8)
        found = both(bytes(changed), None, what=f"byte {at}", key=w.vkey)
        quiet += found["exit"] == GOOD
        if found["exit"] == GOOD:
            line = data[data.rfind(b"\n", 0, at) + 1:]
            check(line.startswith((b'{"cordon_audit"',)), f"byte {at} was not noticed: {bytes(changed)[at - 30:at + 30]}")
    check(quiet < 40, f"{quiet} flips were not noticed")


def test_records_dropped_doubled_swapped():
    w = world(60, 20)
    for i in (0, 1, 19, 20, 30, 59):
        lines = w.lines()
        at = index_of(lines, i)
        both(lines[:at] + lines[at + 1:], INCOMPLETE if i in (19, 59) else CHANGED, None if i in (19, 59) else i, f"record {i} dropped")
        both(lines[:at + 1] + lines[at:], CHANGED, i + 1, f"record {i} twice")
        if i + 1 < 60 and i != 19:
            lines[at], lines[at + 1] = lines[at + 1], lines[at]
            both(lines, CHANGED, i, f"records {i} and {i + 1} swapped")
    # With numbers made right again, only the root tells, and no record before the last good checkpoint is doubted.
    drop = World()
    drop.leaves = [leaf.replace(f'"seq":{i},', f'"seq":{i - (i > 30)},') for i, leaf in enumerate(w.leaves) if i != 30]
    lines = [w.head(), *(compact({"index": i, "leaf": leaf}) for i, leaf in enumerate(drop.leaves))]
    for size in (20, 40):
        lines.insert(size + 1 + (size == 40), compact({"checkpoint": w.notes[size]}))
    both(lines, CHANGED, 20, "dropped, and counted again")


def test_records_changed():
    w = world(60, 20)
    for i in (0, 19, 20, 59):
        last = 0 if i < 20 else i // 20 * 20
        for what, old, new, first in (("text", '"request":"req_', '"request":"reQ_', last), ("seq", f'"seq":{i},', f'"seq":{i + 1},', i), ("version", '"v":1', '"v":2', i),
                                      ("spaces", '"v":1,', '"v": 1,', i), ("time", "T", " ", i), ("the end", "}", "} ", i), ("tenant", "ten_a", "ten_b", last)):
            lines = w.lines()
            leaf = w.leaves[i].replace(old, new) if what != "the end" else w.leaves[i] + " "
            lines[index_of(lines, i)] = w.leaf_line(i, leaf=leaf)
            both(lines, CHANGED, first, f"{what} of record {i}")


def test_cut_restored_forked():
    w = world(60, 20)
    lines, kept = w.lines(), w.note(50)
    for n in range(1, len(lines), 7):
        both(lines[:n], INCOMPLETE, what=f"cut after {n} lines")
    data = "".join(line + "\n" for line in lines).encode()
    both(data[:-40], INCOMPLETE, what="cut in a line")
    both(data[:30], UNREADABLE, what="cut in the first line")
    both(b"", UNREADABLE, what="nothing")
    # An older copy is good by itself: the checkpoint that was kept shows it.
    old = world(40, 20)
    both(old.lines(), GOOD, key=w.vkey)
    both(old.lines(), INCOMPLETE, what="an old copy", key=w.vkey, since=kept)
    both(lines, GOOD, what="extends what was kept", key=w.vkey, since=kept)
    both(lines, GOOD, key=w.vkey, since=w.note(0), what="since the start")
    both(lines, GOOD, key=w.vkey, since=w.note(60), what="since the end")
    # Another log by the same key, the same up to record 20.
    fork = world(20, 20)
    fork.grow(3)
    fork.dice.random()
    fork.grow(37)
    fork.checkpoint()
    both(fork.lines(), GOOD, what="the fork alone", key=w.vkey)
    both(fork.lines(), CHANGED, 20, "a fork", key=w.vkey, since=kept)
    mixed = fork.lines()
    mixed[-1] = lines[-1]
    both(mixed, CHANGED, 20, "records of one, checkpoint of the other")
    both(lines, UNREADABLE, what="a checkpoint of another log", since=world(tenant="ten_b").note())
    both(lines, UNREADABLE, what="a kept checkpoint of another key", key=w.vkey, since=w.note(50, signers=[Signer(w.signers[0].name, seed=bytes(32))]))


def test_checkpoints():
    w = world(60, 20)
    other = Signer(w.signers[0].name, seed=bytes(32))

    def with_note(note, size=60):
        lines = w.lines()
        at = next(i for i, line in enumerate(lines) if line == compact({"checkpoint": w.notes[size]}))
        lines[at] = compact({"checkpoint": note})
        return lines
    note = w.notes[60]
    text, line = note.split("\n\n")
    both(w.lines(), CHANGED, 0, "a wrong key", key=other.vkey)
    both(with_note(w.note(60, signers=[other])), CHANGED, 40, "signed by another key")
    both(with_note(w.note(60, root=bytes(32))), CHANGED, 40, "another root")
    both(with_note(w.note(60, origin=w.origin[:-1] + "2")), CHANGED, 40, "another epoch")
    both(with_note(w.note(40), 60), CHANGED, 40, "an old one at the end")
    both(with_note(w.note(61, root=bytes(32))), INCOMPLETE, what="a larger one")
    both(with_note(w.note(60, signers=[*w.signers, other])), GOOD, what="another signature beside it")
    for what, bad in (("no signature", text + "\n\n"), ("not the text that was signed", note.replace("\n60\n", "\n060\n")), ("spaces", note.replace("\n\n", "\n \n")),
                      ("a wrong signature", note[:-10] + ("A" if note[-10] != "A" else "B") + note[-9:]), ("carriage returns", note.replace("\n", "\r\n")), ("another dash", note.replace("\u2014", "-")),
                      ("a line more", note + "x\n"), ("no newline", note[:-1]), ("a long line", text + "\n\n" + line * 40), ("an extension", note.replace("\n\n", "\nmore\n\n"))):
        both(with_note(bad), CHANGED, 40, what)
    lines = w.lines()
    both(lines[:-1], INCOMPLETE, what="without the last one")
    both([x for x in lines if "checkpoint" not in x], INCOMPLETE, what="without any")
    both(lines + lines[-1:], GOOD, what="the last one twice")
    at = index_of(lines, 20)
    lines[at - 1], lines[at] = lines[at], lines[at - 1]
    both(lines, CHANGED, 20, "one record late")


def test_witnesses():
    witnesses = [Signer(f"witness.example/w{i}", 4) for i in range(3)]
    w = World()
    w.witnesses = witnesses[:2]
    w.grow(5)
    w.checkpoint()
    keys = [x.vkey for x in witnesses]
    equal(both(w.lines(), GOOD, witnesses=keys[:2])["cosignatures"], 2, "cosignatures")
    both(w.lines(), INCOMPLETE, witnesses=keys, what="the third one is missing")
    both(w.lines(), GOOD, witnesses=keys, quorum=2)
    both(w.lines(), GOOD, witnesses=keys, quorum=0)
    both(w.lines(), INCOMPLETE, quorum=1, what="no witness is known")
    w.grow(2)
    w.witnesses = []
    w.checkpoint()
    equal(both(w.lines(), GOOD, witnesses=keys[:1], what="the last checkpoint has none")["witnessed"], 5, "witnessed")
    # A checkpoint that was kept with its cosignatures counts, too.
    alone = w.lines()
    del alone[next(i for i, line in enumerate(alone) if "checkpoint" in line)]
    both(alone, INCOMPLETE, witnesses=keys[:1], what="no checkpoint in the log has one")
    kept = w.note(4, witnesses=witnesses[:1])
    found = both(alone, GOOD, what="a kept one has it", witnesses=keys[:1], since=kept, key=w.vkey)
    equal((found["witnessed"], found["cosignatures"]), (4, 1), "witnessed")
    both(alone, CHANGED, 0, "a kept one with a wrong cosignature", witnesses=keys[:1], key=w.vkey, since=w.note(4, witnesses=[]) + witnesses[0].line("x\n1\ny\n"))
    both(w.lines(), GOOD, what="no witness was asked for")
    bad = w.note().rstrip("\n") + "\n" + witnesses[0].line("x\n1\ny\n")
    lines = w.lines()
    lines[-1] = compact({"checkpoint": bad})
    both(lines, GOOD, what="a cosignature that was not asked for")
    both(lines, CHANGED, 5, "a wrong cosignature", witnesses=keys[:1])


# ---- erased values, pruned records, keys, times


def test_sealed_values():
    w = World()
    w.grow(5)
    w.add(sealed={"command": "rm -rf /", "on_behalf": "ann", "path": ""})
    w.grow(2)
    w.checkpoint()
    side = w.sides[5]

    def with_side(new):
        lines = w.lines()
        lines[index_of(lines, 5)] = w.leaf_line(5, side=new) if new != {} else compact({"index": 5, "leaf": w.leaves[5]})
        return lines
    none = both(with_side(side), GOOD)["erased"]
    equal(both(with_side({}), GOOD, what="all erased")["erased"], none + 3, "erased")
    equal(both(with_side({k: v for k, v in side.items() if k != "command"}), GOOD)["erased"], none + 1, "one erased")
    both(with_side(side | {"command": {"salt": side["command"]["salt"], "value": "rm -rf /x"}}), CHANGED, 5, "another value")
    both(with_side(side | {"command": {"salt": "00" * 16, "value": "rm -rf /"}}), CHANGED, 5, "another salt")
    both(with_side(side | {"command": side["on_behalf"]}), CHANGED, 5, "values swapped")
    both(with_side(side | {"other": side["command"]}), CHANGED, 5, "a value of no field")
    twice = with_side(side)
    at = index_of(twice, 5)
    twice[at] = twice[at].replace('"side":{', '"side":{"command":' + compact(side["command"]) + ",")
    both(twice, UNREADABLE, what="a value twice")
    for bad in ({"command": {"salt": "00" * 15, "value": "x"}}, {"command": {"salt": "AA" * 16, "value": "x"}}, {"Command": side["command"]}, {"command": {"value": "x"}}, {"command": "x"}):
        both(with_side(bad), UNREADABLE, what=f"a malformed side {bad}")
    many = {f"f{i}": side["command"] for i in range(129)}
    both(with_side(many), UNREADABLE, what="more values than are read")
    del many["f128"]
    both(with_side(many), CHANGED, 5, "as many values as are read")
    empty = with_side(side)
    empty[at] = compact({"index": 5, "leaf": w.leaves[5]})[:-1] + ',"side":{}}'
    both(empty, GOOD, what="an empty side")
    # A command that looks like the end of a record.
    fake = World()
    fake.add(data={"text": '","sealed":{"a":"c:' + "0" * 64 + '"}}'})
    fake.checkpoint()
    equal(both(fake.lines(), GOOD)["erased"], 0, "a text that looks like a seal")


def test_pruned_records():
    w = world(700, 100)
    w.prune(512)
    w.checkpoint()
    found = both(w.lines(), GOOD, key=w.vkey)
    equal((found["pruned"], found["records"], found["verified"]), (512, 189, 701), "counted")
    lines = w.lines()
    both(lines[:1] + lines[2:], CHANGED, 0, "a tile is missing")
    both(lines[:2] + lines[1:], CHANGED, 256, "a tile twice")
    both(lines[:1] + [lines[2], lines[1]] + lines[3:], CHANGED, 0, "tiles swapped")
    tile = json.loads(lines[1])
    data = bytearray(verify.base64.b64decode(tile["hashes"]))
    data[100] ^= 1
    both([lines[0], compact(tile | {"hashes": verify.base64.b64encode(data).decode()}), *lines[2:]], CHANGED, 0, "a hash of a tile")
    for bad in (tile | {"tile": 1}, tile | {"hashes": tile["hashes"][:-4]}, tile | {"hashes": ""}, tile | {"index": -1}, tile | {"hashes": tile["hashes"][:-1] + "!"}):
        both([lines[0], compact(bad), *lines[2:]], UNREADABLE, what="a malformed tile")
    both(lines, GOOD, key=w.vkey, since=w.note(300), what="a kept checkpoint of pruned records")
    both(lines, CHANGED, 0, key=w.vkey, since=w.note(300, root=bytes(32)), what="another one of pruned records")
    # Records hidden as if they had been pruned.
    w = world(700, 100)
    w.pruned = 512
    both(w.lines(), INCOMPLETE, what="no record says that they were pruned")
    w = world(700, 100)
    w.prune(256)
    w.pruned = 512
    w.checkpoint()
    both(w.lines(), INCOMPLETE, what="fewer were pruned")


def test_rotation():
    w = World()
    first, second, third = (Signer(w.signers[0].name, seed=bytes([i]) * 32) for i in range(3))
    w.signers, w.vkey = [first], first.vkey
    w.grow(5)
    w.checkpoint()
    w.rotate(second)
    w.grow(5)
    w.checkpoint()
    w.rotate(third)
    w.grow(5)
    w.checkpoint()
    both(w.lines(), GOOD, key=first.vkey)
    # By a later key alone: what was signed before it is below a checkpoint that it signed.
    both(w.lines(), GOOD, key=second.vkey)
    both(w.lines(), GOOD, key=third.vkey)
    both(w.lines()[:7], CHANGED, 0, "only checkpoints from before the key", key=second.vkey)
    both(w.lines(), CHANGED, 0, "a key that the log never had", key=Signer(first.name, seed=b"n" * 32).vkey)
    # A key that no signed record names.
    w.signers = [second]
    lines = w.lines()
    lines[-1] = compact({"checkpoint": w.note(signers=[Signer(first.name, seed=b"x" * 32)])})
    both(lines, CHANGED, 12, "an unknown key", key=first.vkey)
    # Named, but the checkpoint with that record is signed by the new key alone.
    w = World()
    w.signers, w.vkey = [first], first.vkey
    w.grow(5)
    w.checkpoint()
    w.name_key(second.vkey, first)
    w.signers = [second]
    w.checkpoint()
    both(w.lines(), CHANGED, 5, "a key that vouches for itself", key=first.vkey)
    for present in ("nonsense", "", "x" * 300, third.vkey[:-1], Signer(first.name, 4).vkey):
        w = World()
        w.grow(2)
        w.add("audit.key", {"vkey": present, "former": ""})
        w.checkpoint()
        both(w.lines(), CHANGED, 2, f"a record of the key {present[:20]!r}")


def named(by, data, more=2):
    """A log by a key, a record of a new key that it signs below, and what the new one signs after that."""
    w = World()
    w.signers, w.vkey = [by[0]], by[0].vkey
    w.grow(5)
    w.add("audit.key", data)
    w.checkpoint()
    w.signers = [by[1]]
    w.grow(more)
    if more:
        w.checkpoint()
    return w


def statement(vkey, by):
    return verify.base64.b64encode(by.sign(f"cordon next key\n{vkey}\n".encode())).decode()


def test_keys_that_nobody_vouches_for():
    """Records of new keys that cordond made up, below a checkpoint that cordon-notary signed. Statements of a key are for one log and one
    new key only. Each record is found as such, whatever signs what follows."""
    name = World().signers[0].name
    first, second, third = (Signer(name, seed=bytes([i]) * 32) for i in range(3))
    other = Signer("cordon.fedcba9876543210", seed=first.name.encode() * 2)  # another node's
    good = statement(second.vkey, first)
    broken = "AAAA" + good[4:]
    cases = {
        "no statement": {"former": first.vkey},
        "no former key": {},
        "nothing": {"former": first.vkey, "proof": ""},
        "a statement of nothing": {"former": first.vkey, "proof": "AAAA" * 21 + "AAA="},
        "another spelling": {"former": first.vkey, "proof": "A" * 88},
        "a changed one": {"former": first.vkey, "proof": broken},
        "a short one": {"former": first.vkey, "proof": good[:-4]},
        "one more byte": {"former": first.vkey, "proof": good[:-2] + "AA"},
        "of the new key about itself": {"former": second.vkey, "proof": statement(second.vkey, second)},
        "of the new key in the former one's name": {"former": first.vkey, "proof": statement(second.vkey, second)},
        "of a key that is not known": {"former": third.vkey, "proof": statement(second.vkey, third)},
        "of another node": {"former": other.vkey, "proof": statement(second.vkey, other)},
        "of another node in this one's name": {"former": first.vkey, "proof": statement(second.vkey, other)},
        "replayed: it names another key": {"former": first.vkey, "proof": statement(third.vkey, first)},
        "replayed: it names the former key": {"former": first.vkey, "proof": statement(first.vkey, first)},
        "a checkpoint of the former key": {"former": first.vkey, "proof": verify.base64.b64encode(first.sign(b"cordon next key\n")).decode()},
        "the former key as one of a witness": {"former": Signer(name, 4, seed=bytes([0]) * 32).vkey, "proof": good},
        "the former key with another name": {"former": Signer(name + "x", seed=bytes([0]) * 32).vkey, "proof": good},
    }
    both(named((first, second), {"vkey": second.vkey, "former": first.vkey, "proof": good}).lines(), GOOD, what="the true one", key=first.vkey)
    for what, data in cases.items():
        for more in (2, 0):  # also if nothing is signed by that key
            w = named((first, second), {"vkey": second.vkey} | data, more)
            both(w.lines(), CHANGED, 5, f"{what} {more}")
            found = both(w.lines(), CHANGED, 5, f"{what} {more}", key=first.vkey)
            has(found["error"], f"record 5 names the new key {second.vkey}", what)
            has(found["error"], "give it with --key", what)
        # Whoever knows the new key from elsewhere says so.
        w = named((first, second), {"vkey": second.vkey} | data)
        both(w.lines(), GOOD, what=what, key=second.vkey)
        both(w.lines(), GOOD, what=what, key=[first.vkey, second.vkey])
        both(w.lines(), CHANGED, 5, what, key=[first.vkey, Signer(name, seed=b"y" * 32).vkey])
    # A node's own statement in the log of another node, whose key signs it.
    w = named((other, second), {"vkey": second.vkey, "former": first.vkey, "proof": good})
    both(w.lines(), CHANGED, 5, "a record of another node's log", key=other.vkey)
    # Two in a row: the first one counts. Given keys do not vouch for others.
    w = named((first, second), {"vkey": second.vkey})
    w.add("audit.key", {"vkey": third.vkey, "former": second.vkey})
    w.checkpoint()
    w.signers = [third]
    w.grow(1)
    w.checkpoint()
    both(w.lines(), CHANGED, 5, "two, none is known", key=first.vkey)
    both(w.lines(), CHANGED, 8, "two, one is known", key=[first.vkey, second.vkey])
    both(w.lines(), CHANGED, None, "two, the last one is known", key=third.vkey)
    both(w.lines(), GOOD, what="both are known", key=[second.vkey, third.vkey])
    # A new key that the log begins with: a folder of cordon-notary that was replaced.
    w = World(signer=second, epoch=2)
    w.add("audit.key", {"vkey": second.vkey, "former": other.vkey, "epoch": 1})
    w.grow(3)
    w.checkpoint()
    both(w.lines(), CHANGED, 0, "no key is known")
    both(w.lines(), CHANGED, 0, "the former one is known", key=other.vkey)
    both(w.lines(), GOOD, what="the new one is known", key=second.vkey)


def test_times():
    for tenant, holes in (("ten_a", 0), ("node", 2)):
        w = World(tenant=tenant)
        for minutes in (0, 30, 29, 60, 59, 90.1, 90.1, 121):
            w.add(ms=START_MS + int(minutes * 60000))
        w.checkpoint()
        found = both(w.lines(), GOOD)
        equal((found["holes"], found["backwards"]), (holes + (tenant == "node"), 2), tenant)
    w = World()
    for text in ("0000-01-01T00:00:00.000Z", "9999-99-99T99:99:99.999Z", "2024-02-29T23:59:60.000Z", "2026-00-00T00:00:00.000Z"):
        w.add()
        w.leaves[-1] = w.leaves[-1].replace(w.leaves[-1].split('"time":"')[1][:24], text)
    w.log.hashes = [verify.leaf_hash(leaf.encode()) for leaf in w.leaves]
    w.checkpoint()
    equal(both(w.lines(), GOOD)["backwards"], 1, "odd times")


# ---- what cannot be read


def test_keys_that_differ_by_verifier():
    """A key with a NUL, in another spelling, or of small order, for which anybody can make a signature."""
    w = world(5)
    second = Signer(w.signers[0].name, seed=b"s" * 32)
    w.add("audit.key", {"vkey": "KEY"})
    w.leaves[-1] = w.leaves[-1].replace("KEY", second.vkey + "\0junk")
    w.log = Log()
    for leaf in w.leaves:
        w.log.add(leaf.encode())
    w.notes = {}
    w.checkpoint()
    both(w.lines(), CHANGED, 5, "a key with a NUL")
    one, order = 1, verify.ORDER
    point = verify.point(hashlib.sha256(b"point 1").digest()[:31] + b"\1") or verify.point(b"\4" + bytes(31))
    eighth = pack(verify.times(order, point))
    for what, number in (("the neutral point", one), ("its other spelling", verify.P + one), ("order 2", verify.P - 1), ("order 4", 0),
                         ("order 4 in another spelling", verify.P), ("of small order", int.from_bytes(eighth, "little") & ((1 << 255) - 1))):
        for sign in (0, 1):
            weak = Signer(w.signers[0].name)
            weak.key = (number | sign << 255).to_bytes(32, "little")
            data = b"\1" + weak.key
            weak.id = hashlib.sha256(weak.name.encode() + b"\n" + data).digest()[:4]
            weak.vkey = f"{weak.name}+{weak.id.hex()}+{verify.base64.b64encode(data).decode()}"
            for r, s in ((pack(verify.BASE), 1), (one.to_bytes(32, "little"), 0)):
                weak.sign = lambda message, r=r, s=s: r + s.to_bytes(32, "little")
                forged = World(signer=weak)
                forged.grow(3)
                forged.checkpoint()
                both(forged.lines(), CHANGED, 0, f"{what}, sign {sign}, s {s}")


def test_a_long_line_that_is_cut():
    data = "".join(line + "\n" for line in world(5).lines()).encode()
    for n, want in (((1 << 20) - 1, INCOMPLETE), (1 << 20, UNREADABLE), ((1 << 20) + 1, UNREADABLE)):
        both(data + b'{"index":5,"leaf":"'.ljust(n, b"x"), want, what=f"{n} bytes without a newline")


def test_lines_of_other_forms():
    w = world(10, 5)
    lines = w.lines()
    at = index_of(lines, 3)
    leaf = json.dumps(w.leaves[3])
    for bad in ("", "{}", "x", lines[at] + " ", " " + lines[at], lines[0], '{"index":3,"leaf":' + leaf + ',"more":1}', '{"leaf":' + leaf + ',"index":3}',
                '{"index":03,"leaf":' + leaf + "}", '{"index":3.0,"leaf":' + leaf + "}", '{"index":99999999999999999999,"leaf":' + leaf + "}", '{"index":3,"leaf":"\\ud800"}',
                '{"index":3,"leaf":"\\udc00\\ud800"}', '{"index":3,"leaf":"\\x41"}', '{"index":3,"leaf":"\\u12g4"}', '{"index":3,"leaf":"a\tb"}', '{"index":3,"leaf":"abc}', '{"checkpoint":null}',
                '{"cordon_audit":2}', "[" + lines[at] + "]"):
        both(lines[:at] + [bad] + lines[at + 1:], UNREADABLE, what=bad[:60])
    for raw in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82"):
        data = "".join(line + "\n" for line in lines).encode().replace(b"req_3", b"req" + raw, 1)
        both(data, UNREADABLE, what=f"bytes {raw}")
    for bad in ("", "{}", lines[1], lines[0].replace("1,", "2,", 1), lines[0].replace("cordon.", "cordon "), lines[0].replace(w.vkey, "x"), lines[0].replace('"first":0', '"first":-1')):
        both([bad, *lines[1:]], UNREADABLE, what=f"the first line {bad[:40]}")
    # Another spelling of the same text is the same record.
    escaped = '{"index":3,"leaf":"' + "".join(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else c for c in w.leaves[3]) + '"' + (',"side":' + compact(w.sides[3]) if w.sides[3] else "") + "}"
    both(lines[:at] + [escaped] + lines[at + 1:], GOOD, what="all escaped")
    pairs = World()
    pairs.add(data={"text": "\U0001f600\U0010ffff"})
    pairs.checkpoint()
    lines = pairs.lines()
    lines[1] = '{"index":0,"leaf":' + json.dumps(pairs.leaves[0]) + "}"
    has(lines[1], "\\ud83d\\ude00", "surrogates")
    both(lines, GOOD, what="pairs of surrogates")


def test_bounds():
    w = World()
    w.add(data={"text": "x" * 7800})
    w.leaves[0] = w.leaves[0].replace("x" * 7800, "x" * (7800 + 8192 - len(w.leaves[0])))
    w.log.hashes = [verify.leaf_hash(w.leaves[0].encode())]
    w.checkpoint()
    equal(len(w.leaves[0]), 8192, "bytes of the record")
    both(w.lines(), GOOD, what="the longest record")
    w.leaves[0] = w.leaves[0].replace("xx", "xxx", 1)
    both(w.lines(), CHANGED, 0, what="a longer one")
    for more, want in ((0, GOOD), (1, UNREADABLE)):
        w = World()
        w.add(data={"pid": 1}, sealed={"command": "y" * 1000})
        size = len(w.lines()[1]) + 1
        w = World()
        w.add(data={"pid": 1}, sealed={"command": "y" * (1000 + (1 << 20) - size + more)})
        equal(len(w.lines()[1]) + 1, (1 << 20) + more, "bytes of the line")
        w.checkpoint()
        both(w.lines(), want, what=f"the longest line and {more}")


def test_random_changes():
    """Several changes at once, at random: only the two verifiers are compared."""
    w = world(30, 7)
    w.rotate(Signer(w.signers[0].name, seed=b"r" * 32))
    w.grow(3)
    w.checkpoint()
    verdicts = set()
    for step in range(120):
        lines = w.lines()
        for _ in range(DICE.randrange(1, 4)):
            a, b = DICE.randrange(len(lines)), DICE.randrange(len(lines))
            act = DICE.randrange(6)
            if act == 0:
                lines[a], lines[b] = lines[b], lines[a]
            elif act == 1:
                lines.insert(a, lines[b])
            elif act == 2 and len(lines) > 1:
                del lines[a]
            elif act == 3:
                at = DICE.randrange(len(lines[a]) + 1)
                lines[a] = lines[a][:at] + DICE.choice(['"', "\\", "}", "0", "\\u0041", "\u00e9", ""]) + lines[a][at + DICE.randrange(2):]
            elif act == 4:
                lines = lines[:a + 1]
            else:
                lines[a] = lines[a].replace("0", "1", 1)
        verdicts.add(both(lines, None, what=f"step {step}", key=w.vkey)["exit"])
    check({CHANGED, INCOMPLETE, UNREADABLE} <= verdicts, f"verdicts: {verdicts}")


def main():
    global CLIENT, NOTARY, FOLDER
    CLIENT, NOTARY = (os.path.abspath(p) for p in sys.argv[1:3])
    FOLDER = tempfile.mkdtemp(prefix="cordon-verify-")
    try:
        return run_tap(named_tests(globals(), sys.argv[3:]))
    finally:
        shutil.rmtree(FOLDER)


if __name__ == "__main__":
    sys.exit(main())
