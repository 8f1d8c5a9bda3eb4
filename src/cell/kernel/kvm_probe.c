/* kvm_probe.c - theory of operation
 *
 * The guest is one page of code in 64-bit mode, ring 0, with the lowest 2 MiB mapped to themselves:
 * a loop of two instructions, then HLT, which ends KVM_RUN. It runs twice. The first run fills
 * tables, the second is measured. Real processors take less than a nanosecond for an instruction,
 * nested software emulation some, a KVM that interprets several hundred. */
#include "cell/kernel/kvm_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/own.h"

#define ROUNDS 10000	 /* of two instructions */
#define GOOD_PICOS 50000 /* below this, KVM is better than software emulation */
#define LIMIT_MS 2000
#define MEMORY 0x5000
#define TABLES 0x1000 /* three pages: the levels of the page table */
#define CODE 0x4000

/* The virtual machine of the test. The child's exit frees it. */
struct machine {
	int kvm, vm, vcpu; /* owned. -1: none */
	struct kvm_run *run;
	uint8_t *memory;
};

/* By system call: musl's ioctl(2) takes an int, and not all of these numbers fit. */
static int kvm_probe_kvm_call(int fd, unsigned long request, const void *arg)
{
	return (int)syscall(SYS_ioctl, fd, request, arg);
}

static int kvm_probe_fail(struct kvm_probe *ret, const char *what)
{
	(void)snprintf(ret->why, sizeof(ret->why), "%s: %s", what, strerror(errno));
	return -1;
}

static void kvm_probe_put_u64(uint8_t *at, uint64_t value)
{
	memcpy(at, &value, sizeof(value));
}

static void kvm_probe_fill_memory(uint8_t *memory)
{
	static const uint8_t code[] = {
		0xff, 0xc9, /* again: dec %ecx */
		0x75, 0xfc, /* jnz again */
		0xf4,	    /* hlt */
	};

	kvm_probe_put_u64(memory + TABLES, (TABLES + 0x1000) | 3); /* present, writable */
	kvm_probe_put_u64(memory + TABLES + 0x1000, (TABLES + 0x2000) | 3);
	kvm_probe_put_u64(memory + TABLES + 0x2000, 0x83); /* a page of 2 MiB */
	memcpy(memory + CODE, code, sizeof(code));
}

static int kvm_probe_add_memory(struct machine *m, struct kvm_probe *ret)
{
	struct kvm_userspace_memory_region region = { .memory_size = MEMORY };

	m->memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m->memory == MAP_FAILED)
		return kvm_probe_fail(ret, "memory");
	kvm_probe_fill_memory(m->memory);
	region.userspace_addr = (uint64_t)(uintptr_t)m->memory;
	if (kvm_probe_kvm_call(m->vm, KVM_SET_USER_MEMORY_REGION, &region) < 0)
		return kvm_probe_fail(ret, "memory of a virtual machine");
	return 0;
}

/* -1: ret->why names the step that failed. */
static int kvm_probe_make_machine(struct machine *m, struct kvm_probe *ret)
{
	int size;

	m->kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (m->kvm < 0)
		return kvm_probe_fail(ret, "/dev/kvm");
	m->vm = kvm_probe_kvm_call(m->kvm, KVM_CREATE_VM, NULL);
	if (m->vm < 0)
		return kvm_probe_fail(ret, "make a virtual machine");
	if (kvm_probe_add_memory(m, ret) < 0)
		return -1;
	m->vcpu = kvm_probe_kvm_call(m->vm, KVM_CREATE_VCPU, NULL);
	size = kvm_probe_kvm_call(m->kvm, KVM_GET_VCPU_MMAP_SIZE, NULL);
	if (m->vcpu < 0 || size < (int)sizeof(*m->run))
		return kvm_probe_fail(ret, "make a processor");
	m->run = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, m->vcpu, 0);
	return m->run == MAP_FAILED ? kvm_probe_fail(ret, "make a processor") : 0;
}

