"""The contestants: which are installed, and the one OCI bundle that crun, runc and runsc share.

What Cordon gives a command (see the README for what no peer can be made to do) is asked of each
peer in its own words: /usr read-only on a small root, /proc, /dev, a private /tmp, every kind of
namespace it knows, and the same limits of memory, processes and CPU.
"""
import json
import pathlib
import shutil

MEMORY_BYTES = 512 << 20
PIDS = 256
TMP_BYTES = 64 << 20
CPU_PERIOD_US = 100000
CORDON_LIMITS = f"--memory {MEMORY_BYTES >> 20}M --pids {PIDS} --cpus 1 --disk {TMP_BYTES >> 20}M"
COMMAND = "/bin/true"
FIRST_ID = 1 << 20  # of the peers' user namespaces; root needs no entry in /etc/subuid
LINKS = ("bin", "sbin", "lib", "lib64")  # of a merged /usr

PACKAGES = {"unshare": "util-linux", "bwrap": "bubblewrap", "crun": "crun", "runc": "runc",
            "runsc": "runsc"}

CAPABILITIES = ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL",
                "CAP_SETGID", "CAP_SETUID", "CAP_SETPCAP", "CAP_SETFCAP", "CAP_NET_BIND_SERVICE",
                "CAP_SYS_CHROOT", "CAP_AUDIT_WRITE"]

# For the one row with a filter: of the usual size, though shorter than what engines ship.
SYSCALLS = """
    accept accept4 access alarm arch_prctl bind brk capget capset chdir chmod chown clock_getres
    clock_gettime clock_nanosleep clone clone3 close close_range connect copy_file_range creat dup
    dup2 dup3 epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_wait eventfd eventfd2 execve
    execveat exit exit_group faccessat faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchown
    fchownat fcntl fdatasync fgetxattr flistxattr flock fork fremovexattr fsetxattr fstat fstatfs
    fsync ftruncate futex getcwd getdents getdents64 getegid geteuid getgid getgroups getitimer
    getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid getresuid getrlimit
    getrusage getsid getsockname getsockopt gettid gettimeofday getuid getxattr inotify_add_watch
    inotify_init inotify_init1 inotify_rm_watch ioctl kill lchown lgetxattr link linkat listen
    listxattr llistxattr lremovexattr lseek lsetxattr lstat madvise membarrier memfd_create mincore
    mkdir mkdirat mknod mknodat mlock mmap mprotect mremap msync munlock munmap nanosleep
    newfstatat open openat openat2 pause pidfd_open pidfd_send_signal pipe pipe2 poll ppoll prctl
    pread64 preadv prlimit64 pselect6 pwrite64 pwritev read readahead readlink readlinkat readv
    recvfrom recvmmsg recvmsg rename renameat renameat2 restart_syscall rmdir rseq rt_sigaction
    rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait
    sched_getaffinity sched_getparam sched_getscheduler sched_setaffinity sched_yield select
    sendfile sendmmsg sendmsg sendto set_robust_list set_tid_address setfsgid setfsuid setgid
    setgroups setitimer setpgid setpriority setregid setresgid setresuid setreuid setrlimit setsid
    setsockopt setuid shutdown sigaltstack signalfd signalfd4 socket socketpair splice stat statfs
    statx symlink symlinkat sync sysinfo tee tgkill time timer_create timer_delete timer_settime
    timerfd_create timerfd_gettime timerfd_settime times tkill truncate umask uname unlink unlinkat
    utime utimensat utimes vfork wait4 waitid write writev
""".split()


def find(name):
    """The absolute path of a peer, or None; root's directories are searched for users as well."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/local/bin")


def mount(destination, kind, source, *options):
    return {"destination": destination, "type": kind, "source": source, "options": list(options)}


def mounts():
    size = f"size={TMP_BYTES}"
    return [mount("/usr", "bind", "/usr", "rbind", "ro", "nosuid", "nodev"),
            mount("/proc", "proc", "proc", "nosuid", "noexec", "nodev"),
            mount("/dev", "tmpfs", "tmpfs", "nosuid", "mode=755", "size=65536k"),
            mount("/dev/pts", "devpts", "devpts", "nosuid", "noexec", "newinstance",
                  "ptmxmode=0666", "mode=0620"),
            mount("/dev/shm", "tmpfs", "shm", "nosuid", "noexec", "nodev", "mode=1777", size),
            mount("/tmp", "tmpfs", "tmpfs", "nosuid", "nodev", "mode=1777", size)]


def config(user_namespace=True, seccomp=False):
    """An OCI runtime configuration, as a dictionary."""
    kinds = ["pid", "network", "ipc", "uts", "mount", "cgroup"]
    linux = {
        "resources": {
            "memory": {"limit": MEMORY_BYTES},
            "pids": {"limit": PIDS},
            "cpu": {"quota": CPU_PERIOD_US, "period": CPU_PERIOD_US},
        },
        "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug",
                        "/proc/acpi", "/proc/scsi"],
        "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys",
                          "/proc/sysrq-trigger"],
    }
    if user_namespace:
        kinds.append("user")
        ids = [{"containerID": 0, "hostID": FIRST_ID, "size": 65536}]
        linux |= {"uidMappings": ids, "gidMappings": ids}
    if seccomp:
        linux["seccomp"] = {"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 38,
                            "architectures": ["SCMP_ARCH_X86_64"],
                            "syscalls": [{"names": SYSCALLS, "action": "SCMP_ACT_ALLOW"}]}
    linux["namespaces"] = [{"type": kind} for kind in kinds]
    granted = {kind: CAPABILITIES for kind in ("bounding", "effective", "permitted")}
    return {
        "ociVersion": "1.0.2",
        "process": {"terminal": False, "user": {"uid": 0, "gid": 0}, "args": [COMMAND],
                    "env": ["PATH=/usr/bin:/bin"], "cwd": "/", "capabilities": granted,
                    "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024}],
                    "noNewPrivileges": True},
        "root": {"path": "rootfs", "readonly": True},
        "hostname": "cell",
        "mounts": mounts(),
        "linux": linux,
    }


def fill_root(root):
    """Everything a root directory needs before /usr is mounted on it."""
    root = pathlib.Path(root)
    for name in ("usr", "proc", "dev", "tmp"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in LINKS:
        (root / name).symlink_to(f"usr/{name}")


def write_config(bundle, **options):
    bundle = pathlib.Path(bundle)
    bundle.mkdir(parents=True, exist_ok=True)
    (bundle / "config.json").write_text(json.dumps(config(**options), indent=1) + "\n")


def unshare_command(path):
    return (f"{path} --user --map-root-user --mount --pid --fork --net --ipc --uts --cgroup --time "
            f"--mount-proc {COMMAND}")


def bwrap_command(path):
    links = " ".join(f"--symlink usr/{name} /{name}" for name in LINKS)
    return (f"{path} --unshare-all --ro-bind /usr /usr {links} --proc /proc --dev /dev "
            f"--tmpfs /tmp --hostname cell --new-session --die-with-parent --cap-drop ALL "
            f"{COMMAND}")
