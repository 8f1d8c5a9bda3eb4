#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "clock.h"
#include "io.h"

void agent_init(struct agent *a, int sock)
{
	a->sock = sock;
	a->have = a->nfds = 0;
}

void agent_release(struct agent *a)
{
	io_close_all(&a->sock, 1);
	io_close_all(a->fds, a->nfds);
	a->nfds = 0;
}

static int send_frame(struct agent *a, enum agent_type type, const void *body, size_t len,
		      struct err *e)
{
	uint8_t head[FRAME_HEAD];

	frame_head(head, (uint16_t)type, (uint32_t)len);
	if (io_send(a->sock, head, sizeof(head), NULL, 0, e) < 0 ||
	    (len > 0 && io_send(a->sock, body, len, NULL, 0, e) < 0))
		return err_wrap(e, "PID 1");
	return 0;
}

int agent_send_spawn(struct agent *a, const struct agent_spawn *s, struct err *e)
{
	size_t len = agent_spawn_size(s);
	OWN_MEM uint8_t *body = NULL;

	if (len == 0)
		return err_set(e, ERR_LIMIT, "arguments and environment are larger than %u MiB",
			       AGENT_REQUEST_MAX >> 20);
	body = malloc(len);
	if (body == NULL)
		return err_sys(e, "allocate");
	agent_spawn_write(s, body);
	return send_frame(a, AGENT_SPAWN, body, len, e);
}

int agent_send_signal(struct agent *a, uint32_t handle, int sig, struct err *e)
{
	const struct agent_signal s = { handle, sig };

	return send_frame(a, AGENT_SIGNAL, &s, sizeof(s), e);
}

int agent_send_kill_all(struct agent *a, struct err *e)
{
	return send_frame(a, AGENT_KILL_ALL, NULL, 0, e);
}

/* A descriptor from a cell could be anything: a terminal of somebody, a file that blocks. Pipes and
 * the master side of a PTY are the two things we asked for. */
static int check_fd(int fd, bool alone, struct err *e)
{
	struct stat st;
	int flags = fcntl(fd, F_GETFL);

	if (fstat(fd, &st) < 0 || flags < 0)
		return err_sys(e, "descriptor from PID 1");
	if (!(alone && S_ISCHR(st.st_mode) && st.st_rdev == makedev(5, 2)) && !S_ISFIFO(st.st_mode))
		return err_set(e, ERR_INVALID, "PID 1 sent a descriptor that is no pipe or PTY");
	if (fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return err_sys(e, "descriptor from PID 1");
	return 0;
}

static int check_fds(struct agent *a, struct err *e)
{
	for (size_t i = 0; i < a->nfds; i++)
		if (check_fd(a->fds[i], a->nfds == 1, e) < 0)
			return -1;
	return 0;
}

/* Takes the first whole message out of the buffer. */
static int take(struct agent *a, enum agent_type *ret_type, struct agent_event *ret, struct err *e)
{
	struct frame f;
	int n = frame_read(a->bytes, a->have, AGENT_REPLY_MAX, &f, e);

	if (n <= 0)
		return n;
	if (agent_event_read(&f, ret, e) < 0)
		return -1;
	*ret_type = (enum agent_type)f.type;
	if ((f.type == AGENT_STARTED) != (a->nfds > 0))
		return err_set(e, ERR_INVALID, "PID 1 sent descriptors without need or none");
	a->have -= (size_t)n;
	memmove(a->bytes, a->bytes + n, a->have);
	return f.type == AGENT_STARTED && check_fds(a, e) < 0 ? -1 : 1;
}

/* Reads at most up to the end of the frame at hand: descriptors travel with its first byte, and so
 * never get ahead of their message. */
static int fill(struct agent *a, struct err *e)
{
	struct frame f;
	size_t want = FRAME_HEAD, nfds = 0;
	int fds[AGENT_FDS];
	ssize_t n;

	if (a->have >= FRAME_HEAD) {
		want = FRAME_HEAD + sizeof(struct agent_event);
		if (frame_read(a->bytes, a->have, AGENT_REPLY_MAX, &f, e) < 0)
			return -1;
	}
	if (want <= a->have)
		return err_set(e, ERR_INVALID, "PID 1 sent a message of the wrong size");
	n = io_recv(a->sock, a->bytes + a->have, want - a->have, fds, AGENT_FDS, &nfds, e);
	if (n <= 0)
		return n < 0 ? -1 : err_set(e, ERR_SYSTEM, "PID 1 is gone");
	a->have += (size_t)n;
	if (a->nfds + nfds > AGENT_FDS) {
		io_close_all(fds, nfds);
		return err_set(e, ERR_INVALID, "PID 1 sent too many descriptors");
	}
	memcpy(a->fds + a->nfds, fds, nfds * sizeof(int));
	a->nfds += nfds;
	return 0;
}

int agent_next(struct agent *a, int wait_ms, enum agent_type *ret_type, struct agent_event *ret,
	       struct err *e)
{
	const uint64_t end = clock_now_ns() + (unsigned)wait_ms * CLOCK_MS;

	for (;;) {
		struct pollfd p = { .fd = a->sock, .events = POLLIN };
		uint64_t now = clock_now_ns();
		int got = take(a, ret_type, ret, e);

		if (got != 0)
			return got;
		if (poll(&p, 1, now < end ? (int)((end - now) / CLOCK_MS) + 1 : 0) <= 0) {
			if (now >= end)
				return 0;
			continue; /* interrupted, or a moment early */
		}
		if (fill(a, e) < 0)
			return -1;
	}
}
