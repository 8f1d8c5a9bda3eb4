/* cells.c - see cells.h. */
#include "daemon/cells/cells.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#include "daemon/cells/cell_socket.h"
#include "daemon/cells/live_cell.h"
#include "lib/base/io.h"
#include "lib/base/session_id.h"

void cells_init(struct cells *cs, struct loop *l, unsigned nkeepers)
{
	*cs = (struct cells){ .loop = l, .dir_fd = -1 };
	fd_budget_init(&cs->fds);
	keeper_link_init(&cs->keeper, l, nkeepers);
	cs->keeper.reserve = &cs->fds.reserve;
}

void cells_release(struct cells *cs)
{
	keeper_link_release(&cs->keeper);
	fd_reserve_release(&cs->fds.reserve);
	io_close_all(&cs->dir_fd, 1);
}

int cells_end_unknown(struct cells *cs, bool (*is_known)(void *arg, const char *id), void *arg,
		      struct err *e)
{
	int fd = openat(cs->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;

	if (dir == NULL) {
		(void)err_sys(e, "read the directory of cells");
		io_close_all(&fd, 1);
		return -1;
	}
	while ((d = readdir(dir)) != NULL) {
		char id[SESSION_ID_MAX];
		size_t n = strcspn(d->d_name, ".");

		if (strcmp(d->d_name + n, ".sock") == 0 && session_id_read(d->d_name, n, id) &&
		    !is_known(arg, id))
			live_cell_end_unknown(cs, id);
	}
	(void)closedir(dir);
	return 0;
}

void cells_usage(const struct cells *cs, const struct cell_level *level, const char *id,
		 enum usage_detail detail, struct usage *ret)
{
	cell_ops(level)->usage(cs->cgroups, id, detail, ret);
	if (detail != USAGE_LIMITS)
		ret->cpu_us += cell_watch_cpu_us(cs->dir_fd, id);
}
