"""canaries.py - things of the host that no cell may reach, and whether anybody did.

One Canaries object is one set: made before a run, checked after it, removed in any case. Nothing in
it is secret to the probe: it is told every name and number, so that only the walls stand between.
"""
import contextlib
import ctypes
import hashlib
import os
import platform
import secrets
import select
import shutil
import socket
import stat
import struct
import subprocess
import tempfile
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.shmat.restype = ctypes.c_void_p
LIBC.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
LIBC.shmdt.argtypes = [ctypes.c_void_p]
LIBC.syscall.restype = ctypes.c_long
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                      ctypes.c_long]
LIBC.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

# add_key, keyctl
KEY_CALLS = {"x86_64": (248, 250), "aarch64": (217, 219)}.get(platform.machine())
IPC_CREAT, IPC_EXCL, IPC_RMID = 0o1000, 0o2000, 0
IN_TOUCH = 0x1 | 0x2 | 0x4 | 0x20 | 0x400    # access, modify, attrib, open, delete-self
IN_Q_OVERFLOW = 0x4000

# Folders of the host that a cell has under the same name, but not with the same content.
FOLDERS = ["/root", "/home", "/opt", "/srv", "/run", "/mnt", "/boot", "/etc", "/tmp", "/var/tmp",
           "/var/lib", "/var/log", "/dev/shm"]
HASHED = ["/etc/shadow", "/etc/passwd", "/etc/group", "/etc/machine-id", "/etc/fstab"]
NAMESPACES = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"]
SETTINGS = ["kernel/core_pattern", "kernel/modprobe", "kernel/sysrq", "kernel/panic",
            "kernel/kptr_restrict", "kernel/randomize_va_space", "kernel/hostname",
            "vm/overcommit_memory", "vm/nr_hugepages", "fs/file-max", "fs/suid_dumpable",
            "net/ipv4/ip_forward", "net/ipv4/ping_group_range", "user/max_user_namespaces"]
LOWEST_VICTIM = 4096    # above any pid the probe's own processes can have in their namespace


def fnv(path):
    """The probe's own hash (hash_file), of the host's file; 0 when there is none."""
    h = 0xcbf29ce484222325
    try:
        with open(path, "rb") as f:
            for byte in f.read():
                h = ((h ^ byte) * 0x100000001b3) & 0xffffffffffffffff
    except OSError:
        return 0
    return h


def digest(path):
    try:
        with open(path, "rb") as f:
            return hashlib.sha256(f.read()).hexdigest()
    except OSError as e:
        return e.strerror


def settings():
    found = {}
    for name in SETTINGS:
        with contextlib.suppress(OSError), open(f"/proc/sys/{name}") as f:
            found[name] = f.read()
    return found


def namespace(name):
    try:
        return os.readlink(f"/proc/self/ns/{name}").split("[")[1].rstrip("]")
    except OSError:
        return "0"


def join_session_keyring():
    """So that the key below is in a keyring which cordon inherits, and nobody else's."""
    return KEY_CALLS is not None and LIBC.syscall(KEY_CALLS[1], 1, None, 0, 0, 0) >= 0


def cold_file():
    """A file of /usr that nobody is using, of a megabyte at least."""
    for folder in ("/usr/share", "/usr/lib"):
        for base, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(base, name)
                if os.path.islink(path) or not os.path.isfile(path):
                    continue
                if (1 << 20) <= os.path.getsize(path) < (16 << 20) and not in_memory(path):
                    return path
    return "/usr/bin/env"


