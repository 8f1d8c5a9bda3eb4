#!/usr/bin/python3
"""packages.py - the package gate of cordon-egress between registries that lie (lying_registry.py) and clients that go away,
while policies change, sessions end and cordon-cache is killed, stopped and replaced.

    packages.py CORDON_EGRESS CORDON_CACHE [--seconds 30] [--seed N]

Meant for sanitized builds (tests/packages/gate_world.py). One session refuses unverified files and never changes: every
file that it gets whole is the true one, and a registry that is honest answers it all the time. Afterwards cordon-egress
has no more descriptors than before, and both programs end without a report."""
import argparse
import contextlib
import http.client
import os
import random
import resource
import signal
import socket
import ssl
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [HERE, os.path.join(HERE, "..", "packages"), os.path.join(HERE, "..", "shared"), os.path.join(HERE, "..", "behaviour")]
from checks import Failed, Skip, check, note, wait_for  # noqa: E402
from gate_world import PROGRAMS, World, document, finish, start  # noqa: E402
from lying_registry import HONEST, Honest, Lying  # noqa: E402

CLIENTS, CELLS, TENANTS = 12, 4, 3
PATIENCE = 40  # seconds that the honest registry's answer may take, while all else happens
PLACEHOLDER = "cordon_" + "p" * 32
SECRET = {"name": "t", "value": "tokentoken123", "placeholder": PLACEHOLDER, "hosts": ["npm.example", "maven.example"]}
HEADERS = ("", "", "", "", "Authorization: Basic YTpi\r\n", f"Authorization: Bearer {PLACEHOLDER}\r\n", "Range: bytes=0-10\r\n", "If-None-Match: *\r\n",
           "Accept: application/vnd.npm.install-v1+json\r\n", "Accept: application/vnd.pypi.simple.v1+json\r\n", "Accept-Encoding: gzip, br\r\n")
HONEST_ENTRY = {"ecosystem": "npm", "host": HONEST}


def whole(s):
    """(status, body) of an answer; None as the body of one that was cut."""
    answer = http.client.HTTPResponse(s)
    try:
        answer.begin()
        is_framed = answer.chunked or answer.length is not None
        body = answer.read()
        return answer.status, body if is_framed else None
    except http.client.IncompleteRead:
        return answer.status, None
    except http.client.HTTPException:
        return 0, None
    finally:
        answer.close()
        s.close()


