#!/usr/bin/python3 -B
"""Goal: `cordon serve` as an operator meets it: settings, sockets, TLS, systemd. Its end and its upgrade: test_upgrade.py.

    test_serve.py CORDON [name ...]
"""
import contextlib
import ctypes
import http.client
import os
import shutil
import signal
import socket
import sqlite3
import ssl
import stat
import subprocess
import tempfile
import threading

import harness
from harness import Server, check, children, comm, equal, free_port, has, run_tests, wait_for

KILLS = True  # upgrades end programs


def serve(*flags, env=None, timeout=20):
    """`cordon serve` that is expected to end by itself: (code, output, errors)."""
    done = subprocess.run(
        [harness.PROGRAM, "serve", *flags],
        env={"PATH": "/usr/bin:/bin", "HOME": "/root", **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@contextlib.contextmanager
def file_of(text):
    with tempfile.NamedTemporaryFile("w", prefix="cordon-conf-", suffix=".conf") as f:
        f.write(text)
        f.flush()
        yield f.name


def settings(*flags, **more):
    code, out, err = serve("--check", *flags, **more)
    equal((code, err), (0, ""), f"--check {flags}")
    return dict(line.split(" = ", 1) for line in out.splitlines())


def bad(*flags, **more):
    code, out, err = serve("--check", *flags, **more)
    equal((code, out), (2, ""), f"--check {flags} {more}: {err}")
    check(err.startswith("cordon serve: ") and err.count("\n") == 1, f"not one message: {err!r}")
    return err


# -- settings


def test_check_prints_what_it_would_use():
    all_of_them = settings()
    check(len(all_of_them) > 45, f"only {len(all_of_them)} settings")
    with file_of("".join(f"{n} = {v}\n" for n, v in all_of_them.items())) as path:
        equal(settings("--config", path), all_of_them, "its output as its input")
    listed = serve("--settings")[1]
    for name in all_of_them:
        has(listed, "--" + name.replace("_", "-"), "--settings")


def test_network_settings_are_looked_into():
    has(bad("--network-default=pypi,nosuch"), "network_default: extends: there is no preset 'nosuch'")
    equal(settings("--network-default=pypi,npm")["network_default"], "pypi,npm")
    has(bad("--build-network=pypi,nosuch"), "build_network: extends: there is no preset 'nosuch'")
    has(bad("--build-networks=pypi,nosuch"), "build_networks: extends: there is no preset 'nosuch'")
    has(bad("--image-alias=a=b,c"), "image_alias: 'c' is not IMAGE=TEMPLATE")
    has(bad("--registries=*, docker"), "registries: 'docker' is not")
    has(bad("--image-mirror=docker.io=http://10.0.0.1:5000"), "http:// for loopback only")
    settings("--registries=*, *.example.com, 10.0.0.5:5000 localhost", "--image-mirror=docker.io=http://127.0.0.1:5000")
    for text, words in (('{"version": 1, "rules": [{"host": "a b"}]}', "rules[0].host"), ("{", "egress_policy"), ("[]", "egress_policy")):
        with file_of(text) as path:
            has(bad(f"--egress-policy={path}"), words)
    with file_of('{"version": 1, "private": ["10.0.0.0/8"]}') as path:
        equal(settings(f"--egress-policy={path}")["egress_policy"], path)
    has(bad("--egress-policy=/nowhere"), "egress_policy: open /nowhere")


def test_every_setting_is_checked_and_named():
    texts = {"listen": "nowhere", "unix_socket": "x" * 200, "user": "", "template": "", "state_dir": "relative"}
    texts |= {"run_dir": "a/../b", "tls_cert": "relative", "tls_key": "relative", "mount_roots": "relative"}
    texts |= {"domain": "Not.A.Name", "network_default": "", "egress_user": "x" * 100, "cache_user": "x" * 100, "notary_user": "x" * 100, "redact_patterns": "[a-"}
    texts |= {"build_network": "x" * 100, "build_networks": "x" * 100, "image_alias": "x" * 2000}
    for name in settings():
        wrong = texts.get(name, "no-such-value")
        has(bad(f"--{name.replace('_', '-')}={wrong}"), name, "flag")
        has(bad(env={f"CORDON_{name.upper()}": wrong}), name, "environment")
        with file_of(f"# first\n\n{name} = {wrong}\n") as path:
            err = bad("--config", path)
            has(err, name, "file")
            if name not in ("listen", "redact_patterns", "redact", "alarms", "node_name", "registries", "image_mirror", "levels"):  # these are checked when all is read
                has(err, f"{path}:3", "file and line")


def test_the_files_form_is_checked():
    for text, line, words in (
        ("pool_size = 1\nshoe_size = 43\n", 2, "shoe_size"),
        ("pool_size = 1\npool_size = 2\n", 2, "pool_size"),
        ("pool_size\n", 1, "pool_size"),
        ("\n\n= 3\n", 3, ""),
    ):
        with file_of(text) as path:
            err = bad("--config", path)
            has(err, f"{path}:{line}", text)
            has(err, words, text)
    has(bad("--config", "/no/such/file"), "/no/such/file", "missing file")
    has(bad("--memory-default=9G"), "memory_default", "a default above its maximum")
    has(bad("--tls-cert=/x"), "tls_key", "half of TLS")
    code, _, err = serve("--shoe-size", "43")
    equal(code, 2, "unknown flag")
    has(err, "shoe-size", "unknown flag")


def test_flags_win_over_environment_over_file():
    with file_of("pool_size = 1\npool_max = 11 # why\nmemory_default = 128M\n") as path:
        env = {"CORDON_POOL_SIZE": "2", "CORDON_POOL_MAX": "12"}
        got = settings("--config", path, "--pool-size", "3", env=env)
        equal((got["pool_size"], got["pool_max"], got["memory_default"]), ("3", "12", "128M"), "all three")
        equal(settings(env={**env, "CORDON_CONFIG": path})["memory_default"], "128M", "$CORDON_CONFIG")
    equal(settings("--state", "/a/b")["state_dir"], "/a/b", "--state")


def test_beyond_this_machine_only_with_tls_or_a_word():
    for where in ("0.0.0.0:4983", "[::]:4983", "192.0.2.1:80"):
        has(bad("--listen", where), "listen", where)
        has(bad("--listen", where), "TLS", where)
        equal(settings("--listen", where, "--allow-remote-plain=yes")["listen"], where, "with the word")
        settings("--listen", where, "--tls-local")
        with tempfile.TemporaryDirectory() as d:
            cert, key = certificate(d)
            settings("--listen", where, f"--tls-cert={cert}", f"--tls-key={key}")
    for where in ("127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1"):
        settings("--listen", where)
    with tempfile.TemporaryDirectory() as d:
        code, _, err = serve(f"--state={d}/s", f"--run={d}/r", "--user=64983", "--listen=0.0.0.0:0")
        check(code != 0 and "listen" in err, f"started: {code} {err}")
    with Server(listen=f"0.0.0.0:{free_port()}", allow_remote_plain="yes", pool_size=0) as server:
        server.want(200, "GET", "/v1/node")


def test_one_server_for_one_folder(server):
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o711)
        code, _, err = serve(f"--state={d}/s", f"--run={server.run_dir}", "--user=64983", "--listen=127.0.0.1:0")
    check(code not in (0, None), "a second server in the same run folder")
    has(err, "run_dir", "why")
    server.want(200, "GET", "/v1/node")
    code, _, err = serve("--state=/dev/null/s", "--run=/dev/null/r", "--user=64983")
    check(code != 0 and "state_dir" in err, f"an impossible folder: {code} {err}")
    code, _, err = serve(f"--state={server.folder}/x", f"--run={server.folder}/y", "--user=no-such-user")
    check(code != 0 and "user" in err, f"an unknown user: {code} {err}")


def test_a_second_server_says_what_it_waits_for(server):
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o711)
        flags = [f"--state={server.state}", f"--run={d}/r", f"--user={server.settings['user']}", "--listen=127.0.0.1:0"]
        with open(os.path.join(d, "log"), "w+") as log:
            second = subprocess.Popen([harness.PROGRAM, "serve", *flags], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            try:
                said = wait_for(lambda: waits_in(log.name) or second.poll() is not None, 15, "a line in the log")
                check(said is not True, f"it ended with {second.returncode}")
                has(said, server.state, "the folder")
            finally:
                second.terminate()
                second.wait(30)
    server.want(200, "GET", "/v1/node")


def waits_in(path):
    with open(path) as f:
        return next((line for line in f if "waiting for another cordond" in line), None)


# -- sockets


class UnixLink(http.client.HTTPConnection):
    def __init__(self, path, timeout=30):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class UnixServer(Server):
    def link(self, timeout=60):
        return UnixLink(os.path.join(self.run_dir, "cordon.sock"), timeout)


def test_unix_socket():
    with UnixServer(listen="", pool_size=0) as server:
        path = os.path.join(server.run_dir, "cordon.sock")
        equal(stat.S_IMODE(os.stat(path).st_mode), 0o666, "mode")
        session = server.create()
        equal(server.run(session["id"], "echo hi")["stdout"], "hi\n", "stdout")
        server.refused(401, "unauthorized", "GET", "/v1/node", key=None)
        server.restart()  # the old socket is in the way of nobody
        equal(server.run(session["id"], "echo hi")["stdout"], "hi\n", "stdout")


class TlsServer(Server):
    def link(self, timeout=60):
        trust = ssl.create_default_context(cafile=self.settings["tls_cert"])
        return http.client.HTTPSConnection(*self.address, timeout=timeout, context=trust)


def certificate(folder, name="127.0.0.1"):
    """A key that only root can read, and its certificate."""
    cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    make += ["-subj", f"/CN={name}", "-addext", f"subjectAltName=IP:{name}", "-keyout", key, "-out", cert]
    subprocess.run(make, check=True, capture_output=True)
    os.chmod(key, 0o600)
    return cert, key


def test_tls():
    with tempfile.TemporaryDirectory() as d:
        cert, key = certificate(d)
        with TlsServer(pool_size=0, tls_cert=cert, tls_key=key) as server:
            session = server.create()
            equal(server.run(session["id"], "echo hi")["stdout"], "hi\n", "over TLS")
            link = http.client.HTTPConnection(*server.address, timeout=10)
            try:
                link.request("GET", "/healthz")
                answer = link.getresponse()
                equal(answer.status, 400, "plain HTTP on the TLS port")
                has(answer.read().decode(), "https://", "what helps")
            finally:
                link.close()
            env = {"CORDON_API_KEY": server.key, "CORDON_SERVER": "https://" + server.settings["listen"], "HOME": "/x"}
            ls = [server.program, "ls", "--json"]
            done = subprocess.run([*ls, "--ca-file", cert], env=env, capture_output=True, timeout=20)
            equal(done.returncode, 0, f"cordon ls --ca-file: {done.stderr.decode()}")
            has(done.stdout.decode(), session["id"], "cordon ls")
            done = subprocess.run(ls, env=env, capture_output=True, timeout=20)
            check(done.returncode != 0 and server.key not in done.stderr.decode(), "a certificate that nobody trusts")
            on_socket = UnixLink(os.path.join(server.run_dir, "cordon.sock"))
            on_socket.request("GET", "/healthz")
            equal(on_socket.getresponse().status, 200, "the Unix socket beside it")
            on_socket.close()
            server.kill("cordond")  # the next one has the key, too
            wait_for(lambda: server.pid("cordond"), 10, "the next cordond")
            server.wait_ready()
            equal(server.run(session["id"], "echo hi")["stdout"], "hi\n", "after a death")


def test_the_domain_has_the_port_that_clients_need():
    """With TLS of its own clients connect to this server; without, to a proxy before it."""
    with tempfile.TemporaryDirectory() as d:
        cert, key = certificate(d)
        with TlsServer(pool_size=0, tls_cert=cert, tls_key=key, domain="boxes.example") as server:
            made = server.want(201, "POST", "/v2/sandboxes", {"templateID": "base"})
            equal(made["domain"], "boxes.example:%d" % server.address[1], "with TLS")
    with Server(pool_size=0, domain="boxes.example") as server:
        equal(server.want(201, "POST", "/v2/sandboxes", {"templateID": "base"})["domain"], "boxes.example", "without")


def test_a_folder_out_of_reach_is_told_at_once():
    """Below a folder that only root may enter: one message that names it, and the end."""
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o700)
        done = subprocess.run(
            [harness.PROGRAM, "serve", "--user", str(harness.USER), "--state", d + "/s", "--run", d + "/r", "--listen", "127.0.0.1:0"],
            capture_output=True, text=True, timeout=20,
        )
        equal(done.returncode, 1, "exit code")
        has(done.stderr, f"cannot enter {d};")


