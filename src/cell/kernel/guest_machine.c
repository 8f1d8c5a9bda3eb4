#include "cell/kernel/guest_machine.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cell/kernel/guest_tool.h"
#include "lib/base/own.h"

#define QEMU_MIN_MAJOR 7
#define QEMU_MIN_MINOR 2 /* Debian 12 */

/* The version is part of the origin of guest images, so it must be known. */
static int guest_machine_find_qemu(unsigned ret_version[2], struct err *e)
{
	static const char *const argv[] = { GUEST_QEMU, "--version", NULL };
	char text[256];

	if (access(GUEST_QEMU, X_OK) < 0)
		return err_set(e, ERR_UNSUPPORTED,
			       "QEMU is not installed: `cordon level install microvm` does it");
	if (guest_tool_read(argv, text, sizeof(text), e) < 0)
		return err_wrap(e, "QEMU");
	/* NOLINTNEXTLINE(cert-err34-c): four digits fit */
	if (sscanf(text, "QEMU emulator version %4u.%4u", &ret_version[0], &ret_version[1]) != 2)
		return err_set(e, ERR_UNSUPPORTED, GUEST_QEMU " does not tell its version");
	if (ret_version[0] < QEMU_MIN_MAJOR ||
	    (ret_version[0] == QEMU_MIN_MAJOR && ret_version[1] < QEMU_MIN_MINOR))
		return err_set(e, ERR_UNSUPPORTED, "QEMU is %u.%u, too old: %u.%u is needed",
			       ret_version[0], ret_version[1], QEMU_MIN_MAJOR, QEMU_MIN_MINOR);
	return 0;
}

static int guest_machine_find_kernel(const char *state_dir, struct guest_manifest *ret,
				     struct err *e)
{
	int dir = -1;

	if (guest_files_open_dir(state_dir, &dir, e) < 0)
		return -1;
	OWN_FD held = dir;
	return guest_manifest_read(held, ret, e);
}

int guest_machine_find(const char *state_dir, struct guest_machine *ret, struct err *e)
{
	*ret = (struct guest_machine){ .use_kvm = false };
#ifndef __x86_64__
	return err_set(e, ERR_UNSUPPORTED, "level microvm is for x86-64 only");
#endif
	if (guest_machine_find_qemu(ret->qemu, e) < 0 ||
	    guest_machine_find_kernel(state_dir, &ret->kernel, e) < 0)
		return -1;
	kvm_probe(&ret->kvm);
	ret->use_kvm = ret->kvm.quality == KVM_GOOD;
	return 0;
}

void guest_machine_accel_text(const struct guest_machine *m, char *ret_text, size_t cap)
{
	static const char tcg[] = "tcg (software emulation, about 10 times slower)";
	double ns = (double)m->kvm.picoseconds / 1000;

	if (m->kvm.quality == KVM_GOOD)
		(void)snprintf(ret_text, cap,
			       "kvm (%.1f ns for an instruction of a guest's kernel)", ns);
	else if (m->kvm.quality == KVM_SLOW)
		(void)snprintf(
			ret_text, cap,
			"%s: KVM of this machine is emulated itself, %.0f ns for an instruction",
			tcg, ns);
	else if (m->kvm.quality == KVM_HUNG)
		(void)snprintf(ret_text, cap, "%s: /dev/kvm does not answer", tcg);
	else
		(void)snprintf(ret_text, cap, "%s: no KVM, %s", tcg, m->kvm.why);
}