/* 64-bit mode, ring 0. */
static int kvm_probe_set_mode(const struct machine *m, struct kvm_probe *ret)
{
	const struct kvm_segment code = {
		.limit = 0xffffffff, .selector = 8, .type = 11, .present = 1, .s = 1, .l = 1, .g = 1
	};
	const struct kvm_segment data = { .limit = 0xffffffff,
					  .selector = 16,
					  .type = 3,
					  .present = 1,
					  .s = 1,
					  .db = 1,
					  .g = 1 };
	struct kvm_sregs s;

	if (kvm_probe_kvm_call(m->vcpu, KVM_GET_SREGS, &s) < 0)
		return kvm_probe_fail(ret, "read registers");
	s.cs = code;
	s.ds = s.es = s.fs = s.gs = s.ss = data;
	s.cr3 = TABLES;
	s.cr4 = 0x20;	    /* PAE */
	s.cr0 = 0x80000011; /* PG, ET, PE */
	s.efer = 0x500;	    /* LMA, LME */
	return kvm_probe_kvm_call(m->vcpu, KVM_SET_SREGS, &s) < 0
		       ? kvm_probe_fail(ret, "set registers")
		       : 0;
}

static int kvm_probe_run_once(const struct machine *m, uint64_t *ret_ns, struct kvm_probe *ret)
{
	const struct kvm_regs start = { .rip = CODE, .rcx = ROUNDS, .rflags = 2 };
	uint64_t begin;

	if (kvm_probe_kvm_call(m->vcpu, KVM_SET_REGS, &start) < 0)
		return kvm_probe_fail(ret, "set registers");
	begin = clock_now_ns();
	do {
		if (kvm_probe_kvm_call(m->vcpu, KVM_RUN, NULL) < 0 && errno != EINTR)
			return kvm_probe_fail(ret, "run a virtual machine");
	} while (m->run->exit_reason == KVM_EXIT_INTR);
	*ret_ns = clock_now_ns() - begin;
	if (m->run->exit_reason == KVM_EXIT_HLT)
		return 0;
	(void)snprintf(ret->why, sizeof(ret->why), "a virtual machine ended for reason %u",
		       m->run->exit_reason);
	return -1;
}

/* In the child. */
static void kvm_probe_measure(struct kvm_probe *ret)
{
	struct machine m = { .kvm = -1, .vm = -1, .vcpu = -1 };
	uint64_t ns;

	if (kvm_probe_make_machine(&m, ret) < 0 || kvm_probe_set_mode(&m, ret) < 0 ||
	    kvm_probe_run_once(&m, &ns, ret) < 0 || kvm_probe_run_once(&m, &ns, ret) < 0)
		return;
	ret->picoseconds = ns * 1000 / (2ULL * ROUNDS);
	ret->quality = ret->picoseconds < GOOD_PICOS ? KVM_GOOD : KVM_SLOW;
}

/* A child that hangs in the kernel cannot be waited for, and is left to the kernel. */
static void kvm_probe_end_child(pid_t pid)
{
	(void)kill(pid, SIGKILL);
	for (unsigned i = 0; i < 100 && waitpid(pid, NULL, WNOHANG) == 0; i++)
		(void)poll(NULL, 0, 1);
}

/* A child that dies without an answer counts as hung. */
void kvm_probe(struct kvm_probe *ret)
{
	struct kvm_probe found = { .quality = KVM_NONE };
	struct pollfd answer = { .fd = -1, .events = POLLIN };
	int ends[2];
	pid_t pid;

	*ret = (struct kvm_probe){ .quality = KVM_NONE, .why = "no process could be started" };
	if (pipe2(ends, O_CLOEXEC) < 0)
		return;
	OWN_FD from = ends[0];
	OWN_FD to = ends[1];
	pid = fork();
	if (pid == 0) {
		kvm_probe_measure(&found);
		_exit(write(to, &found, sizeof(found)) == sizeof(found) ? 0 : 1);
	}
	fd_close(TAKE_FD(to));
	if (pid < 0)
		return;
	answer.fd = from;
	ret->quality = KVM_HUNG;
	if (poll(&answer, 1, LIMIT_MS) == 1 && read(from, &found, sizeof(found)) == sizeof(found))
		*ret = found;
	kvm_probe_end_child(pid);
}
