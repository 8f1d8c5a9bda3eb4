/* proc.c - what /proc, /sys and /dev show and let write.
 *
 * Writing rows only open the file: to be able to open it is the hole. Nothing is written, so that
 * a hole harms nobody while it is being found. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *read_arg(const struct attack *a)
{
	return answer_read(a->arg);
}

static const char *open_write(const struct attack *a)
{
	return answer_path(open(a->arg, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
}

static const char *open_read(const struct attack *a)
{
	return answer_path(open(a->arg, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
}

/* Symbols without their addresses are no secret. */
static const char *read_kallsyms(const struct attack *a)
{
	char buf[8192];
	long n = slurp(a->arg, buf, sizeof(buf));

	if (n < 0)
		return answer_path(-1);
	if (n == 0)
		return "empty";
	for (const char *p = buf; p && *p; p = strchr(p, '\n')) {
		if (*p == '\n')
			p++;
		if (strtoull(p, NULL, 16) != 0)
			return "done";
	}
	return "zeros";
}

/* Physical frame numbers are shown as zero to those who may not know them. */
static const char *read_pagemap(const struct attack *a)
{
	uint64_t entry = 0;
	volatile char here = 1;
	long page = sysconf(_SC_PAGESIZE);
	int fd = open(a->arg, O_RDONLY | O_CLOEXEC);
	off_t at = (off_t)((uintptr_t)&here / (uintptr_t)page * sizeof(entry));

	if (fd < 0)
		return answer_path(-1);
	if (pread(fd, &entry, sizeof(entry), at) != (long)sizeof(entry))
		return answer_errno(errno);
	return (entry & ((1ULL << 55) - 1)) == 0 ? "zeros" : "done";
}

/* Own id maps are written once, by the keeper, and never again. */
static const char *rewrite_map(const struct attack *a)
{
	int fd = open(a->arg, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return answer_path(-1);
	return answer(write(fd, "0 0 1\n", 6));
}

static const char *write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return answer_path(-1);
	return answer(write(fd, text, strlen(text)));
}

static const char *write_setgroups(const struct attack *a)
{
	return write_text(a->arg, "allow");
}

/* Any kernel setting: the host's are closed by ownership, the cell's own by a read-only /proc/sys.
 */
#define SYSCTL "EACCES|hidden"
#define OWN_SYSCTL "r:EROFS u:EACCES"
#define NO_SYS "hidden"