# -- causes that do not go away by themselves: one message, and the end


@contextlib.contextmanager
def place(mode=0o755):
    """A folder for a server, which its user can enter."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as d:
        os.chmod(d, mode)
        yield d


def ends(d, *flags, program=None, before=None):
    """What a server says that cannot start."""
    flags = [f"--state={d}/s", f"--run={d}/r", f"--user={harness.USER}", *flags]
    if not any(f.startswith("--listen") for f in flags):
        flags.append("--listen=127.0.0.1:0")
    done = subprocess.run([program or harness.PROGRAM, "serve", *flags], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=40, preexec_fn=before)
    equal(done.returncode, 1, f"exit code: {done.stderr}")
    return done.stderr


def drop_setpcap():
    """Takes CAP_SETPCAP from the bounding set of this process, so that what it executes lacks it."""
    pr_capbset_drop, cap_setpcap = 24, 8
    if ctypes.CDLL(None, use_errno=True).prctl(pr_capbset_drop, cap_setpcap, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_CAPBSET_DROP")


def test_mount_roots_that_open_the_machine_are_refused():
    """And with them the server's own folders, and all above these; a word of the operator allows them."""
    with place() as d:
        os.makedirs(f"{d}/s/below")
        os.symlink("/run", f"{d}/link")
        for root in ("/run", "/root", "/home", "/home:rw", "/etc", "/etc/ssl", "/proc", "/sys", "/dev", "/var/run", "/var/lib", "/usr:rw",
                     f"{d}", f"{d}/s", f"{d}/s/below", f"{d}/r", f"{d}/link", "/proc/1/root"):
            said = ends(d, f"--mount-roots={root}")
            has(said, "mount_roots")
            has(said, "mount_unsafe_roots = yes")
    with Server(pool_size=0, mount_roots="/run,/usr/share", mount_unsafe_roots="yes") as server:
        session = server.create(mounts=[{"source": "/run", "target": "/mnt"}, {"source": "/usr/share", "target": "/opt"}])["id"]
        equal(server.run(session, "test -d /mnt && test -d /opt/doc")["exit_code"], 0)


