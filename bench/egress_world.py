"""The surroundings of the egress part: two network namespaces with a cable between them, the origin,
and the proxies Cordon is compared with.

  world   nginx, the origin, at one address: plain on 80, TLS (ECDSA) on 443
  node    all others: squid, mitmproxy, the load without a proxy, and `cordon run` with its egress

So all are one cable away from the origin, and none meets a service of this machine. The
origin's name is in an /etc/hosts that covers the machine's in our mount namespace.
"""
import contextlib
import ctypes
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
NAME = "origin.bench.example"
ADDRESS = "203.0.113.10"  # kept for examples: egress must be told that it may be reached
NODE_ADDRESS = "203.0.113.1"
SQUID, MITM = 3128, 8080
SMALL = 1024
PROGRAMS = {"nginx": "nginx-light", "openssl": "openssl", "ip": "iproute2"}
PEERS = {"squid": "squid", "mitmdump": "mitmproxy"}

NGINX = """
daemon off;
user root;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log crit;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  sendfile on;
  tcp_nopush on;
  keepalive_timeout 600;
  keepalive_requests 100000000;
  default_type application/octet-stream;
  ssl_certificate {folder}/origin.pem;
  ssl_certificate_key {folder}/origin.key;
  ssl_session_cache off;
  ssl_session_tickets off;
  ssl_buffer_size 16k;
  client_body_temp_path {folder}/nginx.body;
  proxy_temp_path {folder}/nginx.proxy;
  fastcgi_temp_path {folder}/nginx.fastcgi;
  uwsgi_temp_path {folder}/nginx.uwsgi;
  scgi_temp_path {folder}/nginx.scgi;
  server {{
    listen {address}:80 backlog=1024;
    listen {address}:443 ssl backlog=1024;
    root {files};
    location /small {{ return 200 "{small}"; }}
  }}
}}
"""

# No cache, no access log, one worker, connections kept on both sides. (A wider read_ahead_gap did not
# make the large download faster.)
SQUID_CONF = """
http_port 127.0.0.1:{port}
http_access allow all
cache deny all
cache_mem 0 MB
access_log none
cache_store_log none
cache_log {folder}/squid.log
pid_filename none
coredump_dir {folder}
workers 1
client_persistent_connections on
server_persistent_connections on
memory_pools on
shutdown_lifetime 0 seconds
pinger_enable off
via off
forwarded_for delete
"""


def find(name):
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def missing(names):
    """What of these programs is not here, as packages."""
    return [package for name, package in names.items() if not find(name)]


def own_namespace():
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


