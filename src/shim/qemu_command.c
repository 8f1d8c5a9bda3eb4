/* qemu_command.c - see qemu_command.h. */
#include "qemu_command.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* reboot=t panic=-1: a kernel that panics makes a triple fault at once, which QEMU (-no-reboot)
 * reports and ends by. init_on_free: what a program had in memory is not in later images, and
 * free memory takes no room in them; init_on_alloc would clear the same memory again. The crypto
 * self-tests, the timer check and the watch over the clock cost a third of the boot and find
 * nothing in a virtual machine. */
#define KERNEL_LINE                                                          \
	"console=ttyS0 quiet reboot=t panic=-1 tsc=reliable no_timer_check " \
	"cryptomgr.notests random.trust_cpu=on audit=0 init_on_free=1 init_on_alloc=0"

/* norandmaps: QEMU 7.2 translates code again for each address that it is at, so a program at random
 * addresses is translated whenever it is started; that is more than half of the time of a short
 * one, and memory of QEMU each time. Without tsc_early_khz (below) the kernel waits for a timer
 * that this machine has not. */
#define TCG_LINE "norandmaps"

#define SANDBOX "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"

static void PRINTF(2, 3) word(struct qemu_command *c, const char *fmt, ...)
{
	size_t room = sizeof(c->text) - c->used;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(c->text + c->used, room, fmt, args);
	va_end(args);
	if (n < 0 || (size_t)n >= room || c->n >= QEMU_WORDS_MAX) {
		c->full = true;
		return;
	}
	c->argv[c->n++] = c->text + c->used;
	c->argv[c->n] = NULL;
	c->used += (size_t)n + 1;
}

static void option(struct qemu_command *c, const char *name, const char *value)
{
	word(c, "%s", name);
	word(c, "%s", value);
}

/* Emulation executes the string instructions by bytes that a kernel takes if the processor says
 * that they are fast; without the two flags it copies by words. */
#define TCG_CPU "max,-erms,-fsrm"

/* A machine without firmware devices that a guest could use. The real-time clock stays: the kernel
 * waits seconds for one that is missing. */
static void add_machine(struct qemu_command *c, const struct qemu_plan *p)
{
	option(c, "-M",
	       "microvm,acpi=on,rtc=on,pit=off,pic=off,suppress-vmdesc=on,"
	       "memory-backend=ram");
	option(c, "-accel", p->accel == BOOT_ACCEL_KVM ? "kvm" : "tcg,thread=multi,tb-size=64");
	option(c, "-cpu", p->accel == BOOT_ACCEL_KVM ? "host" : TCG_CPU);
	word(c, "-smp");
	word(c, "%" PRIu32, p->request->vcpus);
	word(c, "-m");
	word(c, "%" PRIu64 "M", p->request->memory_bytes >> 20);
	word(c, "-nodefaults");
	word(c, "-no-user-config");
	word(c, "-no-reboot");
	option(c, "-display", "none");
	option(c, "-sandbox", SANDBOX);
	/* The cell has few processes; each reader of the disk is one. */
	option(c, "-object", "main-loop,id=main-loop,thread-pool-max=8");
}

/* Private in both cases: a clone maps the sealed memory file, of which pages that it writes become
 * its own; a cold start uses /dev/zero, which is memory without a file behind it, but has a name
 * that guest_memory.c finds. (QEMU prints that it cannot resize that file, and goes on.) */
static void add_memory(struct qemu_command *c, const struct qemu_plan *p)
{
	char path[32] = "/dev/zero";

	if (p->ram_fd >= 0)
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", p->ram_fd);
	word(c, "-object");
	word(c, "memory-backend-file,id=ram,size=%" PRIu64 ",mem-path=%s,share=off",
	     p->request->memory_bytes, path);
}

static void add_devices(struct qemu_command *c, const struct qemu_plan *p)
{
	word(c, "-chardev");
	word(c, "socket,id=control,fd=%d", p->control_fd);
	option(c, "-mon", "chardev=control,mode=control");
	option(c, "-chardev", "stdio,id=console,signal=off");
	option(c, "-serial", "chardev:console");
	word(c, "-chardev");
	word(c, "socket,id=stream,fd=%d", p->stream_fd);
	option(c, "-device", "virtio-serial-device,id=serial,max_ports=2");
	option(c, "-device", "virtserialport,bus=serial.0,nr=1,chardev=stream,name=cordon");
	if (p->root_fd < 0)
		return;
	word(c, "-add-fd");
	word(c, "fd=%d,set=1", p->root_fd);
	option(c, "-blockdev",
	       "driver=file,node-name=root,filename=/dev/fdset/1,read-only=on,locking=off");
	option(c, "-device", "virtio-blk-device,drive=root");
}

static void add_start(struct qemu_command *c, const struct qemu_plan *p)
{
	if (p->ram_fd >= 0) {
		/* What snapshots write has no head with the machine's name. */
		option(c, "-global", "migration.send-configuration=off");
		word(c, "-S");
		option(c, "-incoming", "defer"); /* engine_qemu.c says when */
		return;
	}
	word(c, "-kernel");
	word(c, "/proc/self/fd/%d", p->kernel_fd);
	word(c, "-initrd");
	word(c, "/proc/self/fd/%d", p->initrd_fd);
	word(c, "-append");
	if (p->accel == BOOT_ACCEL_KVM)
		word(c, "%s", KERNEL_LINE);
	else
		word(c, "%s " TCG_LINE " tsc_early_khz=%" PRIu64, KERNEL_LINE, p->tsc_khz);
}

int qemu_command_make(const struct qemu_plan *p, struct qemu_command *ret, struct err *e)
{
	*ret = (struct qemu_command){ .n = 0 };
	word(ret, "qemu-system-x86_64");
	add_machine(ret, p);
	add_memory(ret, p);
	add_devices(ret, p);
	add_start(ret, p);
	return ret->full ? err_set(e, ERR_LIMIT, "QEMU's command line is too long") : 0;
}