def test_sizes_follow_the_machine():
    """Memory and disk of sessions that set none: more where the machine has more, so that what people install fits."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
    memory = max(min(total // 16, 2 << 30), min(total // 4, 1 << 30), 512 << 20) >> 20 << 20
    with Server(pool_size=0, memory_default=0, disk_default=0) as server:
        limits = server.create()["limits"]
        equal((limits["memory_bytes"], limits["disk_bytes"]), (memory, max(memory // 4 * 3, 256 << 20)))
    with Server(pool_size=0, memory_default=0, disk_default=0, memory_max="300M", disk_max="100M") as server:
        limits = server.create()["limits"]
        equal((limits["memory_bytes"], limits["disk_bytes"]), (300 << 20, 100 << 20), "never above the maxima")


def test_a_chroot_is_told():
    """What is needed, at once, by the server and by a command."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as d:
        programs = os.path.dirname(harness.PROGRAM)
        script = f"""
            cd {d} && mkdir usr proc dev tmp var etc programs run && mount --bind /usr usr && mount --bind /proc proc && mount --bind /dev dev || exit 99
            for name in bin sbin lib lib64; do ln -s usr/$name $name; done
            mount --bind {programs} programs || exit 99
            chroot . /programs/cordon serve --state=/s --run=/r --user={harness.USER} --listen=127.0.0.1:0; echo "serve $?" >&2
            chroot . /programs/cordon run -- true; echo "run $?" >&2
            """
        done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        equal((done.stderr.count("this is a chroot"), done.stderr.count("pivot_root")), (2, 2), done.stderr)
        has(done.stderr, "serve 1")
        has(done.stderr, "run 125")


