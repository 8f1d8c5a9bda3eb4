"""audit_world.py - audit logs for tests of verifiers: records, checkpoints that a real cordon-notary or a key of our own signs,
and the lines of an export. Signs by Ed25519 in Python, on the arithmetic of examples/verify.py."""
import hashlib
import json
import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [os.path.join(HERE, "..", "notary"), os.path.join(HERE, "..", "..", "examples")]
import verify  # noqa: E402
from notary_channel import Log  # noqa: E402


def pack(p):
    inverse = pow(p[2], verify.P - 2, verify.P)
    x, y = p[0] * inverse % verify.P, p[1] * inverse % verify.P
    return (y | (x & 1) << 255).to_bytes(32, "little")


class Signer:
    """An Ed25519 key with a name: of a log (kind 1) or of a witness (kind 4)."""

    def __init__(self, name, kind=1, seed=None):
        h = hashlib.sha512(seed or hashlib.sha256(f"{name} {kind}".encode()).digest()).digest()
        self.a = int.from_bytes(h[:32], "little") & ((1 << 254) - 8) | 1 << 254
        self.prefix, self.name, self.kind = h[32:], name, kind
        self.key = pack(verify.times(self.a, verify.BASE))
        data = bytes([kind]) + self.key
        self.id = hashlib.sha256(name.encode() + b"\n" + data).digest()[:4]
        self.vkey = f"{name}+{self.id.hex()}+{verify.base64.b64encode(data).decode()}"

    def sign(self, message):
        r = int.from_bytes(hashlib.sha512(self.prefix + message).digest(), "little") % verify.ORDER
        point = pack(verify.times(r, verify.BASE))
        k = int.from_bytes(hashlib.sha512(point + self.key + message).digest(), "little") % verify.ORDER
        return point + ((r + k * self.a) % verify.ORDER).to_bytes(32, "little")

    def line(self, text, when=1790000000):
        message = text.encode()
        head = b""
        if self.kind == 4:
            head, message = when.to_bytes(8, "big"), b"cosignature/v1\ntime %d\n" % when + message
        return f"\u2014 {self.name} {verify.base64.b64encode(self.id + head + self.sign(message)).decode()}\n"


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


START_MS = 1790000000000


def time_text(ms):
    import datetime
    t = datetime.datetime.fromtimestamp(ms // 1000, datetime.timezone.utc)
    return t.strftime("%Y-%m-%dT%H:%M:%S") + f".{ms % 1000:03}Z"


class World:
    """A log that grows, with its export."""

    def __init__(self, tenant="ten_a", signer=None, seed=1, epoch=1):
        self.dice = random.Random(seed)
        self.signers = [signer or Signer("cordon.0123456789abcdef")]
        self.origin = f"{self.signers[0].name}/{tenant}/{epoch}"
        self.vkey, self.witnesses = self.signers[0].vkey, []
        self.leaves, self.sides, self.notes, self.log = [], [], {}, Log()
        self.ms, self.pruned = START_MS, 0
        self.sign_with = None  # a function of (size, root): the whole note

    # -- records

    def add(self, kind="execution.started", data=None, sealed=None, ms=None):
        seq, dice = len(self.leaves), self.dice
        self.ms = ms if ms is not None else self.ms + dice.randrange(1, 3000)
        record = {"v": 1, "seq": seq, "time": time_text(self.ms), "type": kind, "code": "EXE01", "tenant": "ten_a", "session": f"i{seq % 7}",
                  "actor": {"key": "key_1", "interface": "api", "request": f"req_{seq}"}, "data": data if data is not None else {"pid": seq, "text": dice.choice(TEXTS)}}
        side = {}
        for name, value in (sealed or {}).items():
            salt = dice.randbytes(16)
            side[name] = {"salt": salt.hex(), "value": value}
            digest = hashlib.sha256(b"cordon-field\0" + salt + name.encode() + b"\0" + value.encode()).hexdigest()
            record.setdefault("sealed", {})[name] = "c:" + digest
        leaf = compact(record)
        self.leaves.append(leaf)
        self.sides.append(side)
        self.log.add(leaf.encode())

    def grow(self, n):
        for _ in range(n):
            sealed = {"command": self.dice.choice(TEXTS), "on_behalf": "ann@example.com"} if self.dice.random() < 0.3 else None
            self.add(sealed=sealed)

    def note(self, size=None, root=None, origin=None, signers=None, witnesses=None):
        size = len(self.leaves) if size is None else size
        root = root or self.log.root(size)
        if self.sign_with:
            return self.sign_with(size, root)
        text = f"{origin or self.origin}\n{size}\n{verify.base64.b64encode(root).decode()}\n"
        lines = [s.line(text) for s in [*(signers or self.signers), *(self.witnesses if witnesses is None else witnesses)]]
        return text + "\n" + "".join(lines)

    def checkpoint(self):
        self.notes[len(self.leaves)] = self.note()

    def name_key(self, vkey, by=None, former=None):
        """The record of a new key, with the proof that cordon-notary makes by the former one."""
        by = by or self.signers[-1]
        proof = verify.base64.b64encode(by.sign(f"cordon next key\n{vkey}\n".encode())).decode()
        self.add("audit.key", {"vkey": vkey, "former": former or by.vkey, "proof": proof})

    def rotate(self, signer):
        """As cordond does it: a record, a checkpoint by both keys, then the new one alone."""
        self.name_key(signer.vkey)
        self.signers = [signer, self.signers[-1]]
        self.checkpoint()
        self.signers = [signer]

    def prune(self, to):
        self.pruned = to
        self.add("audit.pruned", {"from": 0, "to": to, "root_at": to})

    # -- the export

    def head(self, vkey=None):
        return compact({"cordon_audit": 1, "origin": self.origin, "vkey": vkey or self.vkey, "first": self.pruned, "size": len(self.leaves)})

    def leaf_line(self, i, leaf=None, side=None):
        line = {"index": i, "leaf": self.leaves[i] if leaf is None else leaf}
        side = self.sides[i] if side is None else side
        if side:
            line["side"] = side
        return compact(line)

    def lines(self):
        out = [self.head()]
        for i in range(self.pruned // 256):
            data = b"".join(self.log.hashes[i * 256:(i + 1) * 256])
            out.append(compact({"tile": 0, "index": i, "hashes": verify.base64.b64encode(data).decode()}))
        for i in range(self.pruned, len(self.leaves) + 1):
            if i in self.notes and i >= self.pruned:
                out.append(compact({"checkpoint": self.notes[i]}))
            if i < len(self.leaves):
                out.append(self.leaf_line(i))
        return out


TEXTS = ["ls -l", "", "caf\u00e9 \u2014 \U0001f600", 'say "hi" \\ there', "tab\there\nline", "nul\u0000 esc\u001b del\u007f", "},\"sealed\":{\"command\":\"c:", "x" * 300,
         '"data":{"vkey":"', "\ufeff\u2028"]
