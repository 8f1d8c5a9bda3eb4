/* state_lock.c - see state_lock.h. */
#include "state_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/file.h>

#include "clock.h"
#include "log.h"

#define WAIT_MS 15000 /* for an earlier cordond to end */
#define WARN_MS 1000  /* after which the wait is logged */

int state_lock(int state_fd, const char *folder, int *ret_fd, struct err *e)
{
	uint64_t began = clock_now_ns(), now;
	bool warned = false;

	*ret_fd = openat(state_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (*ret_fd < 0)
		return err_sys(e, "open lock in %s", folder);
	while (flock(*ret_fd, LOCK_EX | LOCK_NB) < 0) {
		now = clock_now_ns();
		if (errno != EWOULDBLOCK || now > began + WAIT_MS * CLOCK_MS)
			return err_sys(e, "%s is used by another cordond", folder);
		if (!warned && now > began + WARN_MS * CLOCK_MS) {
			warned = true;
			log_warn("waiting for another cordond that uses the state folder to end",
				 "folder=%s for_ms=%d", folder, WAIT_MS);
		}
		(void)poll(NULL, 0, 20);
	}
	return 0;
}