def test_a_port_in_use_is_told():
    with place() as d, socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        said = ends(d, f"--listen=127.0.0.1:{port}")
        has(said, str(port))
        has(said, "in use")


def test_a_program_for_cells_that_is_missing_is_told():
    """As after a build of some of the programs only."""
    names = ("cordon-interpreter", "mcp-gateway", "kernels")
    with place() as d:
        os.mkdir(f"{d}/bin")
        shutil.copy(harness.PROGRAM, f"{d}/bin/cordon")
        for name in names:  # it cannot start either: the other programs are missing
            has(ends(d, program=f"{d}/bin/cordon"), f"warning: {name} is not beside")
            os.symlink("/usr", f"{d}/bin/{name}")
        check("warning" not in ends(d, program=f"{d}/bin/cordon"), "nothing is missing")


def test_files_of_other_users_are_not_taken_into_cells():
    """The program is in a folder where all may make files, and another user has made some."""
    nobody = 65534
    program = harness.reachable(harness.PROGRAM)
    folder = os.path.dirname(program)
    os.chmod(folder, 0o1777)
    kernels = f"{folder}/kernels"

    def seen():
        done = subprocess.run([program, "run", "--", "sh", "-c", "cd /opt/cordon; find bin kernels; cat kernels/*"],
                              capture_output=True, text=True, timeout=60, check=False)
        return done.stdout, done.stderr

    os.unlink(kernels)
    os.mkdir(kernels)
    os.mkdir(f"{kernels}/open")
    os.mkdir(f"{kernels}/python")
    for name in ("good.py", "python/good.py", "open/any.py", "theirs.py", "any.py"):
        with open(f"{kernels}/{name}", "w") as f:
            f.write(f"text of {name}\n")
    os.chmod(f"{kernels}/open", 0o777)
    os.chmod(f"{kernels}/any.py", 0o666)
    os.chown(f"{kernels}/theirs.py", nobody, nobody)
    os.symlink("/etc/shadow", f"{kernels}/link")
    os.symlink("/etc", f"{kernels}/links")
    os.chown(f"{folder}/mcp-gateway", nobody, nobody)
    out, err = seen()
    for name in ("kernels/good.py\n", "kernels/python/good.py\n", "bin/cordon-interpreter\n"):
        has(out, name)
    for name in ("any.py", "open", "theirs.py", "link", "root:", "mcp-gateway"):
        check(name not in out, f"{name}: {out}")
    for name in ("any.py", "open", "theirs.py", "link", "links", "mcp-gateway"):
        has(err, f"name={name}\n")
    os.rename(kernels, f"{folder}/real")
    for owner, taken in ((0, True), (nobody, False)):
        os.symlink("real", kernels)
        os.lchown(kernels, owner, owner)
        out, err = seen()
        equal("good.py" in out, taken, f"a link of user {owner}: {out}{err}")
        os.unlink(kernels)


