/* guest_gvisor.c - see guest_gvisor.h.
 *
 * gVisor has cgroups of its own, of version 1, of which the one for processes is enforced. It is
 * needed: each process of the guest has host threads, and where the machine refuses one, gVisor's
 * kernel ends with all its programs. Memory is limited by the cell alone. */
#include "cell/init/pid1/guest_gvisor.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "cell/init/pid1/pty_pump.h"
#include "cell/keeper/restrict.h"
#include "lib/base/io.h"

#define PIDS_FILE "/sys/fs/cgroup/pids/pids.max"

bool guest_gvisor_is_used;

static struct {
	bool wanted, done;
	uid_t uid;
	gid_t gid;
} locked;

void guest_gvisor_init(int argc, char **argv)
{
	guest_gvisor_is_used = true;
	pty_pump_always_signals = true;
	if (argc < 2)
		return;
	locked.wanted = true;
	locked.uid = (uid_t)strtoul(argv[0], NULL, 10);
	locked.gid = (gid_t)strtoul(argv[1], NULL, 10);
}

static int guest_gvisor_set_pids(uint64_t pids)
{
	char text[24];
	struct err e;

	(void)snprintf(text, sizeof(text), "%" PRIu64, pids);
	return io_write_file(AT_FDCWD, PIDS_FILE, pids == 0 ? "max" : text, &e) < 0 ? e.sys : 0;
}

/* /etc/machine-id leads there, as in the cell. */
static int guest_gvisor_set_machine_id(const char *id)
{
	OWN_FD file = open("/dev/machine-id", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0444);
	char line[40];
	struct err e;

	if (file < 0)
		return errno;
	(void)snprintf(line, sizeof(line), "%.32s\n", id);
	return io_write_all(file, line, strlen(line), &e) < 0 ? e.sys : 0;
}

/* runsc gave no ambient capabilities, and gVisor knows no call about them. */
static int guest_gvisor_drop_caps(void)
{
	for (int cap = 0; cap <= CAP_LAST_CAP; cap++)
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1 &&
		    prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return -1;
	return 0;
}

/* As the keeper does it with PID 1 of a container. A failure ends PID 1, and the guest with it: no
 * program may run with more rights than the profile has. */
static void guest_gvisor_lock(void)
{
	struct err e;

	locked.done = true;
	if (guest_gvisor_drop_caps() < 0 || setgroups(0, NULL) < 0 ||
	    setresgid(locked.gid, locked.gid, locked.gid) < 0 ||
	    setresuid(locked.uid, locked.uid, locked.uid) < 0 || restrict_no_new_privs(&e) < 0 ||
	    restrict_calls(CELL_LOCKED, RESTRICT_UNWATCHED, NULL, &e) < 0)
		_exit(1);
}

uint32_t guest_gvisor_apply(const struct guest_hello *h, int *ret_sys)
{
	int limits, id;

	if (locked.done)
		return 0; /* set by the first HELLO, this process may not change them any more */
	limits = guest_gvisor_set_pids(h->pids);
	id = h->machine_id[0] != '\0' ? guest_gvisor_set_machine_id(h->machine_id) : 0;
	if (locked.wanted)
		guest_gvisor_lock();
	*ret_sys = limits != 0 ? limits : id;
	return (limits != 0 ? GUEST_NO_LIMITS : 0U) | (id != 0 ? GUEST_NO_MACHINE_ID : 0U);
}
