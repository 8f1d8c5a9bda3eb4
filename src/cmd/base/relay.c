#include "cmd/base/relay.h"

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "lib/base/fd.h"

#define DRAIN_MS 1000

static void close_fd(int *fd)
{
	fd_close(*fd);
	*fd = -1;
}

/* The standard output of this process may be blocking: a pipe that polls writable takes PIPE_BUF
 * without blocking, a file takes anything. The pipes of the cell are non-blocking. */
static size_t safe_chunk(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? RELAY_BUFFER : PIPE_BUF;
}

static void init_stream(struct relay_stream *s, int from, int to, bool output)
{
	s->from = from;
	s->to = to;
	s->tty = false;
	s->last = '\n';
	s->counted = output;
	s->chunk = output ? safe_chunk(to) : RELAY_BUFFER;
	s->at = s->have = 0;
}

void relay_init(struct relay *r, int in, int out, int err, uint64_t limit)
{
	init_stream(&r->in, in < 0 ? -1 : STDIN_FILENO, in, false);
	init_stream(&r->out, out, STDOUT_FILENO, true);
	init_stream(&r->err, err, STDERR_FILENO, true);
	r->held = r->unread = false;
	r->limit = limit;
	r->output_bytes = 0;
	r->truncated = false;
	r->write_error = 0;
}

void relay_init_tty(struct relay *r, int in, int out, uint64_t limit)
{
	relay_init(r, in, out, -1, limit);
	r->in.tty = true;
}

void relay_init_held(struct relay *r, int in, int out, uint64_t limit)
{
	relay_init_tty(r, in, out, limit);
	r->held = true;
}

static void end_input(struct relay_stream *in)
{
	in->from = -1; /* standard input stays open */
	close_fd(&in->to);
	in->have = 0;
}

void relay_release(struct relay *r)
{
	end_input(&r->in);
	close_fd(&r->out.from);
	close_fd(&r->err.from);
}

/* The rest of the output is cut off as by `| head -c`, and a terminal hangs up. */
static void relay_cut(struct relay *r)
{
	if (!r->held) {
		relay_release(r);
		return;
	}
	end_input(&r->in);
	r->unread = true;
}

/* Send ^D, and once more if that only ends an unfinished line. To a terminal in raw mode it would
 * be a byte like any other. */
static void type_end(struct relay_stream *in)
{
	struct termios mode;

	in->from = -1;
	in->at = in->have = 0;
	if (tcgetattr(in->to, &mode) == 0 && (mode.c_lflag & ICANON) == 0)
		return;
	in->buffer[0] = in->buffer[1] = 'D' - '@';
	in->have = in->last == '\n' ? 1 : 2;
}

static void read_some(struct relay *r, struct relay_stream *s)
{
	ssize_t n = read(s->from, s->buffer, sizeof(s->buffer));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	s->at = 0;
	s->have = n < 0 ? 0 : (size_t)n;
	if (n <= 0) { /* EIO: the last user of the PTY is gone */
		if (s->counted)
			close_fd(&s->from);
		else if (s->tty)
			type_end(s);
		else
			end_input(s);
		return;
	}
	if (!s->counted) {
		s->last = s->buffer[n - 1];
		return;
	}
	if (r->unread) {
		s->have = 0;
		return;
	}
	if (r->limit > 0 && s->have > r->limit - r->output_bytes) {
		s->have = (size_t)(r->limit - r->output_bytes);
		r->truncated = true;
		relay_cut(r);
	}
	r->output_bytes += s->have;
}

static void write_some(struct relay *r, struct relay_stream *s)
{
	ssize_t n = write(s->to, s->buffer + s->at, s->have < s->chunk ? s->have : s->chunk);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		/* The reader of the output is gone: close the cell's end, so that its writer
		 * notices. */
		if (s->counted && errno != EPIPE)
			r->write_error = errno;
		s->have = 0;
		if (!s->counted)
			end_input(s);
		else if (r->in.tty)
			relay_cut(r);
		else
			close_fd(&s->from);
		return;
	}
	s->at += (size_t)n;
	s->have -= (size_t)n;
}

static struct pollfd relay_want(const struct relay_stream *s)
{
	if (s->have > 0)
		return (struct pollfd){ .fd = s->to, .events = POLLOUT };
	return (struct pollfd){ .fd = s->from, .events = POLLIN };
}

size_t relay_wants(const struct relay *r, struct pollfd *fds)
{
	fds[0] = relay_want(&r->in);
	fds[1] = relay_want(&r->out);
	fds[2] = relay_want(&r->err);
	/* The program has closed its standard input: stop reading it here. */
	if (r->in.from >= 0 && r->in.have == 0 && r->in.to < 0)
		fds[0].fd = -1;
	return RELAY_POLLS;
}

static void turn_stream(struct relay *r, struct relay_stream *s, const struct pollfd *p)
{
	if (p->fd < 0 || p->revents == 0)
		return;
	if (s->have > 0)
		write_some(r, s);
	else if (s->from >= 0)
		read_some(r, s);
}

void relay_turn(struct relay *r, const struct pollfd *fds, size_t n)
{
	struct relay_stream *streams[] = { &r->in, &r->out, &r->err };

	for (size_t i = 0; i < n && i < RELAY_POLLS; i++)
		turn_stream(r, streams[i], &fds[i]);
}

void relay_drain(struct relay *r)
{
	struct relay_stream *streams[] = { &r->out, &r->err };

	end_input(&r->in);
	for (size_t i = 0; i < 2; i++)
		while (streams[i]->have > 0 || streams[i]->from >= 0) {
			struct pollfd p = relay_want(streams[i]);

			/* Everything in the cell is dead, so its output ends. A PTY delivers its
			 * last bytes a moment later. Longer than that the relay does not wait.
			 */
			if (poll(&p, 1, streams[i]->have > 0 ? -1 : DRAIN_MS) == 0)
				close_fd(&streams[i]->from);
			else
				turn_stream(r, streams[i], &p);
		}
}
