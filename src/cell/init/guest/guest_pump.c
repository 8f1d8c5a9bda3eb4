#include "cell/init/guest/guest_pump.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "cell/init/guest/guest_stream.h"
#include "cell/init/pid1/dialer.h"
#include "cell/init/pid1/disk_usage.h"
#include "cell/init/pid1/programs.h"
#include "lib/base/io.h"
#include "lib/base/list.h"
#include "lib/base/own.h"

#define DIAL_WINDOW (128U << 10)
#define WRITES_MAX 16 /* of one pump in one turn */
/* A program and the agent take turns at a pipe, and each turn costs an emulated processor as much
 * as copying 64 KiB. */
#define PIPE_SIZE (256 << 10)
#define BULK (16U << 10) /* so much at a time is worth a splice(2) */

struct guest_pump {
	struct guest_stream stream;	 /* the first member */
	struct guest_pump *next, **link; /* list.h */
	int fd;				 /* owned */
	uint16_t number;		 /* of its stream. 0: none */
	bool reads, writes;		 /* bytes go from fd to the stream, from the stream to fd */
	bool wanted;			 /* the mux will ask for bytes: no need to poll */
	bool is_socket, connecting, waiting; /* waiting: OPEN was not answered */
	bool is_pipe, is_bulk;		     /* is_bulk: it had much the last time */
	bool ends;			     /* EOF has arrived: fd ends when all is delivered */
	bool dead;
	uint64_t pipe;	  /* inode */
	uint32_t program; /* handle */
	bool has_program;
	uint64_t moved, due; /* bytes from fd, how many must be moved before EXITED, 0: not known */
	void (*on_end)(void);
	uint8_t *queue; /* owned: arrived, not delivered: queue[at .. at + len) */
	size_t at, len, size;
};

/* In the order in which they were made: of a program standard output, standard error, results.
 * Earlier output is sent first then. */
static struct guest_pump *pumps, **pumps_end = &pumps;

static ssize_t guest_pump_fill(struct guest_stream *s, uint8_t *to, size_t max);
static size_t guest_pump_claim(struct guest_stream *s, int pipe, size_t max);
static void on_event(struct guest_stream *s, struct mux *m, const struct mux_event *v);

static struct guest_pump *guest_pump_new_pump(int fd)
{
	struct guest_pump *p = fd < 0 ? NULL : calloc(1, sizeof(*p));

	if (p == NULL) {
		fd_close(fd);
		return NULL;
	}
	p->stream = (struct guest_stream){ guest_pump_fill, guest_pump_claim, on_event };
	p->fd = fd;
	LIST_APPEND(&pumps_end, p);
	return p;
}

/* Freed by guest_pump_sweep(): lists stay as they are during a walk. */
static void guest_pump_end_pump(struct guest_pump *p)
{
	p->number = 0;
	p->dead = true;
	io_close_all(&p->fd, 1);
}

/* Input of programs may be secret, and memory that free(3) gets may be in a memory image. */
static void guest_pump_free_queue(struct guest_pump *p)
{
	if (p->queue != NULL)
		explicit_bzero(p->queue, p->size);
	free(p->queue);
}

static void guest_pump_sweep(void)
{
	LIST_WALK_ENDING(struct guest_pump, p, pumps) {
		if (!p->dead)
			continue;
		LIST_REMOVE_FROM(&pumps_end, p);
		if (p->on_end != NULL)
			p->on_end(); /* alone: it opens no pump and ends none */
		guest_pump_free_queue(p);
		free(p);
	}
}

static int guest_pump_set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

/* The detached pump of that pipe, if input is left to deliver. */
static struct guest_pump *guest_pump_find_detached(uint64_t pipe)
{
	for (struct guest_pump *p = pumps; p != NULL; p = p->next)
		if (!p->dead && p->number == 0 && p->writes && !p->is_socket && p->pipe == pipe)
			return p;
	return NULL;
}

static struct guest_pump *guest_pump_of(int fd, enum mux_way way)
{
	struct stat st;
	struct guest_pump *p;

	if (fstat(fd, &st) < 0 || guest_pump_set_nonblocking(fd) < 0)
		return NULL;
	p = way == MUX_IN ? guest_pump_find_detached(st.st_ino) : NULL;
	if (p == NULL)
		p = guest_pump_new_pump(fcntl(fd, F_DUPFD_CLOEXEC, 3));
	if (p == NULL)
		return NULL;
	p->pipe = st.st_ino;
	p->is_pipe = S_ISFIFO(st.st_mode);
	if (p->is_pipe && way == MUX_OUT)
		(void)fcntl(fd, F_SETPIPE_SZ, PIPE_SIZE); /* faster, a smaller one works as well */
	return p;
}

