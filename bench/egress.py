"""The egress part of bench/run: what a cell's way out costs, beside squid (an explicit proxy),
mitmproxy (one that terminates TLS) and no proxy at all, on the same origin, slices taking turns.

The load is egressload everywhere. Cordon's rows run it inside a cell of `cordon run`, where it simply
connects; the others run it beside their proxy, and tell it so. A slice starts a new cell with an
egress of its own, and warms up before it counts.
"""
import json
import pathlib
import re
import statistics
import subprocess
import threading
import time

import egress_world as world
from server import table

CONNECTIONS = (1, 64)
BIG = 1 << 30
RULES = (10, 1000)
HTTP, HTTPS = f"http://{world.NAME}:80", f"https://{world.NAME}:443"
TARGETS = {"squid": 1.0, "mitmproxy": 5.0, "decision": 10.0}
PASSED_TARGET = 1.3  # TLS passed through with many connections, beside squid
DOWNLOAD_TARGETS = {"plain HTTP": 1.5, "TLS passed through": 2.0, "TLS terminated": 2.0}
CONGESTION = pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control")
INSIDE = "/opt/egressload"
INSIDE_CA = "/opt/origin-ca.pem"
PATIENCE = 180
WARM = {"mitmproxy": 1.0}  # 64 handshakes on both sides take it that long
FIGURES = ("rate", "median_us", "p99_us", "cpu_us")
HEADINGS = ("per second", "median us", "p99 us", "proxy's CPU us")

# name, URL, the rule that lets a cell do it: a path must be looked at, so TLS is terminated for it
KINDS = {"plain HTTP": (HTTP, f"{world.NAME}:80"),
         "TLS passed through": (HTTPS, f"{world.NAME}:443"),
         "TLS terminated": (HTTPS, f"{world.NAME}:443/**")}


class Contestant:
    """How the load is run for one row. proxy: the name of the process in between, if any."""

    def __init__(self, name, before=(), options=(), trust=True, proxy=None):
        self.name, self.before, self.options, self.trust = name, before, options, trust
        self.proxy = proxy


class Meter:
    """How busy a process is while the load runs: seconds of processor time per second. The first
    moments, when it starts, do not count."""

    def __init__(self, find):
        self.find, self.readings, self.over = find, [], threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def watch(self):
        while not self.over.wait(0.1):
            try:
                text = pathlib.Path(f"/proc/{self.find()}/schedstat").read_text()
            except OSError:
                continue
            self.readings.append((time.monotonic(), int(text.split()[0]) / 1e9))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def busy(self):
        if len(self.readings) < 6:
            return None
        (begin, used_before), (end, used) = self.readings[3], self.readings[-1]
        return (used - used_before) / (end - begin)


def shown(figures):
    """The cells of a table."""
    return [f"{figures[name]:.0f}" if figures[name] else "" for name in FIGURES]


def child(pid, name):
    """Of that process; None if there is none of that name."""
    try:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return next((c for c in children if pathlib.Path(f"/proc/{c}/comm").read_text().strip() == name), None)
    except OSError:
        return None