def test_a_socket_that_cannot_be_made_is_told():
    with place() as d:
        has(ends(d, f"--unix-socket={d}/no/such/folder.sock"), f"{d}/no/such/folder.sock")


def test_files_that_the_server_cannot_read_are_told():
    """Of another user, as after a change of the setting user; and the policy, which cordond reads itself."""
    with place() as d:
        os.mkdir(f"{d}/s", 0o711)
        with open(f"{d}/s/cordon.db", "w"):
            os.chmod(f"{d}/s/cordon.db", 0o600)
        said = ends(d)
        has(said, "cordond cannot start")
        has(said, "cordon.db")
        equal(said.count("program=cordond pid="), 2, f"started and ended once: {said}")
    with place() as d:
        with open(f"{d}/policy.json", "w") as f:
            f.write("{}")
        os.chmod(f"{d}/policy.json", 0o600)
        has(ends(d, f"--egress-policy={d}/policy.json"), "egress_policy")


def test_a_database_of_a_newer_version_is_told():
    with Server(pool_size=0) as server:
        server.stop()
        with sqlite3.connect(os.path.join(server.state, "cordon.db")) as db:
            db.execute("PRAGMA user_version = 9999")
        done = subprocess.run([harness.PROGRAM, "serve", f"--state={server.state}", f"--run={server.run_dir}",
                               f"--user={harness.USER}", "--listen=127.0.0.1:0"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=40)
        equal(done.returncode, 1, f"exit code: {done.stderr}")
        has(done.stderr, "9999")


def test_authorities_that_are_none_are_told():
    with place() as d:
        with open(f"{d}/ca.pem", "w") as f:
            f.write("-----BEGIN CERTIFICATE-----\nnothing\n-----END CERTIFICATE-----\n")
        said = ends(d, f"--egress-ca={d}/ca.pem")
        has(said, "program=cordon-egress")


def test_a_missing_program_is_told():
    for name in ("cordon-keeper", "cordon-egress", "cordon-storage", "cordon-pull", "cordon-cache", "cordon-notary"):
        with place() as d:
            for other in harness.PROGRAMS:
                if other != name:
                    shutil.copy(os.path.join(os.path.dirname(os.path.abspath(harness.PROGRAM)), other), d)
            has(ends(d, program=f"{d}/cordon"), name)


def test_a_keeper_that_cannot_work_is_told():
    """Root without CAP_SETPCAP, as of a unit with a short CapabilityBoundingSet."""
    with place() as d:
        said = ends(d, before=drop_setpcap)
        has(said, "CAP_SETPCAP")
        has(said, "cordond cannot start")


def test_what_worked_once_is_started_again(server):
    """The rule is for the first start only: later a cause may go away, and sessions are there."""
    os.chmod(os.path.join(server.state, "cordon.db"), 0)
    try:
        os.chown(os.path.join(server.state, "cordon.db"), 0, 0)
        server.kill("cordond")
        wait_for(lambda: server.log().count("cordond cannot start") >= 2, 20, "tries")
        equal(server.process.poll(), None, "the supervisor")
    finally:
        os.chown(os.path.join(server.state, "cordon.db"), harness.USER, harness.USER)
        os.chmod(os.path.join(server.state, "cordon.db"), 0o600)
    server.wait_ready(30)


def test_yes_and_no_may_stand_apart():
    for words, want in ((["--best-effort", "yes"], "yes"), (["--best-effort", "no"], "no"), (["--best-effort"], "yes")):
        done = subprocess.run([harness.PROGRAM, "serve", "--check", *words, "--pool-size", "3"], capture_output=True, text=True)
        has(done.stdout, f"best_effort = {want}\n", str(words))


def test_tls_files_that_are_none():
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o711)
        cert, key = certificate(d)
        for tls_cert, tls_key, named in ((d + "/none", key, "tls_cert"), (cert, d + "/none", "tls_key")):
            flags = [f"--tls-cert={tls_cert}", f"--tls-key={tls_key}", f"--state={d}/s", f"--run={d}/r"]
            code, _, err = serve(*flags, "--user=64983", "--listen=127.0.0.1:0")
            check(code == 1 and named in err, f"{named}: {code} {err}")


