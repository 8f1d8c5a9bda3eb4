#include "daemon/main/confine_daemon.h"

#include <fcntl.h>
#include <linux/filter.h>

#include "daemon_program.h"
#include "lib/base/own.h"

int confine_daemon_files(const struct confine_folders *f, struct err *e)
{
	OWN_FD null_fd = open("/dev/null", O_PATH | O_CLOEXEC);

	if (null_fd < 0)
		return err_sys(e, "open /dev/null");
	return confine_files(
		&(struct confine_table){
			.net = LANDLOCK_NET_BIND | LANDLOCK_NET_CONNECT,
			.places = { { f->folders, CONFINE_FOLDERS, CONFINE_CHANGE },
				    { f->read, f->nread, CONFINE_READ },
				    { &null_fd, 1,
				      LANDLOCK_ACCESS_FS_WRITE_FILE |
					      LANDLOCK_ACCESS_FS_READ_FILE } } },
		e);
}

int confine_daemon_calls(struct err *e)
{
	return confine_calls(seccomp_daemon, COUNT(seccomp_daemon), e);
}
