#!/usr/bin/python3
"""Our codec against llhttp: whatever we accept, llhttp must accept, too, and see the same.

    differential.py VERDICT [--cases N] [--seed N]

Connections of one to three requests, most of them mutated, go to verdict.c and to node's parser. Ours
is the stricter one, so what it refuses proves nothing; but each message it reads must be read by
llhttp with the same method, target, number of headers and body, and end in the same place. That two
independent readers agree is what keeps requests from being smuggled between them.
"""
import argparse
import os
import random
import re
import shutil
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# Where llhttp is the narrower one: methods it does not know, characters and forms of a target, and a
# tab behind a framing, which is white space to RFC 9110.
NARROWER = {
    "error:HPE_INVALID_METHOD": rb"",
    "error:HPE_INVALID_URL": rb"",
    "error:HPE_INVALID_CONTENT_LENGTH": rb"(?i)content-length:[^\r\n]*\t\r\n",
    "error:HPE_INVALID_TRANSFER_ENCODING": rb"(?i)transfer-encoding:[^\r\n]*\t\r\n",
}
SEEDS = [
    b"GET /a?b=c HTTP/1.1\r\nHost: x:80\r\nAccept: */*\r\n\r\n",
    b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
    b"PUT /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nb\r\nhello world\r\n0\r\n\r\n",
    b"PATCH /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nTrailer: y\r\n\r\n",
    b"DELETE /%2e/a HTTP/1.1\r\nhost: [::1]:8\r\nX-Empty:\r\nX-Tab:\ta\tb\t\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://x/a HTTP/1.1\r\nHost: x\r\n\r\n",
    b"HEAD / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nX: \xff\r\n\r\n",
    b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"CONNECT x:443 HTTP/1.1\r\nHost: x:443\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc",
]
PIECES = [
    b"\r\n", b"\n", b"\r", b" ", b"\t", b"\0", b"\x0b", b"\x7f", b"\x80", b":", b",", b";", b"0", b"1", b"5", b"a",
    b"+", b"-", b"0x", b"#", b"?", b"/", b"Content-Length: 5\r\n", b"Content-Length: 3\r\n", b"Content-Length:\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip\r\n", b"Transfer-Encoding: chunked, chunked\r\n",
    b"Transfer-Encoding:\r\n chunked\r\n", b"Transfer-Encoding : chunked\r\n", b"Host: x\r\n", b"Host: y\r\n",
    b"Connection: close\r\n", b"HTTP/1.0", b"HTTP/1.1", b"0\r\n\r\n", b"5\r\nhello\r\n", b"5;a\r\n", b"\r\n\r\n",
]


def mutate(rng, case):
    case = bytearray(case)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        at = rng.randrange(len(case) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            case[at:at] = rng.choice(PIECES)
        elif kind == 1:
            del case[at : at + rng.randrange(1, 4)]
        elif kind == 2:
            case[at : at + 1] = rng.choice(PIECES)
        elif kind == 3:
            case[at : at + 1] = bytes([rng.randrange(256)])
        else:  # behind a line, where a header would be
            lines = [i + 2 for i in range(len(case)) if case[i : i + 2] == b"\r\n"]
            if lines:
                at = rng.choice(lines)
                case[at:at] = rng.choice(PIECES)
        if not case:
            case = bytearray(b"G")
    return bytes(case)


def make_cases(seed, count):
    rng = random.Random(seed)
    cases = list(SEEDS)
    while len(cases) < count:
        parts = [rng.choice(SEEDS) for _ in range(rng.choice((1, 1, 2, 3)))]
        cases.append(mutate(rng, b"".join(parts)))
    return cases


def run(command, cases):
    data = b"".join(struct.pack("<I", len(c)) + c for c in cases)
    done = subprocess.run(command, input=data, stdout=subprocess.PIPE, timeout=300, check=True)
    lines = done.stdout.decode("ascii").splitlines()
    if len(lines) != len(cases):
        raise RuntimeError(f"{command[0]}: {len(lines)} answers to {len(cases)} cases")
    return [(line.split(" ")[:-1], line.split(" ")[-1]) for line in lines]


def differs(case, ours, theirs):
    """Why the two disagree, or None."""
    (mine, end), (other, their_end) = ours, theirs
    narrower = their_end in NARROWER and re.search(NARROWER[their_end], case) is not None
    if narrower and other == mine[: len(other)]:
        return None
    if other[: len(mine)] != mine:
        return "another message"
    if end in ("end", "wait") and len(other) != len(mine):
        return "another number of messages"
    if end == "end" and their_end != "end":
        return "accepted by us only"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("verdict")
    parser.add_argument("--cases", type=int, default=30000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    node = shutil.which("node")
    if node is None:
        if os.environ.get("CORDON_MUST_WORK") == "1":
            print("1..1\nnot ok 1 - CORDON_MUST_WORK is set, but there is no node")
            return 1
        print("1..0 # SKIP no node")
        return 0
    cases = make_cases(args.seed, args.cases)
    ours = run([args.verdict], cases)
    theirs = run([node, "--no-warnings", os.path.join(HERE, "differential.js")], cases)
    print("1..3")
    clean = [i for i in range(len(SEEDS)) if len(ours[i][0]) != 1 or ours[i][0] != theirs[i][0]]
    print(f"{'not ok' if clean else 'ok'} 1 - both read every clean request alike")
    for i in clean:
        print(f"# {cases[i]!r}: {ours[i]}, llhttp {theirs[i]}")
    bad = [(i, why) for i, why in enumerate(map(differs, cases, ours, theirs)) if why]
    print(f"{'not ok' if bad else 'ok'} 2 - llhttp sees what we accept, in {len(cases)} cases, seed {args.seed}")
    for i, why in bad[:20]:
        print(f"# {why}: {cases[i]!r}: {ours[i]}, llhttp {theirs[i]}")
    read, refused = sum(bool(o[0]) for o in ours), sum(o[1] == "bad" for o in ours)
    fair = min(read, refused) > len(cases) // 5
    print(f"{'ok' if fair else 'not ok'} 3 - enough of both: {read} with a message that we read, {refused} refused")
    return 1 if clean or bad or not fair else 0


if __name__ == "__main__":
    sys.exit(main())
