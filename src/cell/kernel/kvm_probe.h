/* kvm_probe.h - is this machine's KVM real? An open /dev/kvm may still be useless: where the
 * machine is a virtual one without nested virtualization, its kernel may emulate each instruction
 * of a guest's kernel, a thousand times slower than the processor. So a little code is run in a
 * virtual machine, and its speed decides. Called at the start of a server and by `cordon doctor`.
 */
#pragma once

#include <stdint.h>

enum kvm_quality {
	KVM_NONE, /* no /dev/kvm, or it refuses */
	KVM_SLOW, /* it is emulated */
	KVM_HUNG, /* the test did not end in time */
	KVM_GOOD,
};

struct kvm_probe {
	enum kvm_quality quality;
	uint64_t picoseconds; /* for one instruction of the guest's kernel, SLOW and GOOD */
	char why[96];	      /* NONE: what failed */
};

/* Takes a few milliseconds, two seconds if KVM hangs: the test runs in a child. */
void kvm_probe(struct kvm_probe *ret);
