#include "lib/outbound/given_fds.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/outbound/resolver.h"

/* ---- whole small files: the programs can open none themselves */

#define PIECE 16384

char *read_file(int fd, size_t max)
{
	struct buf b = BUF_INIT(max + PIECE);
	struct err e;
	ssize_t n = 1;

	b.secret = true; /* it may be the key of the egress CA */
	while (n > 0 && b.len <= max) {
		uint8_t *to = buf_reserve(&b, PIECE, &e);

		n = to == NULL ? -1 : pread(fd, to, PIECE, (off_t)b.len);
		if (n > 0)
			buf_commit(&b, (size_t)n);
	}
	if (n != 0 || b.len > max || (b.len > 0 && memchr(b.data, '\0', b.len) != NULL)) {
		buf_release(&b);
		return NULL;
	}
	char *text = strdup(buf_text(&b));

	buf_release(&b);
	return text;
}

#define FDS_MAX 32

/* ---- the descriptors */

/* Which numbers were given at the start. Set once by given_fds_find(). */
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

/* The error is set first, for texts that cannot be read. resolver_new() writes its own over it. */
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
