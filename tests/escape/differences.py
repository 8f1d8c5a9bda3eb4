"""differences.py - rows of the probe whose answer in a guest is another than in a container, each with the reason.

A list per level of (reason, user, answers). user: only for that one; "": for both. An answer is ROW=WORD, or ROW=WORD|WORD
where the guest's kernel or its version decides; ROW may have * in it. The first that names a row decides. What is not named
here must have the container's answer."""


def difference(reason, text, user=""):
    return reason, user, [(row, words.split("|")) for row, words in (word.split("=", 1) for word in text.split())]


GVISOR = [
    difference("gVisor's kernel does not have the call", """
        pid1-getfd-*=ENOSYS pid1-setns=ENOSYS pid1-madvise=ENOSYS fsopen-*=ENOSYS fspick-root=ENOSYS fsconfig=ENOSYS fsmount=ENOSYS
        open-tree-*=ENOSYS move-mount=ENOSYS mount-setattr=ENOSYS setattr-proc-sys=ENOSYS quotactl-fd=ENOSYS userfaultfd=ENOSYS
        io-uring-*=ENOSYS fanotify-*=ENOSYS memfd-secret=ENOSYS lsm-set-attr=ENOSYS vmsplice=ENOSYS uselib=ENOSYS sysfs-call=ENOSYS
        nfsservctl=ENOSYS victim-pidfd=ENOSYS sched-deadline=ENOSYS keyctl-read=ENOSYS"""),
    difference("gVisor's kernel has the call, or an answer for it, and acts in the guest only", """
        add-key-*=EACCES request-key=EACCES keyctl-describe=ENOKEY keyctl-session=done keyctl-join=done syslog-*=done
        set-mempolicy=done personality=EINVAL madvise-merge=done mmap-zero=ENOMEM create-module=EPERM perf-event=ENODEV
        name-to-handle=EOPNOTSUPP open-by-handle*=EOPNOTSUPP freeze-*=ENOTTY futex-pi=ETIMEDOUT sched-fifo=EINVAL sched-rr=EINVAL
        nice-up=done oom-score=done hugetlb-*=done pid1-realtime=EINVAL pid1-robust-list=done ambient-sys-admin=EINVAL"""),
    difference("no filter is around programs of a guest: their calls do not reach the machine's kernel", """
        seccomp-stack=done seccomp-mode=0 ptrace-swap=done unshare-user=done unshare-cgroup=done unshare-time=done unshare-all=done clone-user=done clone-mount=done clone-high=done
        clone3-*=done setns-user=EINVAL setns-pid=EINVAL parent-namespace=ENOTTY"""),
    difference("numbers of namespaces are gVisor's own, and the same in all guests", """
        ns-mnt=sibling ns-pid=sibling ns-net=sibling ns-ipc=sibling ns-uts=sibling ns-cgroup=hidden ns-time=hidden"""),
    difference("PID 1 of a gVisor guest has no secrets, and gVisor shows it to all of its users", """
        pid1-fd-*=done pid1-environ=done pid1-maps=done pid1-auxv=done pid1-ns-*=done pid1-map-files=hidden pid1-stack=hidden
        pid1-syscall=hidden"""),
    difference("root of a gVisor guest may end its PID 1, which ends that guest", "pid1-kill=cell:125 pid1-oom-score=done", "root"),
    difference("gVisor's own /dev, /proc and /sys", """
        dev-listing=foreign:fuse dev-fuse=done mountinfo-root=foreign:9p pagemap=hidden sysctl-mqueue=hidden sysctl-last-pid=hidden
        setgroups-file=hidden sys-root=done sys-firmware=empty sys-block=empty sys-module=empty shm-list=hidden msg-list=hidden
        cgroup-self=leaked cgroup-pid1=leaked cgroup-mkdir=done caps-ambient=beyond:*"""),
    difference("gVisor's own /dev, /proc and /sys", """
        dev-create=done dev-null-unlink=done proc-create=EPERM sysrq-trigger=done sysctl-overcommit=done sysctl-mmap-min=done
        sysctl-forward=done sysctl-shmmax=done sysctl-hostname=done dirty-mem=EINVAL cgroup-memory=done""", "root"),
    difference("gVisor's own /dev, /proc and /sys", """
        dev-create=EACCES dev-null-unlink=EACCES proc-create=EACCES dirty-mem=EACCES cgroup-memory=EACCES""", "user"),
    difference("no extended attributes go through gVisor", "volume-leave-caps=EOPNOTSUPP xattr-*=EOPNOTSUPP", "root"),
    difference("no extended attributes go through gVisor", "xattr-*=EOPNOTSUPP", "user"),
    difference("only root of a gVisor guest can write to directories of the machine", "volume-leave-*=EROFS", "user"),
    difference("gVisor looks for a read-only mount first", "hardlink-exe=ENOENT self-exe-write=EROFS probe-overwrite=EROFS"),
    difference("a gVisor guest has all ids; the machine's file system refuses those beyond the cell's range",
               "chown-range=done setuid-range=done", "root"),
    difference("a user may not change ids", "chown-range=EPERM setuid-range=EPERM", "user"),
    difference("gVisor always sets no_new_privs, so that set-user-id has no effect", "no-new-privs=1"),
    difference("gVisor always sets no_new_privs, so that set-user-id has no effect", "sudo=refused", "user"),
    difference("the probe finds no terminal that it may take in gVisor", "tio*=no-terminal ldisc-*=no-terminal terminal-size=no-terminal"),
    difference("limits of a gVisor guest: near the limit of processes or memory the guest may end as a whole",
               "fork-bomb=EAGAIN|cell:137|cell:125|SIGKILL thread-bomb=EAGAIN|cell:137|cell:125|SIGKILL memory-hog=SIGKILL|cell:137|cell:125|crash "
               "memfd-hog=SIGKILL|cell:137|cell:125|crash sysv-hog=SIGKILL|cell:137|cell:125|crash kill-everything=cell:137|cell:125"),
    difference("limits of a gVisor guest: its own kernel has them, the cell's cgroup holds for the guest as a whole",
               "fd-exhaustion=EMFILE|ENOENT pty-exhaustion=EMFILE pty-machine=unbounded inodes-shm=unbounded cpu-hog=held|unbounded"),
    difference("gVisor's sockets: other answers for what it lacks", """
        family-packet=EPERM netlink-uevent=done sctp*=EAFNOSUPPORT dccp=EAFNOSUPPORT udplite=EAFNOSUPPORT mptcp=EAFNOSUPPORT
        l2tp=EAFNOSUPPORT raw-*=EPERM packet-by-inet=EAFNOSUPPORT rt-new-*=EACCES rt-set-*=EACCES rt-del-*=EACCES
        rt-neighbour=EACCES rt-qdisc=EACCES rt-filter=EACCES rt-pedit=EACCES ioctl-*=ENOTTY"""),
    difference("gVisor takes these socket options and passes none of them to the cell's sockets", """
        so-mark=done so-priority=done ip-transparent=done tcp-repair=done iptables=done xfrm-*=done frag-udp6-*=unexpected"""),
]

