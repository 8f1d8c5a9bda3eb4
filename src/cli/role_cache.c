/* role_cache.c - starts cordon-cache: as a user of its own, with its folder, and one end of a
 * channel. cordond gets the other end. It ends when that channel closes, so it ends with the
 * cordond it was started for. The server works without it. */
#include <stdio.h>
#include <sys/socket.h>

#include "own.h"
#include "supervisor.h"

/* Files may be as small as this on average before their number is the limit. */
#define BYTES_PER_FILE 16384
#define FILES_MIN 4096
#define FILES_MAX 400000

int role_cache_start(struct supervisor *v, struct worker *w, int control, struct err *e)
{
	const struct serve *s = v->s;
	const struct role_identity who = role_identity(s, w->role);
	unsigned long long size = s->config.package_cache_size, files = size / BYTES_PER_FILE;
	char word[96];
	int ends[2];

	(void)control;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_sys(e, "channel of cordon-cache");
	OWN_FD daemon_end = ends[0], cache_end = ends[1];
	const int fds[CACHE_FDS_END - CACHE_FD_CHANNEL] = { cache_end, s->cache_fd };

	files = files < FILES_MIN ? FILES_MIN : files > FILES_MAX ? FILES_MAX : files;
	(void)snprintf(word, sizeof(word), "--start=%u:%u:%llu:%llu:%u", s->config.log_format,
		       s->config.log_level, size, files, (unsigned)s->config.storage_reserve);
	if (child_process_start(&(struct child_process_start){ .name = w->role->program,
							       .word = word,
							       .fds = fds,
							       .nfds = COUNT(fds),
							       .drop = who.drop,
							       .uid = who.uid,
							       .gid = who.gid },
				&w->child.pid, e) < 0)
		return err_wrap(e, "start cordon-cache");
	return supervisor_give(v, w, SERVE_CACHE, daemon_end, e);
}