uint16_t guest_pump_announce(struct mux *m, int fd, enum mux_way way, uint32_t program)
{
	struct guest_pump *p = guest_pump_of(fd, way);

	if (p == NULL)
		return 0;
	p->number = mux_announce(m, way, p);
	p->reads = (way & MUX_OUT) != 0;
	p->writes = (way & MUX_IN) != 0;
	p->program = program;
	p->has_program = true;
	if (p->number == 0)
		guest_pump_end_pump(p);
	return p->number;
}

static uint16_t guest_pump_open_stream(struct mux *m, const struct mux_open *open,
				       struct guest_pump *p)
{
	if (guest_pump_set_nonblocking(p->fd) == 0)
		p->number = mux_open(m, open, p);
	return p->number;
}

bool guest_pump_open(struct mux *m, const struct mux_open *open, int fd, void (*on_end)(void))
{
	struct guest_pump *p = guest_pump_new_pump(fd);

	if (p == NULL)
		return false;
	p->reads = p->writes = p->is_socket = p->waiting = true;
	if (guest_pump_open_stream(m, open, p) == 0) {
		guest_pump_end_pump(p);
		return false;
	}
	p->on_end = on_end;
	return true;
}

void guest_pump_dial(struct mux *m, uint16_t number, uint16_t port)
{
	int fd = -1, sys = dialer_connect(port, &fd);
	struct guest_pump *p = sys == 0 ? guest_pump_new_pump(fd) : NULL;

	disk_usage_begin(); /* a program is about to work */
	if (p == NULL) {
		mux_reset(m, number, sys == 0 ? ENOMEM : sys);
		return;
	}
	p->number = number;
	p->reads = p->writes = p->is_socket = p->connecting = true;
	mux_set_arg(m, number, p);
}

static void on_connected(struct mux *m, struct guest_pump *p)
{
	int sys = 0;
	socklen_t len = sizeof(sys);

	if (getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &sys, &len) < 0)
		sys = errno;
	if (sys != 0) {
		mux_reset(m, p->number, sys);
		guest_pump_end_pump(p);
		return;
	}
	p->connecting = false;
	mux_answer(m, p->number, DIAL_WINDOW);
}

static bool guest_pump_later(void)
{
	return errno == EAGAIN || errno == EINTR;
}

static ssize_t guest_pump_fill(struct guest_stream *s, uint8_t *to, size_t max)
{
	struct guest_pump *p = (struct guest_pump *)s;
	ssize_t n = read(p->fd, to, max);

	if (n > 0) {
		p->moved += (uint64_t)n;
		p->is_bulk = p->is_pipe && n >= BULK;
		return n;
	}
	p->wanted = false;
	if (n < 0 && guest_pump_later())
		return 0;
	p->reads = false; /* the end, a PTY reports it as an error */
	return -1;
}

/* Move the pages of a program's output as they are. guest_pump_fill() says the rest about no
 * bytes. */
static size_t guest_pump_claim(struct guest_stream *s, int pipe, size_t max)
{
	struct guest_pump *p = (struct guest_pump *)s;
	ssize_t n = p->is_bulk ? splice(p->fd, NULL, pipe, NULL, max, SPLICE_F_NONBLOCK) : 0;

	p->is_bulk = n >= BULK;
	if (n <= 0)
		return 0;
	p->moved += (uint64_t)n;
	return (size_t)n;
}

/* End the direction to the descriptor: all that arrived was delivered. */
static void guest_pump_end_input(struct guest_pump *p)
{
	p->writes = false;
	if (p->number == 0)
		guest_pump_end_pump(p);
	else if (p->is_socket)
		(void)shutdown(p->fd, SHUT_WR);
	else
		io_close_all(&p->fd, 1); /* ON_RESET is still to come */
}

/* Deliver arrived bytes. */
static void guest_pump_deliver(struct mux *m, struct guest_pump *p)
{
	for (unsigned i = 0; i < WRITES_MAX && p->len > 0; i++) {
		ssize_t n = write(p->fd, p->queue + p->at, p->len);

		if (n < 0 && guest_pump_later())
			return;
		if (n < 0) {
			if (p->number != 0)
				mux_reset(m, p->number, errno);
			guest_pump_end_pump(p);
			return;
		}
		p->at += (size_t)n;
		p->len -= (size_t)n;
		if (p->number != 0)
			mux_consumed(m, p->number, (size_t)n);
	}
	if (p->len > 0)
		return;
	guest_pump_free_queue(p);
	p->queue = NULL;
	p->at = p->size = 0;
	if (p->ends || p->number == 0)
		guest_pump_end_input(p);
}

