/* qemu_devices.c - see qemu_devices.h. */
#include "qemu_devices.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "guest_memory.h"

#define DEVICES_MAX (16ULL << 20) /* 12 KiB are usual */

/* QEMU takes a file of a set by its access mode: it asks for one that is open for writing only. */
int qemu_devices_make(int *ret, int *ret_writer, struct err *e)
{
	char path[32];
	OWN_FD fd = memfd_create("guest-devices", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return err_sys(e, "make a memory file");
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	*ret_writer = open(path, O_WRONLY | O_CLOEXEC);
	if (*ret_writer < 0)
		return err_sys(e, "open a memory file");
	*ret = TAKE_FD(fd);
	return 0;
}

int qemu_devices_seal(int fd, struct err *e)
{
	struct stat st;

	if (guest_memory_seal(fd, e) < 0)
		return -1;
	if (fstat(fd, &st) < 0 || st.st_size == 0 || (uint64_t)st.st_size > DEVICES_MAX)
		return err_set(e, ERR_INVALID, "QEMU wrote no proper state of its devices");
	return 0;
}

int qemu_devices_reopen(int fd, int *ret, struct err *e)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	*ret = open(path, O_RDONLY | O_CLOEXEC);
	return *ret < 0 ? err_sys(e, "open the state of the guest's devices") : 0;
}
