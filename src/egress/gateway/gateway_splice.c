/* gateway_splice.c - theory of operation
 *
 * A long body that egress need not read (no mask, no model call, no tap, both sides plain, its
 * length known) goes from socket to socket through a pipe, without being copied. A body shorter
 * than WORTH is not worth a pipe. Bytes in the pipe are sent first, after any change. */
#include "egress/gateway/gateway_splice.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "egress/gateway/gateway_tap.h"

#define WORTH ((uint64_t)512 * 1024)
#define PIPE_SIZE ((size_t)256 * 1024)
#define TURN_MAX ((uint64_t)1 << 20) /* bytes per call: then other connections are served */

bool gateway_splice_allowed(const struct gateway *x)
{
	const struct gateway_stream *from = &x->up->stream, *to = &x->cell;

	if (x->piped > 0)
		return true;
	return !x->no_pipe && !gateway_tap_is_on(x) && x->answered && !x->in.done &&
	       x->in.framing == HTTP1_LENGTH && x->in.left >= (x->has_pipe ? 1 : WORTH) &&
	       !x->mask && mask_stream_held(&x->masked) == 0 && !x->model && !from->tls &&
	       !to->tls && from->in.len == 0 && to->out.len == 0 && !from->ended && !from->broken &&
	       !to->write_broken && !to->broken;
}

/* False: no pipe could be opened. */
static bool open_pipe(struct gateway *x)
{
	if (x->has_pipe)
		return true;
	if (pipe2(x->pipe, O_NONBLOCK | O_CLOEXEC) < 0) {
		x->no_pipe = true; /* then it is copied */
		return false;
	}
	(void)fcntl(x->pipe[1], F_SETPIPE_SZ,
		    (int)PIPE_SIZE); /* if it fails, the pipe is only slower */
	x->has_pipe = true;
	return true;
}

/* Move up to max bytes from the server into the pipe. */
static bool gateway_splice_draw(struct gateway *x, uint64_t max)
{
	struct gateway_stream *from = &x->up->stream;
	size_t room = max < PIPE_SIZE ? (size_t)max : PIPE_SIZE;
	size_t most = x->in.left < room ? (size_t)x->in.left : room;
	ssize_t n =
		splice(from->fd, NULL, x->pipe[1], NULL, most, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

	if (n > 0) {
		x->piped = (size_t)n;
		x->in.left -= (uint64_t)n;
		return true;
	}
	if (n == 0)
		from->ended = true;
	else if (errno == EAGAIN)
		from->dry = true;
	else if (errno != EINTR)
		from->broken = true;
	return false;
}

/* Move up to max bytes from the pipe to the cell. */
static bool gateway_splice_pour(struct gateway *x, uint64_t max)
{
	ssize_t n = splice(x->pipe[0], NULL, x->cell.fd, NULL, max < x->piped ? max : x->piped,
			   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

	if (n > 0) {
		x->piped -= (size_t)n;
		return true;
	}
	x->cell.blocked = n < 0 && (errno == EAGAIN || errno == EINTR);
	x->cell.write_broken = !x->cell.blocked;
	return false;
}

uint64_t gateway_splice(struct gateway *x, uint64_t most)
{
	uint64_t moved = 0;

	x->cell.blocked = false;
	if (!open_pipe(x))
		return 0;
	if (most > TURN_MAX)
		most = TURN_MAX;
	while (moved < most) {
		size_t before = x->piped;

		if (before > 0) {
			if (!gateway_splice_pour(x, most - moved))
				break;
			moved += before - x->piped;
		} else if (x->in.left == 0 || !gateway_splice_draw(x, most - moved)) {
			break;
		}
	}
	if (x->in.left == 0 && x->piped == 0)
		x->in.done = true;
	return moved;
}

void gateway_splice_end(struct gateway *x)
{
	if (x->has_pipe) {
		fd_close(x->pipe[0]);
		fd_close(x->pipe[1]);
	}
	x->has_pipe = x->no_pipe = false;
	x->piped = 0;
}
