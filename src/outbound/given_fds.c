#include "given_fds.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "fd.h"
#include "read_file.h"
#include "resolver.h"

#define FDS_MAX 32

static bool given[FDS_MAX];

void given_fds_find(int first, int end)
{
	assert(end <= FDS_MAX);
	for (int fd = first; fd < end; fd++)
		given[fd] = fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

bool given_fds_has(int fd)
{
	return given[fd];
}

char *given_fds_read(int fd)
{
	char *text = given[fd] ? read_file(fd, READ_FILE_MAX) : strdup("");

	if (given[fd])
		fd_close(fd);
	return text;
}

struct resolver *given_fds_resolver(struct loop *l, int conf_fd, int hosts_fd, struct err *e)
{
	char *conf = given_fds_read(conf_fd), *hosts = given_fds_read(hosts_fd);
	struct resolver *r = NULL;

	(void)err_set(e, ERR_INVALID, "resolv.conf or hosts: unreadable, or longer than 4 MiB");
	if (conf != NULL && hosts != NULL)
		r = resolver_new(l, conf, hosts, e);
	free(conf);
	free(hosts);
	if (r == NULL)
		(void)err_wrap(e, "resolver");
	return r;
}
