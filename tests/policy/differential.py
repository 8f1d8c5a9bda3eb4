#!/usr/bin/python3
"""Our normal forms of hosts and paths against those of others: whatever we accept must mean the same
to them; what another reader could read differently must be refused.

    differential.py NORMAL [--cases N] [--seed N]

Independent readers: node's WHATWG URL, Python's urllib, inet_aton (for what is an address after all),
and a careless server that undoes escapes once or twice, merges slashes and then resolves dots.
"""
import argparse
import os
import posixpath
import random
import re
import shutil
import socket
import subprocess
import sys
from urllib.parse import unquote_to_bytes, urlsplit

HERE = os.path.dirname(os.path.abspath(__file__))
HOSTS = [
    b"example.com", b"Example.COM.", b"a-b_c.example.com", b"xn--bcher-kva.example", b"localhost", b"1.2.3.4.example",
    b"metadata.google.internal", b"host.docker.internal", b"a.0xg", b"1e3.com", b"-a.com", b"a-.com", b"_x._y.z",
]
REFUSED_HOSTS = [
    b"127.0.0.1", b"2852039166", b"0xA9FEA9FE", b"0251.0376.0251.0376", b"0xa9.0xfe.0xa9.0xfe", b"127.1", b"0", b"1.2.3.4.",
    b"::1", b"[::1]", b"::ffff:169.254.169.254", b"[fe80::1%25eth0]", b"allowed.com@evil.com", b"allowed.com\0.evil.com",
    b"a\r\nb.com", b"a%2eb.com", b"%65xample.com", b"a..b", b".a", b"a..", b"b\xc3\xbccher.de", b"a\xe3\x80\x82b.com", b"a b.com",
    b"\xef\xbd\x81.com", b"a\\b.com", b"a/b.com", b"a:80", b"a?b", b"a#b", b"a\tb.com", b"\xe2\x91\xa0.com", b"a\xc2\xad.com", b"x.0X7f",
]
PATHS = [
    b"/", b"/a/b", b"/%61/%7e", b"/a/./b/../c", b"/a/%2e%2e/b", b"/%e2%82%ac", b"/@s%2fp", b"/a;b/c", b"//a//b", b"/a%20b+c",
    b"/a/..", b"/...", b"/a/.b/..c", b"/%7Bx%7d{y}", b"/a%25b", b"/a%2Bb", b"/a//b/../c", b"/a|b^c`", b"/!$&'()*,:=",
]
REFUSED_PATHS = [
    b"/../a", b"/%2e%2e/a", b"/a/../../b", b"/a\\..\\b", b"/a%5c..%5cb", b"/a%2f..%2fb", b"/a/..%2fb", b"/a%2F%2E%2e", b"/%252e%252e/a",
    b"/a/..;/b", b"/.;x/b", b"/a%00b", b"/a%0d%0aHost:x", b"/a\r\nb", b"/a b", b"/a#b", b"/%c0%ae%c0%ae/a", b"/%c0%af", b"/%e0%80%ae",
    b"/%", b"/%2", b"/%zz", b"/%u002e", b"/a//../b", b"/\xc3\xbc", b"a", b"", b"http://x/", b"/%7f", b"/a%252f..%252fb",
]
HOST_PIECES = [
    b".", b"..", b"-", b"_", b"0x", b"0", b"1", b"17", b"a", b"Z", b"xn--", b"%2e", b"%", b"@", b":", b"/", b"\\", b"?", b"#", b"\0", b" ",
    b"\t", b"\n", b"\xe3\x80\x82", b"\xc2\xad", b"[", b"]", b"*", b"127", b"0x7f", b"com", b"\x80", b"~", b"+", b",", b"xn--a",
]
PATH_PIECES = [
    b"/", b"//", b"/.", b"/..", b".", b"..", b"%2e", b"%2E", b"%2f", b"%2F", b"%5c", b"\\", b";", b"%3b", b"%25", b"%252e", b"%252f",
    b"%", b"%4", b"%41", b"%7e", b"a", b"b", b"?", b"#", b"%00", b"%0a", b" ", b"\t", b"+", b"%2b", b"%20", b"{", b"|", b"^", b"\"", b"<",
    b"%c0%ae", b"%c3%bc", b"\xc3", b"@", b":", b"%3A", b"*", b"~", b"'", b"%27", b"&", b"=", b"%e0%80%ae",
]


def mutate(rng, seeds, pieces):
    case = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((0, 1, 1, 2, 3, 5))):
        at = rng.randrange(len(case) + 1)
        case[at : at + rng.choice((0, 0, 1, 2))] = rng.choice(pieces)
    return bytes(case)


def ask(command, kind, cases):
    text = "".join(f"{kind} {c.hex()}\n" for c in cases)
    done = subprocess.run(command, input=text.encode(), stdout=subprocess.PIPE, check=True, timeout=100)
    lines = done.stdout.decode().split("\n")[: len(cases)]
    assert len(lines) == len(cases), "a line for each"
    return [None if line == "-" else bytes.fromhex(line) for line in lines]


