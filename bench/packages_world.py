#!/usr/bin/python3 -B
"""packages_world.py - installs of packages, timed: started by packages.py, in network and mount namespaces of its own.

    packages_world.py BUILD --rounds N [--verdaccio FOLDER]

The registries are those of tests/packages/registry.py, at https://npm.example and https://pypi.example, one cable away.
`direct` runs npm and pip on the node itself; `cordon` runs them in a session of a whole server whose policy has the two
registries; verdaccio and squid run on the node as what they are, a registry and an HTTP proxy, in front of the same
registries. Every run begins without a cache of the client. Prints a line of JSON for each row: [what, who, [seconds]],
or [what, who, text] if it could not be measured."""
import argparse
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parent / "tests"
sys.path[1:1] = [str(TESTS / part) for part in ("packages", "egress", "server", "behaviour", "shared")]
import internet  # noqa: E402
from harness import Server  # noqa: E402
from internet_client import make, policy, sh  # noqa: E402
from registry import Registry  # noqa: E402

NPM_PACKAGES, WHEELS, PAD = 200, 20, 20 << 10
BIG = 500 << 20
DELAY = 0.02
VERDACCIO, SQUID = 4873, 3130  # ports
PROXY = f"http://127.0.0.1:{SQUID}"
# Without a cafile that the machine's own npmrc may name: in a cell and on the node trust is node's own and NODE_EXTRA_CA_CERTS.
QUIET = "--globalconfig=/dev/null --no-audit --no-fund --ignore-scripts --no-update-notifier --loglevel error"

SQUID_CONF = """
http_port 127.0.0.1:{port}
http_access allow all
cache_mem 256 MB
maximum_object_size 64 MB
maximum_object_size_in_memory 64 MB
refresh_pattern . 60 100% 60 override-expire ignore-reload
access_log none
cache_store_log none
cache_log {folder}/squid.log
pid_filename none
coredump_dir {folder}
shutdown_lifetime 0 seconds
pinger_enable off
"""
VERDACCIO_CONF = """
storage: {folder}/storage
uplinks: {{up: {{url: https://npm.example/, strict_ssl: false, max_fails: 100}}}}
packages: {{'**': {{access: $all, proxy: up}}}}
log: {{type: stdout, level: error}}
"""