class Part:
    """One run of the egress part: what bench/run calls a section."""

    def __init__(self, setup, surroundings, judge):
        self.setup, self.world, self.judge = setup, surroundings, judge
        short = setup.options.rounds < 100
        self.slices, self.seconds = 1 if short else 3, 2
        self.load = setup.build / "egressload"
        self.peers = {name: not world.missing({name: package}) for name, package in world.PEERS.items()}

    # -- contestants

    def cordon(self, rule, name="cordon", options=(), policy=None, trust=None):
        """trust None: what the cell's system trusts, which the node's authority is a part of."""
        allowed = ["--policy", policy] if policy else ["--allow", rule]
        authority = self.world.path("ca.pem")
        return Contestant(name, (self.setup.cordon, "run", "--mount", f"{self.load}:{INSIDE}:ro",
                                 "--mount", f"{authority}:{INSIDE_CA}:ro", *allowed,
                                 "--allow-private", f"{world.ADDRESS}/32", "--egress-ca", authority, "--"),
                          options, trust, "cordon-egress")

    def field(self, kind):
        """Who takes part in this kind."""
        tls = KINDS[kind][0] == HTTPS
        found = [Contestant("direct")]
        if self.peers["squid"] and kind != "TLS terminated":
            found.append(Contestant("squid", options=("-p", f"127.0.0.1:{world.SQUID}", *(["-T"] if tls else [])),
                                    proxy="squid"))
        if self.peers["mitmdump"] and kind != "TLS passed through":
            found.append(Contestant("mitmproxy", options=("-p", f"127.0.0.1:{world.MITM}", *(["-T"] if tls else [])),
                                    trust=self.world.path("mitm") / "mitmproxy-ca-cert.pem", proxy="mitmdump"))
        found.append(self.cordon(KINDS[kind][1], trust=INSIDE_CA if kind == "TLS passed through" else None))
        if kind == "plain HTTP":
            found.append(self.cordon(KINDS[kind][1], "cordon, as a proxy", ("-p", "198.18.0.1:3128")))
        return found

    def call(self, who, command):
        """Runs it in the node's namespace. (exit code or None, output, errors, how busy the proxy was)"""
        with self.world.inside("node"):
            process = subprocess.Popen(list(map(str, command)), text=True, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        peer = self.world.running.get(who.proxy)
        with Meter(lambda: peer.pid if peer else child(process.pid, who.proxy)) as meter:
            try:
                output, errors = process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                return None, "", f"not done in {PATIENCE} s", None
        return process.returncode, output, errors, meter.busy()

    def run(self, who, url, *options):
        """One run of the load: its figures, or None (and said)."""
        trust = self.world.path("ca.pem") if who.trust is True else who.trust
        program = INSIDE if who.before else self.load
        command = [*who.before, program, *options, *who.options, *(["-a", trust] if trust else []), url]
        code, output, errors, busy = self.call(who, command)
        lines = [line for line in output.splitlines() if line.startswith("{")]
        figures = json.loads(lines[-1]) if lines else None
        if code != 0 or not figures:
            print(f"{who.name}, {url}: FAILED: {figures['failure'] if figures else errors.strip()[-300:]}")
            self.setup.failed = True
            return None
        figures["cpu_us"] = busy * 1e6 / figures["rate"] if busy and who.proxy else 0.0
        return figures

    # -- requests

    def slices_of(self, rows, *options):
        """{(name, connections): middle of the slices}; all take turns."""
        taken = {}
        for _ in range(self.slices):
            for who, url, connections in rows:
                figures = self.run(who, url, "-c", connections, "-t", self.seconds, "-w", WARM.get(who.name, 0.2),
                                   *options)
                taken.setdefault((who.name, connections), []).append(figures)
        return {key: {name: statistics.median(f[name] for f in all_of)
                      for name in FIGURES}
                for key, all_of in taken.items() if None not in all_of}

    def show(self, figures, connections, bases):
        rows = []
        for (name, n), f in figures.items():
            if n != connections:
                continue
            ratios = [f"{f['rate'] / figures[base, n]['rate']:.2f}" if (base, n) in figures else "" for base in bases]
            rows.append((name, *shown(f), *ratios))
        table((f"{connections} connection{'s' * (connections > 1)}", *HEADINGS, *(f"x {base}" for base in bases)), rows)
        print()

    def requests(self, kind):
        url = KINDS[kind][0] + "/small"
        rows = [(who, url, n) for n in CONNECTIONS for who in self.field(kind)]
        figures = self.slices_of(rows)
        peer = "mitmproxy" if kind == "TLS terminated" else "squid"
        for n in CONNECTIONS:
            self.show(figures, n, ["direct", peer])
            ours, theirs = figures.get(("cordon", n)), figures.get((peer, n))
            target = PASSED_TARGET if kind == "TLS passed through" and n == CONNECTIONS[-1] else TARGETS[peer]
            self.judge(f"egress: {kind}, {n}: requests per second / {peer}", target,
                       ours["rate"] / theirs["rate"] if ours and theirs else None, least=True)

    def fresh(self):
        """A connection (and a handshake) for each request."""
        figures = {}
        for kind, (base, _) in KINDS.items():
            rows = [(who, base + "/small", CONNECTIONS[-1]) for who in self.field(kind)]
            for (name, _), f in self.slices_of(rows, "-x").items():
                figures[kind, name] = f
        table((f"{CONNECTIONS[-1]} at a time", "", *HEADINGS, "x direct"),
              [(kind, name, *shown(f),
                f"{f['rate'] / figures[kind, 'direct']['rate']:.2f}" if (kind, "direct") in figures else "")
               for (kind, name), f in figures.items()])

    # -- one large download

    def downloads(self):
        rows = []
        for kind, (base, _) in KINDS.items():
            speeds = {}
            for _ in range(self.slices):
                for who in self.field(kind):
                    if who.name == "cordon, as a proxy" or (who.name == "mitmproxy" and speeds.get("mitmproxy")):
                        continue  # one is enough of the slowest
                    f = self.run(who, base + "/big", "-n", 1)
                    if f and f["bytes"] == self.world.big:
                        speeds.setdefault(who.name, []).append((f["bytes"] >> 20) / f["seconds"])
            middle = {name: statistics.median(all_of) for name, all_of in speeds.items()}
            direct = middle.get("direct")
            rows += [(kind, name, f"{speed:.0f}", f"{direct / speed:.2f}" if direct else "")
                     for name, speed in middle.items()]
            self.judge(f"egress: {kind}, large download: direct / cordon", DOWNLOAD_TARGETS[kind],
                       direct / middle["cordon"] if direct and "cordon" in middle else None)
        table((f"one download of {self.world.big >> 20} MiB", "", "MiB/s", "direct is faster by"), rows)

    # -- rules

    def decisions(self):
        """policybench's lines "N rules, kind  ns" as they are; the slowest with the most is judged."""
        done = subprocess.run([self.setup.build / "policybench"], text=True, capture_output=True)
        print(done.stdout, end="")
        worst = [int(n) for rules, n in re.findall(r"^\s*(\d+) rules, .*?(\d+) ns$", done.stdout, re.M)
                 if int(rules) == RULES[-1]]
        self.judge(f"egress: the slowest kind of decision with {RULES[-1]} rules", TARGETS["decision"],
                   max(worst) / 1000 if worst else None, " us")

    def policy(self, count):
        """All rules are for the origin, so that each request is compared with all, and the last fits."""
        rules = [f"{world.NAME}/v{i}/**" for i in range(count - 1)] + [f"{world.NAME}/**"]
        path = self.world.path(f"policy-{count}.json")
        path.write_text(json.dumps({"version": 1, "rules": rules}))
        return path

    def rules(self):
        self.decisions()
        print()
        who = [self.cordon(KINDS["plain HTTP"][1], "one rule, by host")]
        who += [self.cordon(None, f"{count} rules, by path", policy=self.policy(count)) for count in RULES]
        for n in CONNECTIONS:
            self.show(self.slices_of([(w, HTTP + "/small", n) for w in who]), n, [who[0].name])


def section(setup, judge, heading):
    absent = world.missing(world.PROGRAMS)
    if absent:
        print(f"skipped: no origin without {', '.join(absent)} (tools/packages-bench)")
        return
    if not all((setup.build / name).exists() for name in ("egressload", "cordon-egress", "policybench")):
        print("skipped: egressload, cordon-egress or policybench is not built")
        return
    for name, package in world.PEERS.items():
        if world.missing({name: package}):
            print(f"{name}: not installed, rows left out (apt-get install {package})")
    print(f"TCP congestion control of this machine: {CONGESTION.read_text().strip()}; between a cell and cordon-egress: reno")
    with world.World(setup.folder, BIG >> 2 if setup.options.rounds < 100 else BIG) as surroundings:
        part = Part(setup, surroundings, judge)
        if part.peers["squid"]:
            surroundings.start_squid()
        if part.peers["mitmdump"]:
            surroundings.start_mitmproxy()
        for kind in KINDS:
            heading(f"egress: {kind}, {world.SMALL} bytes, connections kept")
            part.requests(kind)
        heading(f"egress: a connection for each request, {world.SMALL} bytes")
        part.fresh()
        heading("egress: one large download")
        part.downloads()
        heading("egress: rules")
        part.rules()