def host_of_urllib(raw):
    try:
        parts = urlsplit("http://" + raw.decode("latin-1") + "/")
        return None if parts.hostname is None else parts.hostname.encode("latin-1").removesuffix(b".")
    except (ValueError, UnicodeError):
        return None


def is_address(raw):
    try:
        socket.inet_aton(raw.decode("latin-1").removesuffix("."))
        return True
    except (OSError, UnicodeError, ValueError):
        return False


def check_hosts(cases, ours, node):
    wrong = {"node": [], "python": [], "address": []}
    for raw, mine, theirs in zip(cases, ours, node):
        if mine is None:
            continue
        # Where node is the stricter one: labels that only look like punycode.
        if theirs is None:
            if not re.search(rb"(?i)(^|\.)xn--", raw):
                wrong["node"].append((raw, mine, theirs))
        elif theirs.removesuffix(b".") != mine:
            wrong["node"].append((raw, mine, theirs))
        if host_of_urllib(raw) != mine:
            wrong["python"].append((raw, mine, host_of_urllib(raw)))
        if is_address(raw) or is_address(mine):
            wrong["address"].append((raw, mine, b"an address"))
    return wrong


def segments(path):
    return [unquote_to_bytes(s) for s in path.split(b"/")]


def careless(path, times):
    for _ in range(times):
        path = unquote_to_bytes(path)
    return posixpath.normpath(re.sub(rb"/+", b"/", path.replace(b"\\", b"/")))


def check_paths(cases, ours, node, node_again):
    wrong = {"node": [], "python": [], "sent": []}
    for raw, mine, theirs, again in zip(cases, ours, node, node_again):
        if mine is None:
            continue
        if theirs is None or segments(theirs) != segments(mine):
            wrong["node"].append((raw, mine, theirs))
        if again is None or segments(again) != segments(mine):
            wrong["sent"].append((raw, mine, again))
        for times in (1, 2):
            if careless(raw, times) != careless(mine, times):
                wrong["python"].append((raw, mine, careless(raw, times)))
            dots = re.split(rb"[/\\]", unquote_to_bytes(mine) if times == 1 else unquote_to_bytes(unquote_to_bytes(mine)))
            if any(s in (b".", b"..") for s in dots):
                wrong["python"].append((raw, mine, b"dots are left"))
    return wrong


class Tap:
    def __init__(self, plan):
        self.count, self.failed = 0, 0
        print(f"1..{plan}")

    def row(self, name, wrong):
        self.count += 1
        for case in wrong[:5]:
            print("#", *case)
        self.failed += bool(wrong)
        print(f"{'not ok' if wrong else 'ok'} {self.count} - {name}")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("normal")
    options.add_argument("--cases", type=int, default=30000)
    options.add_argument("--seed", type=int, default=5)
    options = options.parse_args()
    if shutil.which("node") is None:
        print("1..0 # SKIP node is not there")
        return 1 if os.environ.get("CORDON_MUST_WORK") == "1" else 0
    rng = random.Random(options.seed)
    whatwg = ["node", os.path.join(HERE, "whatwg.mjs")]
    tap = Tap(9)

    hosts = HOSTS + REFUSED_HOSTS + [mutate(rng, HOSTS + REFUSED_HOSTS, HOST_PIECES) for _ in range(options.cases)]
    ours = ask([options.normal], "h", hosts)
    wrong = check_hosts(hosts, ours, ask(whatwg, "h", hosts))
    tap.row("hosts we accept are the same to node", wrong["node"])
    tap.row("hosts we accept are the same to urllib", wrong["python"])
    tap.row("hosts we accept are no addresses", wrong["address"])
    bad = [(h,) for h, o in zip(hosts, ours) if (h in HOSTS and o is None) or (h in REFUSED_HOSTS and o is not None)]
    tap.row("known spellings of hosts are accepted or refused as they should be", bad)

    paths = PATHS + REFUSED_PATHS + [mutate(rng, PATHS + REFUSED_PATHS, PATH_PIECES) for _ in range(options.cases)]
    mine = ask([options.normal], "p", paths)
    again = ask(whatwg, "p", [m or b"/" for m in mine])
    wrong = check_paths(paths, mine, ask(whatwg, "p", paths), again)
    tap.row("paths we accept are the same to node", wrong["node"])
    tap.row("what we send on is the same to node", wrong["sent"])
    tap.row("paths we accept are the same to a careless server", wrong["python"])
    bad = [(p,) for p, o in zip(paths, mine) if (p in PATHS and o is None) or (p in REFUSED_PATHS and o is not None)]
    tap.row("known spellings of paths are accepted or refused as they should be", bad)

    taken = [sum(o is not None for o in answers) for answers in (ours, mine)]
    tap.row("enough were accepted to mean something", [] if min(taken) > options.cases / 20 else [tuple(taken)])
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