class Bench:
    def __init__(self, options):
        self.options, self.folder = options, pathlib.Path(internet.FOLDER) / "bench"
        self.ca = os.path.join(internet.FOLDER, "world.pem")
        self.folder.mkdir()
        internet.start()
        self.registry = Registry()
        for i in range(NPM_PACKAGES):
            self.registry.add("npm", f"p{i:03}", "1.0.0", pad=PAD)
        for i in range(WHEELS):
            self.registry.add("pypi", f"w{i:02}", "1.0", pad=5 * PAD)
        big = self.registry.add("pypi", "big", "1.0")
        big.kept["files"] = {"big-1.0-py3-none-any.whl": os.urandom(1 << 20) * (BIG >> 20)}
        self.registry.join(internet.NET)
        self.wheels = " ".join(f"w{i:02}" for i in range(WHEELS))
        self.lock = self.make_lock()
        self.peers = []

    def make_lock(self):
        """The project of `npm ci`, made by npm."""
        project = self.folder / "project"
        project.mkdir()
        (project / "package.json").write_text(json.dumps({"name": "bench", "version": "1.0.0", "dependencies": {
            f"p{i:03}": "1.0.0" for i in range(NPM_PACKAGES)}}))
        subprocess.run(f"npm install --package-lock-only {QUIET} --registry https://npm.example/ --cache {self.folder}/cache", shell=True, check=True,
                       cwd=project, env=self.environment(), capture_output=True, timeout=120)
        return project

    def environment(self):
        """Of clients on the node: nothing of the machine's own settings."""
        return {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(self.folder), "NODE_EXTRA_CA_CERTS": self.ca, "PIP_CERT": self.ca,
                "npm_config_update_notifier": "false", "npm_config_fetch_retries": "0"}

    # ---- on the node

    def on_node(self, line):
        """One run, with a fresh client. Seconds."""
        work = self.folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(self.lock, work)
        begin = time.monotonic()
        done = subprocess.run(line, shell=True, cwd=work, env=self.environment(), capture_output=True, text=True, timeout=300)
        taken = time.monotonic() - begin
        if done.returncode:
            raise RuntimeError(f"{line}: {done.stdout[-500:]} {done.stderr[-800:]}")
        return taken

    def npm_line(self, registry="https://npm.example/", more=""):
        return f"npm ci {QUIET} --cache ./cache --registry {registry} {more}"

    def pip_line(self, index="https://pypi.example/simple", more=""):
        return (f"/usr/bin/python3 -m pip install -q --no-cache-dir --disable-pip-version-check --root-user-action=ignore --target ./p -i {index} "
                f"{more} {self.wheels}")

    def delayed(self, line):
        self.registry.wait = DELAY
        try:
            return self.on_node(line)
        finally:
            self.registry.wait = 0

    # ---- in a session

    def session(self):
        """With all processors, as clients on the node have them."""
        return make(self.server, policy(packages={"registries": self.registry.entries("npm", "pypi")}), limits={"cpus": os.cpu_count()})

    def in_cell(self, line):
        """In a session of its own."""
        s = self.session()
        try:
            for name in ("package.json", "package-lock.json"):
                text = (self.lock / name).read_text()
                sh(self.server, s, f"mkdir -p ~/project && cat > ~/project/{name} <<'E'\n{text}\nE", 0)
            begin = time.monotonic()
            sh(self.server, s, f"cd ~/project && {line}", 0)
            return time.monotonic() - begin
        finally:
            self.server.delete(s["id"])

    def forget(self):
        """The next install finds the cache empty."""
        self.server.destroy()
        self.server = self.start_server()

    def start_server(self):
        return Server(self.options.build / "cordon", egress_ca=self.ca, pool_size=0)

    # ---- peers

    def start(self, command, port):
        process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env=self.environment())
        self.peers.append(process)
        end = time.monotonic() + 30
        while time.monotonic() < end and process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError(f"{command[0]} does not start")

    def start_verdaccio(self):
        folder = self.folder / "verdaccio"
        folder.mkdir()
        (folder / "config.yaml").write_text(VERDACCIO_CONF.format(folder=folder))
        self.start(["node", self.options.verdaccio / "node_modules/verdaccio/bin/verdaccio", "-c", folder / "config.yaml", "-l",
                    f"127.0.0.1:{VERDACCIO}"], VERDACCIO)

    def start_squid(self):
        folder = self.folder / "squid"
        folder.mkdir(mode=0o777)
        (folder / "squid.conf").write_text(SQUID_CONF.format(folder=folder, port=SQUID))
        folder.chmod(0o777)
        self.start([self.squid, "-N", "-f", folder / "squid.conf"], SQUID)

    # ---- rows

    def say(self, what, who, figures):
        print(json.dumps([what, who, figures]), flush=True)

    def rounds(self, what, rows):
        """rows: {who: (run, only in the first round)}, in turns, so that what else the machine does meets all alike."""
        figures = {who: [] for who in rows}
        for i in range(self.options.rounds):
            for who, (run, once) in rows.items():
                if isinstance(figures[who], str) or (once and i > 0):
                    continue
                try:
                    figures[who].append(run())
                except Exception as e:  # a peer that does not work leaves its row empty
                    figures[who] = f"{type(e).__name__}: {e}"[:600]
        for who, taken in figures.items():
            self.say(what, who, taken)

    def first(self, line):
        self.forget()
        return self.in_cell(line)

    def cordon_rows(self, line):
        return {"direct": (lambda: self.on_node(line), False),
                "direct, answers 20 ms later": (lambda: self.delayed(line), False),
                "cordon, first": (lambda: self.first(line), False),
                "cordon, from the cache": (lambda: self.in_cell(line), False)}

    def peer_rows(self, who, line):
        return {f"{who}, first": (lambda: self.on_node(line), True), f"{who}, from its cache": (lambda: self.on_node(line), False)}

    def npm(self):
        rows = self.cordon_rows(self.npm_line())
        if self.options.verdaccio:
            self.start_verdaccio()
            rows |= self.peer_rows("verdaccio", self.npm_line(f"http://127.0.0.1:{VERDACCIO}/", "--replace-registry-host=always"))
        if self.squid:
            rows |= self.peer_rows("squid, plain HTTP", self.npm_line("http://npm.example/", f"--replace-registry-host=always --proxy {PROXY}"))
        self.rounds("npm", rows)

    def pip(self):
        rows = self.cordon_rows(self.pip_line())
        if self.squid:
            rows |= self.peer_rows("squid, plain HTTP", self.pip_line(
                "http://pypi.example/simple", f"--trusted-host pypi.example --trusted-host files.pypi.example --proxy {PROXY}"))
        self.rounds("pip", rows)

    # ---- a large file

    def memory(self):
        """KiB of each kind of process of the server."""
        found = {}
        for name in ("cordon-egress", "cordon-cache", "cordond"):
            for pid in self.server.pids(name):
                text = pathlib.Path(f"/proc/{pid}/status").read_text()
                now = int(text.split("VmRSS:")[1].split()[0])
                found[name] = max(found.get(name, 0), now)
        return found

    def large(self):
        """One file, and how much memory the processes have meanwhile."""
        self.forget()
        url = "https://files.pypi.example" + self.registry.path("pypi", "big", "1.0")
        s = self.session()
        before, peak, over = self.memory(), {}, threading.Event()

        def watch():
            while not over.wait(0.02):
                for name, now in self.memory().items():
                    peak[name] = max(peak.get(name, 0), now)

        def fetch():
            begin = time.monotonic()
            sh(self.server, s, f"curl -sSf -o /dev/null {url}", 0)
            return time.monotonic() - begin
        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            self.rounds("500 MB", {"direct": (lambda: self.on_node(f"curl -sS --cacert {self.ca} -o /dev/null {url}"), False),
                                   "cordon, first": (fetch, True), "cordon, from the cache": (fetch, False)})
        finally:
            over.set()
            watcher.join()
        for name, most in peak.items():
            self.say("memory", name, [before.get(name, 0), most])

    def run(self):
        self.squid = shutil.which("squid") or shutil.which("squid", path="/usr/sbin")
        self.server = self.start_server()
        try:
            if self.squid:
                self.start_squid()
            self.npm()
            self.pip()
            self.large()
        finally:
            self.server.destroy()
            for process in self.peers:
                process.terminate()
                process.wait(20)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--verdaccio", type=pathlib.Path)
    internet.enter()
    Bench(parser.parse_args()).run()
