/* guest_machine.h - whether this machine can run guests at level microvm, and how fast. Called at
 * the start of a server, by `cordon run` and by `cordon doctor`. */
#pragma once

#include "cell/kernel/guest_files.h"
#include "cell/kernel/kvm_probe.h"

#define GUEST_QEMU "/usr/bin/qemu-system-x86_64" /* of cells, too: their /usr is the machine's */

struct guest_machine {
	unsigned qemu[2]; /* its version, such as 7 and 2 */
	struct guest_manifest kernel;
	struct kvm_probe kvm;
	bool use_kvm; /* else software emulation */
};

/* ERR_UNSUPPORTED: the message names the missing part, and how to get it. */
int guest_machine_find(const char *state_dir, struct guest_machine *ret, struct err *e) MUST_USE;

/* One line about the acceleration, such as "tcg (software emulation, about 10 times slower): ...".
 */
void guest_machine_accel_text(const struct guest_machine *m, char *ret_text, size_t cap);
