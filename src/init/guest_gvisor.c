/* guest_gvisor.c - see guest_gvisor.h.
 *
 * gVisor has cgroups of its own, of version 1, of which the one for processes is enforced. It is
 * needed: each process of the guest has host threads, and where the machine refuses one, gVisor's
 * kernel ends with all its programs. Memory is limited by the cell alone; open files by what runsc
 * was told. */
#include "guest_gvisor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "io.h"

#define PIDS_MAX "/sys/fs/cgroup/pids/pids.max"

int guest_gvisor_limits(const struct guest_hello *h)
{
	char text[24];
	struct err e;

	(void)snprintf(text, sizeof(text), "%" PRIu64, h->pids);
	return io_write_file(AT_FDCWD, PIDS_MAX, h->pids == 0 ? "max" : text, &e) < 0 ? e.sys : 0;
}

int guest_gvisor_machine_id(const char *id)
{
	OWN_FD file = open("/dev/machine-id", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0444);
	char line[40];
	struct err e;

	if (file < 0)
		return errno;
	(void)snprintf(line, sizeof(line), "%.32s\n", id);
	return io_write_all(file, line, strlen(line), &e) < 0 ? e.sys : 0;
}
