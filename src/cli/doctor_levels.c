/* doctor_levels.c - the part of cordon doctor about level microvm: QEMU, the guest kernel, and
 * whether guests run on the processor or in software. */
#include <stdio.h>
#include <unistd.h>

#include "config.h"
#include "doctor.h"
#include "guest_machine.h"

void doctor_microvm(const char *state_dir)
{
	static struct config config;
	struct config_starter starter;
	struct guest_machine m;
	char text[200];
	struct err e;

	config_starter_find(&starter, environ);
	config_defaults(&config, &starter);
	if (guest_machine_find(state_dir == NULL ? config.state_dir : state_dir, &m, &e) < 0) {
		doctor_row("level", "microvm", false, e.msg, "");
		return;
	}
	(void)snprintf(text, sizeof(text), "QEMU %u.%u, guest kernel %s", m.qemu[0], m.qemu[1],
		       m.kernel.release);
	doctor_row("level", "microvm", true, text, "");
	guest_machine_accel_text(&m, text, sizeof(text));
	doctor_row("level", "microvm speed", m.use_kvm, text,
		   "a processor with virtualization that this machine may use, and its user may "
		   "open /dev/kvm");
}
