/* role_storage.c - starts cordon-storage: with the supervisor's rights, which it gives up itself,
 * the storage folder, and one end of a channel D. cordond gets the other end. It ends when that
 * channel closes, so it ends with the cordond it was started for.
 *
 * For a rootless server it runs in the user namespace of the keepers, whose ids are those of files
 * in layers. That is the first keeper's, so it starts after that. */
#include <stdio.h>
#include <sys/socket.h>

#include "own.h"
#include "storage_msg.h"
#include "supervisor.h"

int role_storage_start(struct supervisor *v, struct worker *w, int control, struct err *e)
{
	const struct serve *s = v->s;
	char word[24];
	int ends[2], fds[STORAGE_FDS_END - STORAGE_FD_CHANNEL];

	(void)control;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_sys(e, "channel D");
	OWN_FD daemon_end = ends[0], storage_end = ends[1];
	fds[STORAGE_FD_CHANNEL - STORAGE_FD_CHANNEL] = storage_end;
	fds[STORAGE_FD_DIR - STORAGE_FD_CHANNEL] = s->storage_fd;
	fds[STORAGE_FD_AUTHORITY - STORAGE_FD_CHANNEL] = s->certificate_fd;
	fds[STORAGE_FD_TEMPLATES - STORAGE_FD_CHANNEL] = s->roots[s->setup.template_root].fd;
	for (unsigned i = 0; i < STORAGE_HOST_MAX; i++)
		fds[STORAGE_FD_HOST - STORAGE_FD_CHANNEL + i] =
			i < s->template.nlayers ? s->template.fds[i] : -1;
	(void)snprintf(word, sizeof(word), "--start=%u:%u", s->config.log_format,
		       s->config.log_level);
	if (child_process_start(&(struct child_process_start){ .name = w->role->program,
							       .word = word,
							       .fds = fds,
							       .nfds = COUNT(fds),
							       .userns = s->userns },
				&w->child.pid, e) < 0)
		return err_wrap(e, "start cordon-storage");
	return supervisor_give(v, w, SERVE_STORAGE, daemon_end, e);
}