class Chaos:
    def __init__(self, seed):
        self.seed, self.dice = seed, random.Random(seed)
        self.lying, self.honest = Lying(seed), Honest()
        self.files, self.documents = self.lying.files(), self.lying.documents()
        self.entries = self.lying.entries(*self.lying.parts)
        servers = {host: self.lying.handle for host in self.lying.hosts()}
        self.world = World({**servers, HONEST: self.honest.on}, cache=True)
        self.trust = ssl.create_default_context(cafile=self.world.egress.trusted)
        self.trust.load_verify_locations(self.world.net.path("world.pem"))  # policies without packages read nothing
        self.wrong, self.counts, self.lock = [], {}, threading.Lock()
        self.slowest, self.answered = 0.0, 0
        self.over = threading.Event()
        self.cells = []

    def alive(self):
        return self.world.egress.process.poll() is None

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    # ---- sessions

    def policy(self):
        dice = self.dice
        made = {"registries": dice.sample(self.entries, dice.randint(4, len(self.entries))) if dice.random() < 0.5 else self.entries, "unknown_age": dice.choice(("allow", "deny"))}
        for chance, name, values in ((0.3, "min_age", ("7d", "0s", "3650d")), (0.25, "mode", ("offline-cache", "offline", "open", "pinned")), (0.3, "new_names", (1, 5, 20)),
                                     (0.2, "cache", ("private", "shared")), (0.2, "bytes", ("10K", "1M")), (0.2, "file_bytes", ("1K", "100K")), (0.4, "unverified", ("allow", "deny")),
                                     (0.2, "scripts", ("deny", "allow")), (0.2, "sources", ("deny",)), (0.2, "direct", ("deny", "judge")), (0.2, "search", ("allow",))):
            if dice.random() < chance:
                made[name] = dice.choice(values)
        if dice.random() < 0.3:
            made["deny"] = dice.sample(["npm:p1", "pypi:p2@1.0.1", "go:example.org/m3", "git:team/*", "oci:team/i0", "maven:org.x1:*"], 2)
        if dice.random() < 0.15:
            made["own"] = ["npm:p4", "pypi:p*"]
        if dice.random() < 0.2:
            made["lockfiles"] = [{"name": "requirements.txt", "text": "".join(f"p{i}==1.0.{dice.randrange(1, 4)}\n" for i in range(dice.randrange(1, 6)))}]
        rules = [{"host": host} for host in self.lying.hosts()]
        return document(None if dice.random() < 0.15 else made, rules=rules)

    def secrets(self):
        return [SECRET] if self.dice.random() < 0.3 else []

    def new_cell(self, i):
        return self.world.egress.cell(self.policy(), self.secrets(), tenant=f"t{i % TENANTS}")

    def strict_cell(self):
        """Where no lie may arrive."""
        return self.world.cell({"registries": [*self.entries, HONEST_ENTRY], "unknown_age": "allow", "unverified": "deny"}, tenant="strict")

    # ---- clients

    def ask(self, cell, host, path, dice):
        tls = host != "deb.example" and dice.random() < 0.8
        with contextlib.closing(cell.connect(host, 443 if tls else 80, 8)) as s:
            if dice.random() < 0.2:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            if tls:
                s = self.trust.wrap_socket(s, server_hostname=host)
            method, times = dice.choice(["GET"] * 9 + ["HEAD", "POST"]), dice.choice((1, 1, 1, 3))
            head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{dice.choice(HEADERS)}"
            s.sendall(f"{head}\r\n".encode() * (times - 1) + f"{head}Connection: close\r\n\r\n".encode())
            if dice.random() < 0.15:
                time.sleep(dice.random() * 0.2)
                self.count("left")
                return
            s.settimeout(dice.choice((0.2, 0.2, 1, 5)))
            got = s.recv(65536)
            self.count(got[9:12].decode("latin-1") or "end")
            for _ in range(dice.choice((0, 20))):
                if not s.recv(65536):
                    break
            s.close()

    def client(self, number):
        dice = random.Random(f"{self.seed}/client/{number}")
        while not self.over.is_set() and self.alive():
            host, path = dice.choice(self.documents) if dice.random() < 0.6 else dice.choice(list(self.files))
            try:
                self.ask(dice.choice(self.cells), host, path, dice)
            except OSError as e:
                self.count(type(e).__name__)

    def strict_client(self, number):
        """Reads whole files."""
        dice, files = random.Random(f"{self.seed}/strict/{number}"), list(self.files)
        while not self.over.is_set() and self.alive():
            host, path = dice.choice(files)
            try:
                status, body = whole(start(self.strict, host, path, True, timeout=20))
            except OSError as e:
                self.count(type(e).__name__)
                continue
            self.count(f"strict {status}" if status != 200 else "cut" if body is None else "whole")
            if status == 200 and body is not None and body != self.files[host, path]:
                self.wrong.append(f"https://{host}{path}: {len(body)} bytes that are not the file: {body[:100]!r}")

    def honest_client(self):
        files = [self.honest.parts["npm"].path(p) for p in self.honest.packages]
        data = {self.honest.parts["npm"].path(p): self.honest.parts["npm"].data(p) for p in self.honest.packages}
        while not self.over.is_set() and self.alive():
            path, began = files[self.answered % len(files)], time.monotonic()
            try:
                got = finish(start(self.strict, HONEST, path, True, timeout=PATIENCE))
                why = "" if (got.status, got.body) == (200, data[path]) else repr(got)
            except OSError as e:
                why = repr(e)
            took = time.monotonic() - began
            self.slowest, self.answered = max(self.slowest, took), self.answered + 1
            if why and not self.over.is_set() and self.alive():
                self.wrong.append(f"the honest registry's {path}, after {took:.1f} s: {why}")
            time.sleep(0.2)

    # ---- what changes

    def change(self):
        why = self.dice.choice(self.cells).change(self.policy(), self.secrets())
        check(why == "", f"a policy is not in force: {why}")

    def replace(self):
        i = self.dice.randrange(len(self.cells))
        self.cells[i].detach()
        self.cells[i] = self.new_cell(i)

    def replace_cache(self):
        self.world.replace_cache(kill=self.dice.random() < 0.5, size=self.dice.choice((1 << 30, 1 << 30, 4 << 20)))

    def stop_cache(self):
        os.kill(self.world.cache.pid, signal.SIGSTOP)
        time.sleep(self.dice.choice((0.05, 0.5, 2)))
        os.kill(self.world.cache.pid, signal.SIGCONT)

    def forget(self):
        """Nothing here grows with the time."""
        self.lying.forget()
        self.honest.forget()
        self.world.seen.clear()
        for cell in [*self.cells, self.strict]:
            cell.records.clear()

    def run(self, seconds):
        self.strict = self.strict_cell()
        self.cells = [self.new_cell(i) for i in range(CELLS)]
        threads = [threading.Thread(target=self.client, args=(i,), daemon=True) for i in range(CLIENTS)]
        threads += [threading.Thread(target=self.strict_client, args=(i,), daemon=True) for i in range(2)]
        threads.append(threading.Thread(target=self.honest_client, daemon=True))
        for t in threads:
            t.start()
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.alive() and not self.wrong:
            time.sleep(self.dice.random() * 0.4)
            what = self.dice.choice([self.change] * 12 + [self.replace] * 4 + [self.replace_cache, self.stop_cache, self.forget])
            what()
            self.count(what.__name__)
        self.over.set()
        for t in threads:
            t.join(PATIENCE)
        check(self.alive(), f"cordon-egress ended:\n{self.world.log()[-4000:]}")
        check(not self.wrong, "\n".join(self.wrong[:5]))
        check(self.counts.get("whole", 0) > 0 and self.answered > 0 and self.lying.lies > 0, f"nothing happened: {self.counts}")

    def nothing_is_kept(self, before):
        """All sessions end: descriptors are those of before."""
        for cell in [*self.cells, self.strict]:
            cell.detach()
        check(self.world.egress.ping(), "cordon-egress answers")
        wait_for(lambda: self.descriptors() <= before + 2, 20, f"descriptors of cordon-egress back at {before}: {self.descriptors()}", step=0.2)

    def descriptors(self):
        """Without its connections to the cache and to idle servers, which it may keep."""
        folder, found = f"/proc/{self.world.egress.process.pid}/fd", set()
        for name in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):
                found.add(os.readlink(f"{folder}/{name}"))
        return len(found)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("egress")
    parser.add_argument("cache")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    args = parser.parse_args()
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root for network namespaces")
        sys.exit(1 if os.environ.get("CORDON_MUST_WORK") == "1" else 0)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    PROGRAMS.update(egress=os.path.abspath(args.egress), cache=os.path.abspath(args.cache))
    print(f"1..3\n# seed {args.seed}, {args.seconds:.0f} s", flush=True)
    bad = number = 0

    def step(name, function, *more):
        nonlocal bad, number
        number += 1
        try:
            function(*more)
            why = None
        except (Failed, Skip, OSError, ValueError) as e:
            why = f"{type(e).__name__}: {e}"
        bad += why is not None
        print(f"{'ok' if why is None else 'not ok'} {number} - {name}", flush=True)
        if why is not None:
            print("# " + why.replace("\n", "\n# "), file=sys.stderr, flush=True)

    chaos = Chaos(args.seed)
    chaos.world.egress.ping()
    before = chaos.descriptors()
    step("registries that lie, and an honest one", chaos.run, args.seconds)
    note(f"summary: seed {args.seed}, {chaos.lying.served} answers, {chaos.lying.lies} of them no honest ones, the honest registry's {chaos.answered} after at most "
         f"{chaos.slowest:.1f} s, {dict(sorted(chaos.counts.items()))}")
    step("descriptors of cordon-egress are back", chaos.nothing_is_kept, before)
    step("no report of a sanitizer, and good ends", chaos.world.close)
    if bad:
        note(f"again: --seed {args.seed} --seconds {args.seconds:.0f}")
    sys.stdout.flush()
    os._exit(1 if bad else 0)  # threads of servers may wait


if __name__ == "__main__":
    main()
