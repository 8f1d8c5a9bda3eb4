#!/usr/bin/python3
"""verify.py - verifies an exported audit log. It needs nothing but Python's standard library, and
shares no code with Cordon: `cordon audit verify` must say the same about every file.

usage: verify.py [--key VKEY]... [--since CHECKPOINT_FILE] [--witness VKEY]... [--quorum N] [FILE]

FILE is what `cordon audit export` wrote (default: standard input). The output is one JSON object.
Exit status: 0 good; 1 changed, "first_bad" is the first record that cannot be believed; 2 not
complete; 3 not readable.

Without --key the key named in the file is believed, which only shows that the file agrees with itself.
"""
import argparse
import base64
import hashlib
import json
import re
import sys
import time

# ---- Ed25519 (RFC 8032): verification only

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT = pow(2, (P - 1) // 4, P)


def add(a, b):
    """Points are X, Y, Z, T with x = X/Z, y = Y/Z, xy = T/Z."""
    e, f = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    g, h = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    e, f, g, h = f - e, h - g, h + g, f + e
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(n, a):
    total = (0, 1, 1, 0)
    while n:
        if n & 1:
            total = add(total, a)
        a, n = add(a, a), n >> 1
    return total


def point(data):
    """None: the bytes are no point."""
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & ((1 << 255) - 1)
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * ROOT % P
    if x * x % P != square or (x == 0 and sign):
        return None
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P


BASE = point((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def ed25519_holds(key, message, signature):
    a, r, s = point(key), point(signature[:32]), int.from_bytes(signature[32:], "little")
    if len(signature) != 64 or a is None or r is None or s >= ORDER:
        return False
    eight = times(8, a)
    if eight[0] % P == 0 and (eight[1] - eight[2]) % P == 0:  # of small order: it holds for signatures that nobody made
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % ORDER
    left, right = times(s, BASE), add(r, times(k, a))
    return (left[0] * right[2] - right[0] * left[2]) % P == 0 and (left[1] * right[2] - right[1] * left[2]) % P == 0


# ---- Merkle trees (RFC 6962)


def leaf_hash(data):
    return hashlib.sha256(b"\0" + data).digest()


class Tree:
    """The roots of the largest complete subtrees, the largest first."""

    def __init__(self):
        self.size, self.parts = 0, []

    def add(self, node):
        size = self.size
        while size & 1:
            node, size = hashlib.sha256(b"\1" + self.parts.pop() + node).digest(), size >> 1
        self.parts.append(node)
        self.size += 1

    def root(self):
        if not self.parts:
            return hashlib.sha256(b"").digest()
        node = self.parts[-1]
        for part in reversed(self.parts[:-1]):
            node = hashlib.sha256(b"\1" + part + node).digest()
        return node


# ---- signed notes, checkpoints, keys (C2SP signed-note, tlog-checkpoint, tlog-cosignature)

NAME = r"[!-*,-~]{1,127}"
BASE64 = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
NUMBER = r"0|[1-9][0-9]{0,18}"
VKEY = re.compile(rf"({NAME})\+([0-9a-f]{{8}})\+({BASE64})")
CHECKPOINT = re.compile(rf"({NAME})\n({NUMBER})\n([A-Za-z0-9+/]{{43}}=)\n")
SIGNATURE = re.compile(rf"\u2014 ({NAME}) ({BASE64})\n")
SIZE_MAX = 2**63 - 1


class Tampered(Exception):
    """Its first argument: the first record that cannot be believed."""


class Incomplete(Exception):
    pass


class Unreadable(Exception):
    pass


def decode(text):
    """Base64 with one spelling for each value. None: it is none."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    return data if base64.b64encode(data).decode() == text else None


class Key:
    def __init__(self, text):
        found = VKEY.fullmatch(text)
        data = decode(found[3]) if found else None
        if not data or len(data) != 33 or data[0] not in (1, 4):
            raise Unreadable(f"not a verifier key: {text!r}")
        self.text, self.name, self.kind, self.key = text, found[1], data[0], data[1:]
        self.id = hashlib.sha256(self.name.encode() + b"\n" + data).digest()[:4]
        if self.id.hex() != found[2]:
            raise Unreadable(f"the id of the verifier key is not its own: {text!r}")


class Note:
    """A checkpoint with its signatures. ValueError: it is none."""

    def __init__(self, text):
        end = text.rfind("\n\n")
        if len(text.encode()) > 16384 or end < 0 or not text.endswith("\n"):
            raise ValueError("not a signed note")
        self.text, lines = text[:end + 1], text[end + 2:].splitlines(keepends=True) if "\r" not in text else []
        found = CHECKPOINT.fullmatch(self.text)
        root = decode(found[3]) if found else None
        if root is None or int(found[2]) > SIZE_MAX or not 1 <= len(lines) <= 32:
            raise ValueError("not a checkpoint")
        self.origin, self.size, self.root, self.signatures = found[1], int(found[2]), root, []
        for line in lines:
            found = SIGNATURE.fullmatch(line)
            data = decode(found[2]) if found else None
            if data is None or not 4 < len(data) <= 4096:
                raise ValueError("a malformed signature line")
            self.signatures.append((found[1], data[:4], data[4:]))

    def signed_by(self, key):
        """None: no line of that key. False: a line is wrong. Else True, or the time of a cosignature."""
        verdict = None
        for name, of, data in self.signatures:
            if (name, of) != (key.name, key.id):
                continue
            text, verdict = self.text.encode(), True
            if key.kind == 4:
                verdict = int.from_bytes(data[:8], "big")
                text, data = b"cosignature/v1\ntime %d\n" % verdict + text, data[8:]
                if verdict > SIZE_MAX:
                    return False
            if len(data) != 64 or not ed25519_holds(key.key, text, data):
                return False
        return verdict


# ---- the lines of an export. They have one form, so no general reader of JSON is needed.

STRING = r'"((?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*)"'
HEAD = re.compile(rf'\{{"cordon_audit":1,"origin":{STRING},"vkey":{STRING},"first":({NUMBER}),"size":({NUMBER})\}}')
TILE = re.compile(rf'\{{"tile":0,"index":({NUMBER}),"hashes":"({BASE64})"\}}')
SIDE_FIELD = rf'"([a-z0-9_]{{1,32}})":\{{"salt":"([0-9a-f]{{32}})","value":{STRING}\}}'
SIDE = rf'\{{(?:{SIDE_FIELD}(?:,{SIDE_FIELD})*)?\}}'
LEAF = re.compile(rf'\{{"index":({NUMBER}),"leaf":{STRING}(?:,"side":({SIDE}))?\}}')
MARK = re.compile(rf'\{{"checkpoint":{STRING}\}}')
LINE_MAX = 1 << 20
VALUES_MAX = 128
KEYS_MAX = 256  # of a log, one after the other

RECORD_MAX = 8192
RECORD = re.compile(rf'\{{"v":1,"seq":({NUMBER}),"time":"(\d\d\d\d)-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.(\d\d\d)Z",'
                    r'"type":"([a-z0-9_.]{1,64})"[,}].*', re.S | re.A)
SEALED_FIELD = r'"([a-z0-9_]{1,32})":"c:([0-9a-f]{64})"'
SEALED = re.compile(rf',"sealed":\{{({SEALED_FIELD}(?:,{SEALED_FIELD})*)\}}\}}\Z')
NEW_KEY = re.compile(r',"data":\{"vkey":"([^"\\]*)"(?:,"former":"([^"\\]*)","proof":"([^"\\]*)")?')
PRUNED = re.compile(rf',"data":\{{"from":({NUMBER}),"to":({NUMBER})[,}}]')
HEARTBEATS_MS = 2 * 15 * 60 * 1000


def text_of(body):
    """The text of a JSON string, given without its quotes."""
    text = json.loads(f'"{body}"')
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Unreadable("half a character") from None
    return text


def milliseconds(year, month, day, hour, minute, second, more):
    """Since 1970, of the proleptic Gregorian calendar."""
    year -= month <= 2
    era, of_era = year // 400, year % 400
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    days = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + day_of_year - 719468
    return (((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + more


class Verifier:
    def __init__(self, keys=(), since=None, witnesses=(), quorum=None):
        # The given key and those after it, and the one that the log names first and those after it.
        self.given, self.trusted, self.named, self.since, self.witnesses = list(keys), list(keys), [], since, witnesses
        self.taken = {"trusted": 0, "named": 0, "checked": 0}  # of new_keys
        self.quorum = len(witnesses) if quorum is None else quorum
        self.head, self.tree, self.verified, self.since_met = None, Tree(), 0, False
        self.new_keys, self.pruned_told, self.last_ms, self.is_node = [], 0, None, False
        self.is_unsigned, self.is_witnessed, self.most = False, False, 0
        self.found = {"records": 0, "pruned": 0, "checkpoints": 0, "cosignatures": 0, "witnessed": 0, "holes": 0, "backwards": 0, "erased": 0,
                      "age_s": None}

    # -- lines

    def line(self, raw):
        try:
            line = raw.decode()
        except UnicodeDecodeError:
            raise Unreadable("not UTF-8") from None
        if self.head is None:
            return self.on_head(HEAD.fullmatch(line))
        for form, act in ((LEAF, self.on_leaf), (MARK, self.on_checkpoint), (TILE, self.on_tile)):
            found = form.fullmatch(line)
            if found:
                return act(found)
        raise Unreadable("a line of no known form")

    def on_head(self, found):
        if not found:
            raise Unreadable("the first line is not that of an export")
        self.head = {"origin": text_of(found[1]), "first": int(found[3]), "size": int(found[4])}
        named = Key(text_of(found[2]))
        if named.kind != 1 or not re.fullmatch(NAME, self.head["origin"]):
            raise Unreadable("the first line is not that of an export")
        if self.head["first"] > SIZE_MAX or self.head["size"] > SIZE_MAX:
            raise Unreadable("the first line is not that of an export")
        if self.since and self.since.origin != self.head["origin"]:
            raise Unreadable("the checkpoint of --since is of another log")
        self.trusted, self.named = self.trusted or [named], [named]
        self.is_node = self.head["origin"].split("/")[1:2] == ["node"]
        if self.since and self.judge(self.since, self.trusted) is not True:
            raise Unreadable("the checkpoint of --since is not signed by the key")
        self.meet_since()

    def add(self, node):
        if self.tree.size == SIZE_MAX:
            raise Unreadable("a log of too many records")
        self.tree.add(node)
        self.meet_since()

    def meet_since(self):
        if self.since and self.tree.size == self.since.size:
            self.since_met = True
            if self.tree.root() != self.since.root:
                raise Tampered(self.verified, "the log does not extend the checkpoint of --since")
            self.count_witnesses(self.since)

    def on_tile(self, found):
        data, size = decode(found[2]), self.tree.size
        if data is None or len(data) != 8192:
            raise Unreadable("a malformed tile")
        if int(found[1]) != size // 256 or size % 256:
            raise Tampered(size, "a tile out of its place")
        for at in range(0, 8192, 32):
            self.add(data[at:at + 32])
        self.found["pruned"] = self.tree.size
        self.last_ms = None

    def on_leaf(self, found):
        leaf, index = text_of(found[2]).encode(), self.tree.size
        values = re.findall(SIDE_FIELD, found[3] or "")
        side = {name: (salt, text_of(value)) for name, salt, value in values}
        if len(side) != len(values) or len(values) > VALUES_MAX:
            raise Unreadable("a value of a record comes twice, or there are too many")
        if int(found[1]) != index:
            raise Tampered(index, f"record {found[1]} is in its place")
        self.check_record(index, leaf.decode(), side)
        self.add(leaf_hash(leaf))
        self.found["records"] += 1

    def check_record(self, index, leaf, side):
        found = RECORD.fullmatch(leaf)
        if not found or len(leaf.encode()) > RECORD_MAX or not leaf.endswith("}") or int(found[1]) != index:
            raise Tampered(index, "not the record of that number")
        sealed = SEALED.search(leaf)
        fields = re.findall(SEALED_FIELD, sealed[1]) if sealed else []
        sealed = dict(fields)
        if len(sealed) != len(fields):
            raise Tampered(index, "not the record of that number")
        for name, (salt, value) in side.items():
            digest = hashlib.sha256(b"cordon-field\0" + bytes.fromhex(salt) + name.encode() + b"\0" + value.encode()).hexdigest()
            if sealed.get(name) != digest:
                raise Tampered(index, f"the value of {name} is not the one that was recorded")
        self.found["erased"] += len(sealed) - len(side)
        self.check_time(milliseconds(*map(int, found.groups()[1:8])))
        if found[9] == "audit.key":
            new = NEW_KEY.search(leaf)
            if new and len(self.new_keys) < KEYS_MAX:
                self.new_keys.append((index, *self.new_key(*new.groups())))
        if found[9] == "audit.pruned":
            told = PRUNED.search(leaf)
            if told and int(told[1]) <= self.pruned_told:
                self.pruned_told = max(self.pruned_told, int(told[2]))

    def check_time(self, ms):
        if self.last_ms is not None:
            self.found["backwards"] += ms < self.last_ms
            self.found["holes"] += self.is_node and ms - self.last_ms > HEARTBEATS_MS
        self.last_ms = ms

    # -- checkpoints

    @staticmethod
    def judge(note, keys):
        verdicts = [note.signed_by(key) for key in keys]
        return False if False in verdicts else True if True in verdicts else None

    def on_checkpoint(self, found):
        try:
            note = Note(text_of(found[1]))
        except ValueError as e:
            raise Tampered(self.verified, str(e)) from None
        if note.origin != self.head["origin"]:
            raise Tampered(self.verified, "a checkpoint of another log")
        trusted, named = self.judge(note, self.trusted), self.judge(note, self.named)
        if False in (trusted, named):
            raise Tampered(self.verified, "a wrong signature")
        if True not in (trusted, named):
            self.not_signed()
        if note.size > self.tree.size:
            raise Incomplete(f"records {self.tree.size} to {note.size - 1} are missing")
        if note.size < self.tree.size:
            raise Tampered(note.size, "a checkpoint out of its place")
        if note.root != self.tree.root():
            raise Tampered(self.verified, "the records are not those that were signed")
        self.count_witnesses(note)
        self.is_unsigned = not trusted  # by a key from before the trusted one: a trusted one must follow
        if trusted:
            self.verified = note.size
            self.found["checkpoints"] += 1
            self.found["age_s"] = None if self.last_ms is None else max(0, int(time.time()) - self.last_ms // 1000)
            self.take_new_keys("trusted")
        if named:
            self.take_new_keys("named")
        if trusted:
            self.check_new_keys()

    def count_witnesses(self, note):
        verdicts = [note.signed_by(witness) for witness in self.witnesses]
        if False in verdicts:
            raise Tampered(self.verified, "a wrong cosignature")
        cosigned = len(verdicts) - verdicts.count(None)
        self.found["cosignatures"] += cosigned
        self.most = max(self.most, cosigned)
        if cosigned >= self.quorum:
            self.is_witnessed, self.found["witnessed"] = True, note.size

    # -- new keys

    @staticmethod
    def new_key(text, former, proof):
        """The key that a record names, and the former one if that has signed it. None: there is none, or it has not. Only
        cordon-notary can have a key do so: a record alone proves nothing, since a cordond that was taken over can write any."""
        keys = []
        for each in (text, former):
            try:
                key = Key(each or "")
            except Unreadable:
                key = None
            keys.append(key if key and key.kind == 1 else None)
        signature = decode(proof or "")
        if None in keys or not signature or len(signature) != 64 or not ed25519_holds(keys[1].key, f"cordon next key\n{text}\n".encode(), signature):
            keys[1] = None
        return keys

    @staticmethod
    def has(keys, key):
        return key is not None and key.text in [k.text for k in keys]

    def take_new_keys(self, name):
        """Keys that a believed key has named are believed from then on."""
        keys = getattr(self, name)
        for _, key, former in self.new_keys[self.taken[name]:]:
            if self.has(keys, former) and not self.has(keys, key) and len(keys) < KEYS_MAX:
                keys.append(key)
        self.taken[name] = len(self.new_keys)

    def is_vouched_for(self, key, former):
        """Without the statement of a former key a new one counts only if the user has it from elsewhere. Of an export that begins
        behind a change, the former key may not be known."""
        known = self.trusted + self.named
        return self.has(self.given, key) or (former is not None and (self.has(known, former) or self.has(known, key)))

    def check_new_keys(self):
        for index, key, former in self.new_keys[self.taken["checked"]:]:
            if key is None:
                raise Tampered(index, "a record of a new key without a key")
            if not self.is_vouched_for(key, former):
                raise Tampered(index, self.not_vouched_for(index, key))
        self.taken["checked"] = len(self.new_keys)

    @staticmethod
    def not_vouched_for(index, key):
        return (f"record {index} names the new key {key.text}, and no known key has signed that: it may be made up, or the folder of "
                "cordon-notary was replaced. If you know that the key is right, give it with --key")

    def not_signed(self):
        """A checkpoint by no believed key: most likely by one that a record names."""
        for index, key, former in self.new_keys:
            if key and not self.is_vouched_for(key, former):
                raise Tampered(self.verified, self.not_vouched_for(index, key))
        raise Tampered(self.verified, "a checkpoint that is not signed by the key")

    def end(self):
        size = self.tree.size
        if self.head is None:
            raise Unreadable("there is no export")
        if self.is_unsigned:
            self.not_signed()
        if size < self.head["size"]:
            raise Incomplete(f"records {size} to {self.head['size'] - 1} are missing")
        if self.since and not self.since_met:
            raise Incomplete("the log is shorter than the checkpoint of --since")
        if not self.found["checkpoints"] or self.verified < size:
            raise Incomplete(f"no checkpoint has the records from {self.verified} on")
        if self.pruned_told < self.found["pruned"]:
            raise Incomplete("records are missing, and no record says that they were pruned")
        if not self.is_witnessed:
            raise Incomplete(f"{self.most} of {self.quorum} witnesses have signed a checkpoint")


def verify(lines, **how):
    """lines: bytes each. Returns the exit status and what was found."""
    v = Verifier(**how)
    code, found = 0, {}
    try:
        for line in lines:
            if len(line.rstrip(b"\n")) >= LINE_MAX:  # the longest line has its newline inside of the bound
                raise Unreadable("a line is too long")
            if not line.endswith(b"\n"):
                raise Incomplete("the last line is cut off") if v.head else Unreadable("there is no export")
            v.line(line[:-1])
        v.end()
    except Tampered as e:
        code, found = 1, {"first_bad": e.args[0], "error": e.args[1]}
    except Incomplete as e:
        code, found = 2, {"error": str(e)}
    except Unreadable as e:
        code, found = 3, {"error": str(e)}
    return code, {"exit": code, **found, "verified": v.verified, **v.found}


def lines_of(file):
    while True:
        line = file.readline(LINE_MAX + 1)
        if not line:
            return
        yield line


def main():
    p = argparse.ArgumentParser(description="Verifies an exported audit log.")
    p.add_argument("--key", action="append", default=[])
    p.add_argument("--since")
    p.add_argument("--witness", action="append", default=[])
    p.add_argument("--quorum", type=int)
    p.add_argument("file", nargs="?", default="-")
    a = p.parse_args()
    try:
        since = None
        if a.since:
            with open(a.since, encoding="utf-8", newline="") as f:
                since = Note(f.read(16385))
        how = {"keys": [Key(k) for k in a.key], "since": since, "witnesses": [Key(w) for w in a.witness], "quorum": a.quorum}
        with sys.stdin.buffer if a.file == "-" else open(a.file, "rb") as f:
            code, found = verify(lines_of(f), **how)
    except (Unreadable, ValueError, OSError) as e:
        code, found = 3, {"exit": 3, "error": str(e)}
    print(json.dumps(found))
    return code


if __name__ == "__main__":
    sys.exit(main())