# -- systemd


def start_activated(server_folder, given, env=None, **settings_):
    """As systemd does it: sockets from 3 on, LISTEN_PID ours."""
    args = [harness.PROGRAM, "serve", f"--state={server_folder}/state", f"--run={server_folder}/run", "--user=64983"]
    args += [f"--{n.replace('_', '-')}={v}" for n, v in settings_.items()]
    log = os.open(os.path.join(server_folder, "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(log, 2)
            high = [os.dup(s.fileno()) for s in given]
            for at, fd in enumerate(high):
                os.dup2(fd, 3 + at)
            more = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(given)), **(env or {})}
            os.execve(args[0], args, more)
        finally:
            os._exit(127)
    os.close(log)
    return pid


def get(address, path, key=None, timeout=10):
    link = http.client.HTTPConnection(*address, timeout=timeout)
    link.request("GET", path, headers={"X-API-Key": key} if key else {})
    answer = link.getresponse()
    data = answer.read()
    link.close()
    return answer.status, data


def test_socket_activation():
    with tempfile.TemporaryDirectory(dir="/var/tmp") as d, socket.socket() as s:
        os.chmod(d, 0o755)
        s.bind(("127.0.0.1", 0))
        s.listen(64)
        first = []  # connects before there is anybody
        asker = threading.Thread(target=lambda: first.append(get(s.getsockname(), "/healthz")[0]), daemon=True)
        asker.start()
        elsewhere = free_port()
        pid = start_activated(d, [s], listen=f"127.0.0.1:{elsewhere}", pool_size=0)
        try:
            asker.join(15)
            equal(first, [200], "a connection that came before the server")
            wait_for(lambda: get(s.getsockname(), "/readyz")[0] == 200, 10, "readyz")
            with socket.socket() as probe:
                check(probe.connect_ex(("127.0.0.1", elsewhere)) != 0, "listens where it was not asked to")
        finally:
            os.kill(pid, signal.SIGTERM)
            equal(os.waitpid(pid, 0)[1], 0, "status at its end")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as d, socket.socket() as s:
        os.chmod(d, 0o755)
        s.bind(("0.0.0.0", 0))
        s.listen(1)
        pid = start_activated(d, [s], pool_size=0)
        check(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1, "took a socket beyond this machine, without TLS")


