#include "cell/shim/streams.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cell/shim/carrier.h"
#include "cell/shim/dns_ask.h"
#include "cell/shim/egress_open.h"
#include "cell/shim/guest_dial.h"
#include "cell/shim/shim.h"
#include "lib/base/io.h"
#include "lib/wire/agent_msg.h"
#include "lib/wire/guest_msg.h"

/* None of these takes the place of another. */
_Static_assert(STREAMS_MAX == AGENT_PROGRAMS_MAX * GUEST_EVENT_FDS + EGRESS_OPEN_MAX + DNS_ASK_MAX +
				      GUEST_DIALS_MAX,
	       "pipes of programs, connections of the guest, its queries, connections to it");

static unsigned nstreams;

/* Those that the mux knows, by number. */
static struct stream *joined[MUX_NUMBERS];

static void streams_watch(struct stream *s, uint32_t events)
{
	if (events == s->watching)
		return;
	s->watching = events;
	/* Not registered while nothing is waited for: EPOLLHUP would be reported all the same. */
	loop_remove(shim_loop, &s->ready);
	if (events != 0)
		IGNORED(loop_add(shim_loop, &s->ready, s->fd, events, &(struct err){ 0 }),
			"without memory the stream stands still");
}

static void streams_leave_mux(struct stream *s)
{
	if (s->number == 0)
		return;
	mux_set_arg(&carrier_mux, s->number, NULL);
	joined[s->number] = NULL;
	s->number = 0;
}

/* Free it without any callback. */
static void streams_destroy(struct stream *s)
{
	streams_watch(s, 0);
	streams_leave_mux(s);
	io_close_all(&s->fd, 1);
	free(s->kept);
	free(s);
	nstreams--;
	shim_wake();
}

/* It has ended by itself. */
static void streams_finish(struct stream *s)
{
	if (s->on_end != NULL)
		s->on_end(s);
	streams_destroy(s);
}

void stream_free(struct stream *s, int sys)
{
	if (s->number != 0)
		mux_reset(&carrier_mux, s->number, sys);
	streams_destroy(s);
}

/* The other end of the descriptor is gone. */
static void streams_abandon(struct stream *s, int sys)
{
	if (s->number != 0)
		mux_reset(&carrier_mux, s->number, sys);
	streams_finish(s);
}

/* All bytes of the guest are written. */
static void on_written(struct stream *s)
{
	bool was_last = s->got_eof || s->number == 0;

	free(s->kept);
	s->kept = NULL;
	s->at = s->have = s->size = 0;
	streams_watch(s, s->watching & ~(uint32_t)EPOLLOUT);
	if (!was_last)
		return;
	if (s->is_socket && s->number != 0)
		(void)shutdown(s->fd, SHUT_WR);
	else
		streams_finish(s);
}