/* clang-format off */
static const struct attack rows[] = {
ROW("kcore", "A", "read the kernel's memory", read_arg, MASKED, NULL, "/proc/kcore", 0),
ROW("kallsyms", "A", "read kernel addresses",
	read_kallsyms, MASKED, "done", "/proc/kallsyms", 0),
ROW("kmsg", "A", "read the kernel's log", read_arg, ROOTS_ONLY, NULL, "/proc/kmsg", 0),
ROW("timer-list", "A", "read /proc/timer_list", read_arg, ROOTS_ONLY, "done", "/proc/timer_list", 0),
ROW("proc-keys", "A", "read /proc/keys", read_arg, MASKED, "done", "/proc/keys", 0),
ROW("proc-key-users", "A", "read /proc/key-users", read_arg, MASKED, "done", "/proc/key-users", 0),
ROW("sched-debug", "A", "read /proc/sched_debug", read_arg, MASKED, "done", "/proc/sched_debug", 0),
ROW("latency-stats", "A", "read /proc/latency_stats",
	read_arg, MASKED, "done", "/proc/latency_stats", 0),
ROW("proc-acpi", "A", "list /proc/acpi", read_arg, MASKED, "done|empty", "/proc/acpi", 0),
ROW("proc-scsi", "A", "list /proc/scsi", read_arg, MASKED, "done|empty", "/proc/scsi", 0),
ROW("proc-asound", "A", "list /proc/asound", read_arg, MASKED, "done|empty", "/proc/asound", 0),
ROW("proc-interrupts", "A", "count the host's interrupts",
	read_arg, MASKED, "done", "/proc/interrupts", 0),
ROW("slabinfo", "A", "read /proc/slabinfo", read_arg, ROOTS_ONLY, "done", "/proc/slabinfo", 0),
ROW("vmallocinfo", "A", "read /proc/vmallocinfo", read_arg, ROOTS_ONLY, "done", "/proc/vmallocinfo", 0),
ROW("pagetypeinfo", "A", "read /proc/pagetypeinfo",
	read_arg, "EACCES|empty|hidden", "done", "/proc/pagetypeinfo", 0),
ROW("kpagecount", "A", "read /proc/kpagecount", read_arg, ROOTS_ONLY, "done", "/proc/kpagecount", 0),
ROW("kpageflags", "A", "read /proc/kpageflags", read_arg, ROOTS_ONLY, "done", "/proc/kpageflags", 0),
ROW("kpagecgroup", "A", "read /proc/kpagecgroup", read_arg, ROOTS_ONLY, "done", "/proc/kpagecgroup", 0),
ROW("vmcore", "A", "read /proc/vmcore", read_arg, MASKED, "done", "/proc/vmcore", 0),
ROW("pagemap", "A", "physical addresses of own pages",
	read_pagemap, "zeros", "done", "/proc/self/pagemap", 0),
ROW("sysrq-trigger", "A", "open /proc/sysrq-trigger for writing",
	open_write, SYSCTL, "done", "/proc/sysrq-trigger", 0),
ROW("core-pattern", "A", "open core_pattern for writing",
	open_write, SYSCTL, "done", "/proc/sys/kernel/core_pattern", 0),
ROW("modprobe-path", "A", "open kernel.modprobe for writing",
	open_write, SYSCTL, "done", "/proc/sys/kernel/modprobe", 0),
ROW("poweroff-cmd", "A", "open kernel.poweroff_cmd for writing",
	open_write, SYSCTL, "done", "/proc/sys/kernel/poweroff_cmd", 0),
ROW("hotplug-path", "A", "open kernel.hotplug for writing",
	open_write, SYSCTL, "done", "/proc/sys/kernel/hotplug", 0),
ROW("usermodehelper", "A", "open usermodehelper/bset for writing",
	open_write, SYSCTL, "done", "/proc/sys/kernel/usermodehelper/bset", 0),
ROW("binfmt-register", "A", "open binfmt_misc/register for writing",
	open_write, SYSCTL, "done", "/proc/sys/fs/binfmt_misc/register", 0),
ROW("sysctl-sysrq", "A", "open kernel.sysrq for writing",
	open_write, SYSCTL, "done", "/proc/sys/kernel/sysrq", 0),
ROW("sysctl-panic", "A", "open kernel.panic for writing",
	open_write, SYSCTL, "done", "/proc/sys/kernel/panic", 0),
ROW("sysctl-kptr", "A", "open kernel.kptr_restrict for writing",
	open_write, SYSCTL, "done", "/proc/sys/kernel/kptr_restrict", 0),
ROW("sysctl-aslr", "A", "open randomize_va_space for writing",
	open_write, SYSCTL, "done", "/proc/sys/kernel/randomize_va_space", 0),
ROW("sysctl-bpf", "A", "open unprivileged_bpf_disabled for writing",
	open_write, SYSCTL, "done", "/proc/sys/kernel/unprivileged_bpf_disabled", 0),
ROW("sysctl-drop-caches", "D", "open vm.drop_caches for writing",
	open_write, SYSCTL, "done", "/proc/sys/vm/drop_caches", 0),
ROW("sysctl-overcommit", "D", "open vm.overcommit_memory for writing",
	open_write, SYSCTL, "done", "/proc/sys/vm/overcommit_memory", 0),
ROW("sysctl-mmap-min", "A", "open vm.mmap_min_addr for writing",
	open_write, SYSCTL, "done", "/proc/sys/vm/mmap_min_addr", 0),
ROW("sysctl-file-max", "D", "open fs.file-max for writing",
	open_write, SYSCTL, "done", "/proc/sys/fs/file-max", 0),
ROW("sysctl-suid-dump", "A", "open fs.suid_dumpable for writing",
	open_write, SYSCTL, "done", "/proc/sys/fs/suid_dumpable", 0),
ROW("sysctl-hardlinks", "A", "open fs.protected_hardlinks for writing",
	open_write, SYSCTL, "done", "/proc/sys/fs/protected_hardlinks", 0),
ROW("sysctl-forward", "C", "open net.ipv4.ip_forward for writing",
	open_write, SYSCTL, "done", "/proc/sys/net/ipv4/ip_forward", 0),
ROW("sysctl-ping", "C", "open net.ipv4.ping_group_range for writing",
	open_write, SYSCTL, "done", "/proc/sys/net/ipv4/ping_group_range", 0),
ROW("sysctl-accept-ra", "C", "open net.ipv6 accept_ra for writing",
	open_write, SYSCTL, "done", "/proc/sys/net/ipv6/conf/all/accept_ra", 0),
ROW("sysctl-userns", "B", "open user.max_user_namespaces for writing",
	open_write, SYSCTL, "done", "/proc/sys/user/max_user_namespaces", 0),
ROW("sysctl-inotify", "D", "open user.max_inotify_instances for writing",
	open_write, SYSCTL, "done", "/proc/sys/user/max_inotify_instances", 0),
ROW("sysctl-shmmax", "D", "open kernel.shmmax for writing",
	open_write, OWN_SYSCTL, "done", "/proc/sys/kernel/shmmax", 0),
ROW("sysctl-mqueue", "D", "open fs.mqueue.msg_max for writing",
	open_write, OWN_SYSCTL, "done", "/proc/sys/fs/mqueue/msg_max", 0),
ROW("sysctl-last-pid", "B", "open kernel.ns_last_pid for writing",
	open_write, "EROFS", "done", "/proc/sys/kernel/ns_last_pid", 0),
ROW("sysctl-hostname", "A", "open kernel.hostname for writing",
	open_write, SYSCTL, "done", "/proc/sys/kernel/hostname", 0),
ROW("irq-affinity", "D", "open default_smp_affinity for writing",
	open_write, SYSCTL, "done", "/proc/irq/default_smp_affinity", 0),
ROW("proc-mtrr", "A", "open /proc/mtrr for writing", open_write, SYSCTL, "done", "/proc/mtrr", 0),
ROW("proc-bus-pci", "A", "list /proc/bus/pci", read_arg, MASKED, "done|empty", "/proc/bus/pci", 0),
ROW("uid-map", "B", "write own uid_map again", rewrite_map, REFUSED, NULL, "/proc/self/uid_map", 0),
ROW("gid-map", "B", "write own gid_map again", rewrite_map, REFUSED, NULL, "/proc/self/gid_map", 0),
ROW("setgroups-file", "B", "write allow to own setgroups",
	write_setgroups, "EACCES|EPERM", NULL, "/proc/self/setgroups", 0),
ROW("timens-offsets", "B", "write own timens_offsets",
	rewrite_map, "EINVAL|EACCES|hidden", NULL, "/proc/self/timens_offsets", 0),
ROW("sys-root", "A", "list /sys", read_arg, "empty", "done", "/sys", 0),
ROW("sys-firmware", "A", "list /sys/firmware", read_arg, NO_SYS, "done|empty", "/sys/firmware", 0),
ROW("sys-debug", "A", "list /sys/kernel/debug",
	read_arg, NO_SYS, "done|empty", "/sys/kernel/debug", 0),
ROW("sys-tracing", "A", "list /sys/kernel/tracing",
	read_arg, NO_SYS, "done|empty", "/sys/kernel/tracing", 0),
ROW("sys-security", "A", "list /sys/kernel/security",
	read_arg, NO_SYS, "done|empty", "/sys/kernel/security", 0),
ROW("sys-block", "A", "list /sys/block", read_arg, NO_SYS, "done|empty", "/sys/block", 0),
ROW("sys-net", "A", "list /sys/class/net", read_arg, NO_SYS, "done|empty", "/sys/class/net", 0),
ROW("sys-module", "A", "list /sys/module", read_arg, NO_SYS, "done|empty", "/sys/module", 0),
ROW("uevent-helper", "A", "open uevent_helper for writing",
	open_write, NO_SYS, "done", "/sys/kernel/uevent_helper", 0),
ROW("power-state", "A", "open /sys/power/state for writing",
	open_write, NO_SYS, "done", "/sys/power/state", 0),
ROW("pci-rescan", "A", "open /sys/bus/pci/rescan for writing",
	open_write, NO_SYS, "done", "/sys/bus/pci/rescan", 0),
ROW("ksm-run", "C", "open the KSM switch for writing",
	open_write, NO_SYS, "done", "/sys/kernel/mm/ksm/run", 0),
ROW("hugepage-pool", "D", "open nr_hugepages for writing",
	open_write, SYSCTL, "done", "/proc/sys/vm/nr_hugepages", 0),
ROW("dev-mem", "A", "open /dev/mem", open_read, "hidden", NULL, "/dev/mem", 0),
ROW("dev-kmsg", "A", "open /dev/kmsg", open_read, "hidden", "done", "/dev/kmsg", 0),
ROW("dev-fuse", "A", "open /dev/fuse", open_read, "hidden", "done", "/dev/fuse", 0),
ROW("dev-kvm", "A", "open /dev/kvm", open_read, "hidden", "done", "/dev/kvm", 0),
ROW("dev-tun", "A", "open /dev/net/tun", open_read, "hidden", "done", "/dev/net/tun", 0),
ROW("dev-console", "A", "open /dev/console", open_read, "hidden", NULL, "/dev/console", 0),
ROW("dev-loop", "A", "open /dev/loop-control", open_read, "hidden", "done", "/dev/loop-control", 0),
ROW("dev-vsock", "A", "open /dev/vsock", open_read, "hidden", "done", "/dev/vsock", 0),
ROW("dev-cpu-msr", "A", "open /dev/cpu/0/msr", open_read, "hidden", NULL, "/dev/cpu/0/msr", 0),
ROW("dev-uinput", "A", "open /dev/uinput", open_read, "hidden", NULL, "/dev/uinput", 0),
ROW("dev-userfaultfd", "A", "open /dev/userfaultfd",
	open_read, "hidden", "done", "/dev/userfaultfd", 0),
};
/* clang-format on */

const struct table proc_table = TABLE(rows);