def in_memory(path):
    """Whether the page cache still has it after it was asked to let go."""
    length = 1 << 20
    vec = (ctypes.c_ubyte * (length // 4096))()
    with open(path, "rb") as f:
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        at = LIBC.mmap(None, length, 1, 2, f.fileno(), 0)    # PROT_READ, MAP_PRIVATE
    if at == ctypes.c_void_p(-1).value:
        return True
    seen = LIBC.mincore(at, length, vec) < 0 or any(v & 1 for v in vec)
    LIBC.munmap(at, length)
    return seen


class Watch:
    """inotify on files nobody should open."""

    def __init__(self, paths):
        self.fd = LIBC.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        self.names = {}
        for path in paths:
            wd = LIBC.inotify_add_watch(self.fd, os.fsencode(path), IN_TOUCH)
            if wd >= 0:
                self.names[wd] = path

    def touched(self):
        hit = set()
        while True:
            try:
                data = os.read(self.fd, 65536)
            except BlockingIOError:
                return sorted(hit)
            at = 0
            while at < len(data):
                wd, mask, _, length = struct.unpack_from("iIII", data, at)
                at += 16 + length
                hit.add("events lost" if mask & IN_Q_OVERFLOW else self.names.get(wd, "?"))

    def close(self):
        os.close(self.fd)


class Canaries:
    def __init__(self, probe, uid):
        self.uid = uid
        self.undo = contextlib.ExitStack()
        self.name = "canary-" + secrets.token_hex(8)
        self.value = secrets.token_hex(16)
        self.base = tempfile.mkdtemp(prefix="cordon-escape-", dir="/var/tmp")
        self.undo.callback(shutil.rmtree, self.base, ignore_errors=True)
        os.chmod(self.base, 0o755)
        self.keys = {}
        try:
            self.make_files(probe)
            self.make_sockets()
            self.make_objects()
            self.make_victim()
        except BaseException:
            self.close()
            raise

    def close(self):
        self.undo.close()

    def write(self, path, mode=0o644):
        with open(path, "x") as f:
            f.write(self.value)
        os.chmod(path, mode)
        self.undo.callback(lambda: os.path.lexists(path) and os.unlink(path))
        self.files[path] = self.value

    def make_files(self, probe):
        self.files = {}
        private_name = "vault-" + secrets.token_hex(8)
        self.private = f"{self.base}/{private_name}"
        os.mkdir(self.private, 0o700)
        os.chown(self.private, self.uid, self.uid)
        self.write(f"{self.private}/secret", 0o600)
        os.chown(f"{self.private}/secret", self.uid, self.uid)
        self.write(f"{self.base}/public")
        for folder in FOLDERS:
            if os.path.isdir(folder):
                self.write(f"{folder}/{self.name}")
        self.probe_dir = f"{self.base}/probe"
        os.mkdir(self.probe_dir, 0o755)
        shutil.copy(probe, f"{self.probe_dir}/probe")
        os.chmod(f"{self.probe_dir}/probe", 0o755)
        self.volume = f"{self.base}/vol"
        os.mkdir(self.volume)
        self.fill_volume(private_name)
        # What a leaked descriptor would give away: 7 the folder, 8 the file.
        for number, path in ((7, self.private), (8, f"{self.private}/secret")):
            fd = os.open(path, os.O_RDONLY)
            os.dup2(fd, number, inheritable=True)
            os.close(fd)
        root = os.stat("/").st_dev
        self.keys.update({
            "secret": f"{self.private}/secret", "public": f"{self.base}/public",
            "private": self.private, "private-name": private_name, "name": self.name,
            "hostname": socket.gethostname(), "vol": "/vol", "env-secret": self.value,
            "root-major": os.major(root), "root-minor": os.minor(root),
            "busy-file": "/usr/bin/env",
        })
        self.keys.update({f"hash-{os.path.basename(p)}": f"{fnv(p):x}" for p in HASHED})
        self.keys.update({f"ns-{n}": namespace(n) for n in NAMESPACES})
        self.programs = {p: digest(p) for p in
                         ("/usr/bin/env", "/usr/bin/yes", f"{self.probe_dir}/probe")}
        self.settings = settings()
        self.clock = time.time() - time.monotonic()

    def fill_volume(self, private_name):
        v = self.volume
        os.symlink(f"{self.private}/secret", f"{v}/link-abs")
        os.symlink(f"../{private_name}/secret", f"{v}/link-rel")
        os.symlink(self.private, f"{v}/link-dir")
        os.symlink("/proc/1/root", f"{v}/link-proc")
        os.mknod(f"{v}/node-null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        os.chmod(f"{v}/node-null", 0o666)
        shutil.copy(f"{self.probe_dir}/probe", f"{v}/suid-probe")
        os.chmod(f"{v}/suid-probe", 0o4755)
        with open(f"{v}/plain", "w") as f:
            f.write("plain\n")
        os.chmod(v, 0o777)
        os.chown(v, self.uid, self.uid)
        self.planted = set(os.listdir(v))

    def listen(self, family, kind, address, name):
        s = socket.socket(family, kind)
        self.undo.callback(s.close)
        s.setblocking(False)
        if family == socket.AF_INET6:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        s.bind(address)
        if kind != socket.SOCK_DGRAM:
            s.listen(8)
        self.sockets[name] = s
        return s

    def make_sockets(self):
        self.sockets = {}
        tcp = self.listen(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0), "tcp on 127.0.0.1")
        port = tcp.getsockname()[1]
        self.listen(socket.AF_INET6, socket.SOCK_STREAM, ("::1", port), "tcp on ::1")
        wide = self.listen(socket.AF_INET, socket.SOCK_STREAM, ("0.0.0.0", 0), "tcp on any address")
        udp = self.listen(socket.AF_INET, socket.SOCK_DGRAM, ("0.0.0.0", 0), "udp")
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        with contextlib.suppress(OSError):
            udp.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                           socket.inet_aton("224.0.0.251") + socket.inet_aton("0.0.0.0"))
        any6 = ("::", udp.getsockname()[1])
        self.listen(socket.AF_INET6, socket.SOCK_DGRAM, any6, "udp over IPv6")
        self.listen(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + self.name, "abstract stream socket")
        self.listen(socket.AF_UNIX, socket.SOCK_DGRAM, f"\0{self.name}-dgram", "abstract datagrams")
        path = f"/run/{self.name}.sock"
        self.listen(socket.AF_UNIX, socket.SOCK_STREAM, path, "socket in /run")
        self.undo.callback(os.unlink, path)
        os.chmod(path, 0o666)
        self.keys.update({
            "tcp": port, "tcp-any": wide.getsockname()[1], "udp": udp.getsockname()[1],
            "host-ip": host_address(), "abstract": self.name,
            "abstract-dgram": f"{self.name}-dgram", "path-socket": path,
        })

    def make_objects(self):
        self.sysv_key = secrets.randbelow(1 << 30) + 1
        self.shm = LIBC.shmget(self.sysv_key, 4096, IPC_CREAT | IPC_EXCL | 0o666)
        if self.shm < 0:
            raise OSError(ctypes.get_errno(), "shmget")
        self.undo.callback(LIBC.shmctl, self.shm, IPC_RMID, None)
        self.sem = LIBC.semget(self.sysv_key, 1, IPC_CREAT | IPC_EXCL | 0o666)
        self.undo.callback(LIBC.semctl, self.sem, 0, IPC_RMID)
        self.msg = LIBC.msgget(self.sysv_key, IPC_CREAT | IPC_EXCL | 0o666)
        self.undo.callback(LIBC.msgctl, self.msg, IPC_RMID, None)
        self.shared = LIBC.shmat(self.shm, None, 0)
        self.undo.callback(LIBC.shmdt, self.shared)
        ctypes.memmove(self.shared, self.value.encode(), len(self.value))
        self.queue = LIBC.mq_open(f"/{self.name}".encode(), os.O_RDWR | os.O_CREAT | os.O_EXCL,
                                  0o666, None)
        if self.queue < 0:
            raise OSError(ctypes.get_errno(), "mq_open")
        self.undo.callback(LIBC.mq_unlink, f"/{self.name}".encode())
        self.undo.callback(os.close, self.queue)
        self.key = -1
        if KEY_CALLS:
            self.key = LIBC.syscall(KEY_CALLS[0], b"user", self.name.encode(), self.value.encode(),
                                    ctypes.c_size_t(len(self.value)), ctypes.c_long(-3))
        if self.key >= 0:
            self.undo.callback(LIBC.syscall, KEY_CALLS[1], 9, self.key, -3, 0, 0)
        self.keys.update({"sysv-key": self.sysv_key, "shm-id": self.shm, "mqueue": self.name,
                          "key-name": self.name, "key-id": self.key})

    def make_victim(self):
        for _ in range(LOWEST_VICTIM * 2):
            self.victim = subprocess.Popen(["/usr/bin/sleep", "600"], start_new_session=True,
                                           user=self.uid, group=self.uid, extra_groups=[])
            if self.victim.pid > LOWEST_VICTIM:
                break
            self.victim.kill()
            self.victim.wait()
        self.undo.callback(self.victim.wait)
        self.undo.callback(self.victim.kill)
        self.keys["victim"] = self.victim.pid

    def arm(self, file):
        """Called last before the run: from here on every touch counts."""
        self.watch = Watch([*self.files, self.private])
        self.undo.callback(self.watch.close)
        self.keys["cold-file"] = file
        with open(file, "rb") as f:
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    @contextlib.contextmanager
    def busy(self):
        """Opens a file of /usr over and over, for a row that listens for it."""
        stop = threading.Event()

        def work():
            while not stop.wait(0.02):
                with open(self.keys["busy-file"], "rb") as f:
                    f.read(1)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def check(self):
        """Yields (what, None or what is wrong with it)."""
        yield "no canary file was opened or changed", " ".join(self.watch.touched()) or None
        yield "canary files have their content", self.broken_files()
        ready = select.select(list(self.sockets.values()), [], [], 0)[0]
        for name, s in self.sockets.items():
            yield f"nobody reached {name}", "somebody did" if s in ready else None
        yield "victim lives and runs", self.hurt_victim()
        same = ctypes.string_at(self.shared, len(self.value)) == self.value.encode()
        yield "shared memory unchanged", None if same else "changed"
        gone = [n for n, call in (("shm", lambda: LIBC.shmget(self.sysv_key, 0, 0)),
                                  ("sem", lambda: LIBC.semget(self.sysv_key, 0, 0)),
                                  ("msg", lambda: LIBC.msgget(self.sysv_key, 0))) if call() < 0]
        yield "System V objects are there", " ".join(gone) or None
        yield "message queue empty", self.touched_queue()
        yield "key unchanged", self.changed_key()
        yield "programs of the host unchanged", " ".join(
            p for p, d in self.programs.items() if digest(p) != d) or None
        left = [p for p in ("/usr/escape-canary", "/dev/escape-canary", "/sys/fs/cgroup/escape",
                            f"{self.probe_dir}/escape-canary") if os.path.lexists(p)]
        yield "nothing was left on the host", " ".join(left) or None
        yield "nothing harmful was left in the volume", self.volume_traps()
        now = settings()
        yield "settings of the kernel unchanged", " ".join(
            n for n, v in self.settings.items() if now.get(n) != v) or None
        drift = abs(time.time() - time.monotonic() - self.clock)
        yield "clock not moved", f"by {drift:.3f} s" if drift > 0.5 else None

    def broken_files(self):
        # Reads, so it comes after the watch was read.
        wrong = []
        for path, value in self.files.items():
            try:
                with open(path) as f:
                    if f.read() != value:
                        wrong.append(path)
            except OSError:
                wrong.append(path)
        return " ".join(wrong) or None

    def hurt_victim(self):
        if self.victim.poll() is not None:
            return "it is dead"
        with open(f"/proc/{self.victim.pid}/stat") as f:
            state = f.read().rsplit(")", 1)[1].split()[0]
        if state not in "SRD":
            return f"state {state}"
        nice = os.getpriority(os.PRIO_PROCESS, self.victim.pid)
        return f"nice {nice}" if nice != os.getpriority(os.PRIO_PROCESS, 0) else None

    def touched_queue(self):
        attr = (ctypes.c_long * 8)()
        if LIBC.mq_getattr(self.queue, attr) < 0:
            return "gone"
        return f"{attr[3]} messages" if attr[3] else None

    def changed_key(self):
        if self.key < 0:
            return None
        buf = ctypes.create_string_buffer(64)
        n = LIBC.syscall(KEY_CALLS[1], 11, self.key, buf, ctypes.c_size_t(64), 0)
        return None if buf.raw[:max(n, 0)] == self.value.encode() else "changed or gone"

    def volume_traps(self):
        """A cell may leave files, but none that would act with more than its own rights."""
        wrong = []
        for name in set(os.listdir(self.volume)) - self.planted:
            st = os.lstat(f"{self.volume}/{name}")
            if stat.S_ISBLK(st.st_mode) or stat.S_ISCHR(st.st_mode):
                wrong.append(f"{name}: device")
            with contextlib.suppress(OSError):
                wrong += [f"{name}: {x}" for x in host_capabilities(f"{self.volume}/{name}")]
            if st.st_mode & (stat.S_ISUID | stat.S_ISGID) and 0 in (st.st_uid, st.st_gid):
                wrong.append(f"{name}: set-user-id of the host's root")
        return ", ".join(wrong) or None


def host_capabilities(path):
    """File capabilities that count outside of the cell: those of version 2, and those of version
    3 that belong to the host's root. capabilities(7), "File capability versioning"."""
    caps = os.getxattr(path, "security.capability", follow_symlinks=False)
    version = struct.unpack_from("<I", caps)[0] >> 24
    root = struct.unpack_from("<I", caps, 20)[0] if version == 3 else 0
    return ["capabilities for the host's root"] if root == 0 else []


def host_address():
    """An address of the host that is not loopback; without one, a second loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))
            return s.getsockname()[0]
        except OSError:
            return "127.0.0.2"