/* Return how many bytes were taken, -1 if none ever will. */
static ssize_t streams_try_write(const struct stream *s, const uint8_t *bytes, size_t n)
{
	ssize_t wrote = s->is_socket ? send(s->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL)
				     : write(s->fd, bytes, n);

	if (wrote < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	return wrote;
}

static void streams_count_written(struct stream *s, size_t n)
{
	s->written += n;
	if (s->number != 0)
		mux_consumed(&carrier_mux, s->number, n);
	shim_wake();
}

static void streams_write_kept(struct stream *s)
{
	ssize_t n = streams_try_write(s, s->kept + s->at, s->have - s->at);

	if (n < 0) {
		streams_abandon(s, EPIPE);
		return;
	}
	s->at += (size_t)n;
	streams_count_written(s, (size_t)n);
	if (s->at == s->have)
		on_written(s);
}

/* Keep bytes behind those kept already. */
static bool streams_keep(struct stream *s, const uint8_t *bytes, size_t n)
{
	size_t old = s->have - s->at;
	uint8_t *grown;

	if (old > 0 && s->at > 0)
		memmove(s->kept, s->kept + s->at, old);
	s->at = 0;
	s->have = old;
	if (old + n > s->size) {
		grown = realloc(s->kept, old + n < MUX_WINDOW ? (old + n) * 2 : old + n);
		if (grown == NULL)
			return false;
		s->kept = grown;
		s->size = old + n < MUX_WINDOW ? (old + n) * 2 : old + n;
	}
	memcpy(s->kept + old, bytes, n);
	s->have = old + n;
	return true;
}

static void on_data(struct stream *s, const uint8_t *bytes, size_t n)
{
	ssize_t wrote = 0;

	s->received += n;
	if (s->kept == NULL) {
		wrote = streams_try_write(s, bytes, n);
		if (wrote < 0) {
			streams_abandon(s, EPIPE);
			return;
		}
		if (wrote > 0)
			streams_count_written(s, (size_t)wrote);
	}
	if ((size_t)wrote == n)
		return;
	if (!streams_keep(s, bytes + wrote, n - (size_t)wrote)) {
		streams_abandon(s, ENOMEM);
		return;
	}
	streams_watch(s, s->watching | EPOLLOUT);
}

void stream_on_eof(struct stream *s)
{
	s->got_eof = true;
	if (s->kept == NULL)
		on_written(s);
}

/* Bytes received before a clean end are still written. */
static void on_reset(struct stream *s, bool clean, int sys)
{
	const struct linger at_once = { .l_onoff = 1, .l_linger = 0 };

	joined[s->number] = NULL;
	s->number = 0;
	s->sys = sys;
	streams_watch(s, s->watching & ~(uint32_t)EPOLLIN);
	if (s->is_socket && !clean && !s->got_eof) {
		(void)setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
		streams_finish(s);
	} else if (s->kept == NULL) {
		streams_finish(s);
	}
}

void streams_on_event(const struct mux_event *v)
{
	struct stream *s = v->arg;

	if (v->kind == MUX_ON_OPEN) {
		egress_open_begin(v->number, &v->open);
		return;
	}
	if (s == NULL) { /* it was given up, or is not answered yet */
		if (v->kind == MUX_ON_RESET || v->kind == MUX_ON_EOF)
			egress_open_on_early(v->number, v->kind == MUX_ON_RESET);
		return;
	}
	if (v->kind == MUX_ON_OPENED && s->on_opened != NULL)
		s->on_opened(s);
	else if (v->kind == MUX_ON_DATA)
		on_data(s, v->bytes, v->len);
	else if (v->kind == MUX_ON_EOF)
		stream_on_eof(s);
	else if (v->kind == MUX_ON_RESET)
		on_reset(s, v->was_clean, v->sys);
}

/* As read(2), for the mux: -1 is the end of the input, and 0 means that bytes follow later. */
ssize_t streams_fill(uint16_t number, void *stream, uint8_t *to, size_t max)
{
	struct stream *s = stream;
	ssize_t n;

	if (s == NULL || s->sent_eof)
		return s == NULL ? 0 : -1;
	n = read(s->fd, to, max);
	if (n > 0)
		return n;
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		streams_watch(s, s->watching | EPOLLIN);
		return 0;
	}
	if (n < 0 && s->is_socket) {
		mux_reset(&carrier_mux, number, errno);
		streams_finish(s);
		return 0;
	}
	s->sent_eof = true;
	return -1;
}

static void on_ready(struct loop_fd *f, uint32_t events)
{
	struct stream *s = f->arg;

	if ((events & ~(uint32_t)EPOLLOUT) != 0 && (s->watching & EPOLLIN) != 0) {
		streams_watch(s, s->watching & ~(uint32_t)EPOLLIN);
		mux_want(&carrier_mux, s->number);
		shim_wake();
	}
	if (s->kept != NULL && (events & ~(uint32_t)EPOLLIN) != 0)
		streams_write_kept(s);
}

struct stream *stream_new(int fd, enum mux_way way, bool is_socket)
{
	OWN_FD mine = fd;
	struct stream *s = nstreams < STREAMS_MAX ? calloc(1, sizeof(*s)) : NULL;

	if (s == NULL)
		return NULL;
	nstreams++;
	s->fd = TAKE_FD(mine);
	s->way = way;
	s->is_socket = is_socket;
	s->ready = (struct loop_fd){ .fd = -1, .on_ready = on_ready, .arg = s };
	return s;
}

void stream_join(struct stream *s, uint16_t number)
{
	s->number = number;
	joined[number] = s;
	mux_set_arg(&carrier_mux, number, s);
	if ((s->way & MUX_OUT) != 0)
		mux_want(&carrier_mux, number);
	shim_wake();
}

void streams_want_all(void)
{
	for (uint16_t i = 0; i < MUX_NUMBERS; i++)
		if (joined[i] != NULL && (joined[i]->way & MUX_OUT) != 0)
			mux_want(&carrier_mux, i);
}

void streams_drop_all(void)
{
	for (unsigned i = 0; i < MUX_NUMBERS; i++)
		if (joined[i] != NULL)
			on_reset(joined[i], false, ECONNRESET);
	egress_open_drop_all();
}