def test_sd_notify():
    with tempfile.TemporaryDirectory(dir="/var/tmp") as d, socket.socket() as s, socket.socket(
        socket.AF_UNIX, socket.SOCK_DGRAM
    ) as told:
        os.chmod(d, 0o755)
        told.bind(d + "/notify")
        told.settimeout(15)
        s.bind(("127.0.0.1", 0))
        s.listen(64)
        pid = start_activated(d, [s], env={"NOTIFY_SOCKET": d + "/notify"}, pool_size=0)
        try:
            for _ in range(2):
                equal(told.recv(1000), b"READY=1", "at its start")
                equal(get(s.getsockname(), "/readyz")[0], 200, "readyz when it says that it is ready")
                for child in children(pid):
                    with open(f"/proc/{child}/environ", "rb") as f:
                        check(b"NOTIFY" not in f.read(), f"NOTIFY_SOCKET in {comm(child)}")
                os.kill(pid, signal.SIGHUP)
                check(b"RELOADING=1" in told.recv(1000), "at an upgrade")
            equal(told.recv(1000), b"READY=1", "after an upgrade")
            os.kill(pid, signal.SIGTERM)
            equal(told.recv(1000), b"STOPPING=1", "at its end")
        finally:
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    run_tests(globals(), pool_size=0)