OWN_KERNEL = "no filter is around programs of a guest: its own kernel answers"
MICROVM = [
    difference(OWN_KERNEL, """
        fsconfig=EINVAL open-tree-plain=done open-tree-attr=ENOSYS|EPERM name-to-handle=EOPNOTSUPP|done quotactl=ENOENT quotactl-fd=EBADF
        perf-event=EACCES userfaultfd=done io-uring-setup=done io-uring-enter=EBADF io-uring-register=EBADF|EPERM add-key-*=done
        request-key=ENOKEY keyctl-read=ENOKEY keyctl-describe=ENOKEY keyctl-session=done keyctl-join=done fanotify-init=done
        fanotify-mark=EBADF set-mempolicy=done memfd-secret=ENOSYS|done lsm-set-attr=ENOSYS|EOPNOTSUPP|EINVAL personality=done
        seccomp-stack=done|ENOSPC seccomp-mode=0 vmsplice=done madvise-merge=done lookup-dcookie=ENOSYS modify-ldt=done uselib=ENOSYS
        sysfs-call=done nfsservctl=ENOSYS int80-*=done|ENOSPC tiocsti*=done|EIO tioclinux*=ENOTTY ldisc-*=EINVAL setns-user=EINVAL
        ptrace-swap=done|ENOSPC pid1-madvise=EACCES hugetlb-shm=ENOMEM|EPERM"""),
    difference("a guest may have user namespaces of its own", """
        unshare-user=done|ENOSPC unshare-all=done|ENOSPC clone-user=done|ENOSPC clone-high=done|ENOSPC clone3-*=done|ENOSPC"""),
    difference("legal at every level", "family-unix=done family-inet=done family-inet6=done"),
    difference(OWN_KERNEL, "family-*=unfiltered netlink-*=unfiltered sctp*=unfiltered dccp=unfiltered udplite=unfiltered mptcp=unfiltered "
               "l2tp=unfiltered raw-*=EPERM packet-by-inet=EPERM ping*-socket=EACCES"),
    difference("the numbers of namespaces are those of the guest's kernel", """
        ns-user=host ns-mnt=sibling|own ns-pid=sibling|own ns-net=sibling|own ns-ipc=host ns-uts=host ns-cgroup=host ns-time=host
        cgroup-self=leaked"""),
    difference("the probe and the volume are files of the guest's own root, which no machine shares", """
        volume-leave-suid=done volume-leave-setgid=done hardlink-exe=ENOENT xattr-security=done
        mincore=hidden"""),
    difference("the probe and the volume are files of the guest's own root, which no machine shares", """
        volume-leave-caps=done hardlink-volume=done hardlink-probe=EEXIST hardlink-usr=EEXIST probe-write=done""", "root"),
    difference("the probe and the volume are files of the guest's own root, which no machine shares", """
        volume-suid=gained hardlink-volume=EPERM hardlink-probe=EPERM hardlink-usr=EPERM self-exe-write=EACCES probe-write=EACCES
        probe-overwrite=EACCES""", "user"),
    difference("a guest has all ids", "chown-range=done setuid-range=done", "root"),
    difference("a user may not change ids", "chown-range=EPERM setuid-range=EPERM", "user"),
    difference("root of a guest is its kernel's root: what modes do not refuse is masked or read-only", """
        kmsg=empty timer-list=empty slabinfo=empty vmallocinfo=empty kpage*=empty"""),
    difference("root of a guest is its kernel's root: what modes do not refuse is masked or read-only", """
        pagetypeinfo=done sysrq-trigger=EROFS core-pattern=EROFS modprobe-path=EROFS poweroff-cmd=EROFS usermodehelper=EROFS
        sysctl-*=EROFS|EACCES|hidden hugepage-pool=EROFS irq-affinity=done proc-mtrr=EPERM|hidden pid1-oom-score=done""", "root"),
    difference("limits of a virtual machine: its kernel has no more memory to give, and its clock stops with the machine's quota",
               "memory-hog=ENOMEM|SIGKILL|cell:137 memfd-hog=ENOMEM|ENOSPC|SIGKILL|cell:137 sysv-hog=ENOMEM|SIGKILL|cell:137 "
               "cpu-hog=unbounded|held"),
    difference("the guest's agent accepts a connection before the server has an answer for it: what is refused is reset", """
        tcp-host-address=done|ECONNRESET tcp-metadata*=done|ECONNRESET tcp-alibaba=done|ECONNRESET tcp-private-*=done|ECONNRESET
        tcp-public*=done|ECONNRESET tcp-synthetic=done|ECONNRESET tcp-link-local=done|ECONNRESET udp-dns*=silence
        circle-*=elsewhere|ECONNRESET"""),
]
DIFFERENCES = {"gvisor": GVISOR, "microvm": MICROVM}