class World:
    """Until the block ends."""

    def __init__(self, folder, bytes_big):
        self.folder = folder / "egress"
        self.big = bytes_big
        self.files = None
        self.running = {}
        self.spaces = {}
        self.covered = False

    def __enter__(self):
        self.folder.mkdir()
        self.folder.chmod(0o755)
        try:
            self.make_network()
            self.make_authority()
            self.make_files()
            self.cover_hosts()
            self.start_origin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in list(self.running):
            self.stop(name)
        if self.covered:
            subprocess.run(["umount", "/etc/hosts"], check=False)
        for space in self.spaces.values():
            os.close(space)
        if self.files:
            shutil.rmtree(self.files, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- the network

    @contextlib.contextmanager
    def inside(self, name):
        """A socket, and a program, belongs to the namespace of the thread that makes it."""
        home = own_namespace()
        if LIBC.setns(self.spaces[name], CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
        try:
            yield
        finally:
            LIBC.setns(home, CLONE_NEWNET)
            os.close(home)

    def make_network(self):
        home = own_namespace()
        for name in ("node", "world"):
            if LIBC.unshare(CLONE_NEWNET):
                raise SystemExit(f"bench: no network namespace: {os.strerror(ctypes.get_errno())}")
            self.spaces[name] = own_namespace()
            LIBC.setns(home, CLONE_NEWNET)
        os.close(home)
        with self.inside("node"):
            other = f"/proc/{os.getpid()}/fd/{self.spaces['world']}"
            self.call("ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", other)
        for name, address in (("node", NODE_ADDRESS), ("world", ADDRESS)):
            with self.inside(name):
                self.call("ip", "addr", "add", f"{address}/24", "dev", "cable")
                self.call("ip", "link", "set", "lo", "up")
                self.call("ip", "link", "set", "cable", "up")

    @staticmethod
    def call(*words):
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)

    # -- the origin

    def path(self, name):
        return self.folder / name

    def make_authority(self):
        """One that signs, and the origin's certificate; egress, mitmproxy and the load verify it."""
        def make(name, subject, extension, *signer):
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                            "-nodes", "-days", "3", "-keyout", self.path(f"{name}.key"),
                            "-out", self.path(f"{name}.pem"), "-subj", f"/CN={subject}",
                            "-addext", f"basicConstraints=critical,{extension}", *signer],
                           check=True, stderr=subprocess.DEVNULL)
        make("ca", "cordon bench", "CA:TRUE")
        make("origin", NAME, "CA:FALSE", "-addext", f"subjectAltName=DNS:{NAME}",
             "-CA", self.path("ca.pem"), "-CAkey", self.path("ca.key"))

    def make_files(self):
        """The large one in memory, of bytes that are there: holes would be copied from one page."""
        self.files = pathlib.Path(tempfile.mkdtemp(prefix="cordon-bench-", dir="/dev/shm"))
        self.files.chmod(0o755)
        piece = os.urandom(1 << 20)
        with open(self.files / "big", "wb") as file:
            for _ in range(self.big >> 20):
                file.write(piece)

    def cover_hosts(self):
        hosts = self.path("hosts")
        hosts.write_text(f"127.0.0.1 localhost\n{ADDRESS} {NAME}\n")
        self.call("mount", "--bind", str(hosts), "/etc/hosts")
        self.covered = True

    def start_origin(self):
        conf = self.path("nginx.conf")
        conf.write_text(NGINX.format(folder=self.folder, files=self.files, address=ADDRESS,
                                     small="x" * SMALL))
        self.start("nginx", "world", [find("nginx"), "-e", self.path("nginx.log"), "-c", conf],
                   (ADDRESS, 443))

    # -- programs

    def start(self, name, space, command, address):
        """Started in that namespace; returns when the address can be connected to."""
        with open(self.path(f"{name}.out"), "wb") as out, self.inside(space):
            self.running[name] = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL,
                                                  stdout=out, stderr=out, cwd=self.folder)
            end = time.monotonic() + 30
            while self.running[name].poll() is None and time.monotonic() < end:
                with contextlib.suppress(OSError), socket.create_connection(address, 1):
                    return
                time.sleep(0.05)
        raise SystemExit(f"bench: {name} does not start: {self.path(f'{name}.out').read_text()[-1000:]}")

    def stop(self, name):
        process = self.running.pop(name)
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def start_squid(self):
        conf = self.path("squid.conf")
        conf.write_text(SQUID_CONF.format(port=SQUID, folder=self.folder))
        self.path("squid.log").touch(mode=0o666)
        self.path("squid.log").chmod(0o666)
        self.start("squid", "node", [find("squid"), "-N", "-f", conf], ("127.0.0.1", SQUID))

    def start_mitmproxy(self):
        """Bodies are streamed, not collected; nothing is printed or kept; HTTP/1.1 as the others."""
        options = {"confdir": self.path("mitm"), "flow_detail": 0, "http2": "false",
                   "stream_large_bodies": "64k", "store_streamed_bodies": "false",
                   "ssl_verify_upstream_trusted_ca": self.path("ca.pem")}
        words = [word for name, value in options.items() for word in ("--set", f"{name}={value}")]
        self.start("mitmdump", "node", [find("mitmdump"), "-q", "--listen-host", "127.0.0.1",
                                        "-p", MITM, *words], ("127.0.0.1", MITM))