static bool guest_pump_enqueue(struct guest_pump *p, const uint8_t *bytes, size_t n)
{
	if (p->at + p->len + n > p->size) {
		size_t size = p->len + n < 4096 ? 4096 : (p->len + n) * 2;
		uint8_t *more = malloc(size);

		if (more == NULL)
			return false;
		if (p->len > 0)
			memcpy(more, p->queue + p->at, p->len);
		guest_pump_free_queue(p);
		p->queue = more;
		p->size = size;
		p->at = 0;
	}
	memcpy(p->queue + p->at + p->len, bytes, n);
	p->len += n;
	return true;
}

static void on_data(struct mux *m, struct guest_pump *p, const struct mux_event *v)
{
	size_t n = 0;

	if (p->len == 0) { /* most often all is taken at once */
		ssize_t took = write(p->fd, v->bytes, v->len);

		n = took > 0 ? (size_t)took : 0;
		mux_consumed(m, v->number, n);
	}
	if (n == v->len || guest_pump_enqueue(p, v->bytes + n, v->len - n))
		return;
	mux_reset(m, v->number, ENOMEM);
	guest_pump_end_pump(p);
}

static void on_eof(struct mux *m, struct guest_pump *p)
{
	p->ends = true;
	if (!p->is_socket)
		programs_on_input_end(p->pipe);
	guest_pump_deliver(m, p);
}

/* The other end is done with it. Bytes before its EOF are still delivered. */
static void on_reset(struct guest_pump *p, const struct mux_event *v)
{
	p->number = 0;
	p->reads = false;
	if (p->ends && p->len > 0)
		return;
	if (p->is_socket && !v->was_clean)
		(void)setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 },
				 sizeof(struct linger));
	guest_pump_end_pump(p);
}

static void on_event(struct guest_stream *s, struct mux *m, const struct mux_event *v)
{
	struct guest_pump *p = (struct guest_pump *)s;

	if (p->dead)
		return;
	if (v->kind == MUX_ON_OPENED)
		p->waiting = false;
	else if (v->kind == MUX_ON_DATA)
		on_data(m, p, v);
	else if (v->kind == MUX_ON_EOF)
		on_eof(m, p);
	else if (v->kind == MUX_ON_RESET)
		on_reset(p, v);
}

static short guest_pump_events_of(const struct guest_pump *p, bool reading)
{
	if (p->connecting)
		return POLLOUT;
	if (p->waiting)
		return 0;
	return (short)((p->reads && !p->wanted && reading ? POLLIN : 0) |
		       (p->len > 0 ? POLLOUT : 0));
}

nfds_t guest_pump_poll_fds(struct pollfd *ret_fds, bool reading)
{
	nfds_t n = 0;

	guest_pump_sweep();
	for (struct guest_pump *p = pumps; p != NULL && n < GUEST_PUMPS_MAX; p = p->next) {
		short events = guest_pump_events_of(p, reading);

		/* An entry for each, so that on_ready() finds them. poll(2) skips -1. Without
		 * events it would still report the end, again and again. */
		ret_fds[n++] = (struct pollfd){ events == 0 ? -1 : p->fd, events, 0 };
	}
	return n;
}

void guest_pump_on_ready(struct mux *m, const struct pollfd *fds)
{
	struct guest_pump *p = pumps;

	for (nfds_t i = 0; p != NULL && i < GUEST_PUMPS_MAX; i++, p = p->next) {
		if (p->dead || fds[i].revents == 0 || fds[i].fd != p->fd)
			continue;
		if (p->connecting) {
			on_connected(m, p);
			continue;
		}
		if (p->len > 0)
			guest_pump_deliver(m, p);
		if (p->dead || (fds[i].events & POLLIN) == 0 || p->number == 0)
			continue;
		p->wanted = true;
		mux_want(m, p->number);
	}
}

void guest_pump_detach_all(void)
{
	for (struct guest_pump *p = pumps; p != NULL; p = p->next) {
		p->number = 0;
		p->reads = p->wanted = p->has_program = false;
		if (!p->dead && (p->len == 0 || p->is_socket))
			guest_pump_end_pump(p);
	}
	guest_pump_sweep();
}

/* How many bytes have to be moved in all. At least 1, so that it is known. */
static uint64_t guest_pump_due(const struct guest_pump *p)
{
	int n = 0;

	(void)ioctl(p->fd, FIONREAD, &n);
	return p->moved + (uint64_t)n + 1;
}

bool guest_pump_is_drained(uint32_t program)
{
	bool all = true;

	for (struct guest_pump *p = pumps; p != NULL; p = p->next) {
		if (!p->has_program || p->program != program || !p->reads || p->dead)
			continue;
		if (p->due == 0)
			p->due = guest_pump_due(p);
		all = all && p->moved + 1 >= p->due;
	}
	return all;
}
