/* carrier.c - theory of operation
 *
 * Out: messages are appended to the buffer, and frames of streams are written behind them while the
 * buffer is at most half full, so that a message never waits for more than that. The bytes of a
 * large message are copied from where they are as room appears. Nothing else is appended before its
 * last one.
 *
 * In: the other end is the engine's, which may send descriptors along: they are closed in a way
 * that cannot block (untrusted_fd.h). Read bytes are parsed frame by frame. The rest of an
 * incomplete frame moves to the front. Only so many reads are made in a turn. */
#include "cell/shim/carrier.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cell/shim/shim.h"
#include "cell/shim/streams.h"
#include "lib/base/io.h"
#include "lib/base/untrusted_fd.h"
#include "lib/wire/guest_msg.h"

#define IN_CAP (512U << 10) /* more than one frame */
#define OUT_CAP (320U << 10)
/* The padding of QUIESCE goes in pieces that the socket takes whole and QEMU reads as whole pages.
 */
#define PIECE (16U << 10)
#define OUT_STREAMS (128U << 10) /* frames of streams are written below this */
#define READS 4			 /* in a turn */
#define WRITES 8

_Static_assert(IN_CAP > FRAME_HEAD + MUX_DATA_MAX, "a frame fits");

struct mux carrier_mux;

static int sock = -1;
static struct loop_fd ready = { .fd = -1 };
static carrier_message_fn *on_message_;
static carrier_broken_fn *on_broken_;
static bool hold;
static bool is_shut; /* the other end reads no more */

static uint8_t in[IN_CAP], out[OUT_CAP];
static size_t in_have;
static size_t out_at, out_have;
static const uint8_t *large; /* borrowed, or in large_own */
static size_t large_left;
static uint8_t *large_own;

static ssize_t on_fill(void *arg, uint16_t number, void *stream, uint8_t *to, size_t max)
{
	return streams_fill(number, stream, to, max);
}

void carrier_restart(void)
{
	mux_init(&carrier_mux, MUX_SHIM, GUEST_TO_SHIM_MAX, on_fill, NULL);
}

static void carrier_break_off(const struct err *e)
{
	const struct err copy = *e; /* its owner may be gone after the close */

	carrier_close();
	on_broken_(&copy);
	shim_wake();
}

/* Parse received bytes. False: the carrier was closed. */
static bool carrier_parse(void)
{
	struct mux_event v;
	struct err e;
	size_t at = 0;
	int took;

	while ((took = mux_read(&carrier_mux, in + at, in_have - at, &v, &e)) > 0) {
		at += (size_t)took;
		if (v.kind == MUX_ON_MESSAGE)
			on_message_(&v.message);
		else
			streams_on_event(&v);
		if (sock < 0)
			return false;
	}
	if (took < 0) {
		carrier_break_off(&e);
		return false;
	}
	if (at > 0) /* memmove(3) of musl would copy it all to where it is */
		memmove(in, in + at, in_have - at);
	in_have -= at;
	return true;
}

static void on_readable(void)
{
	struct err e;

	for (int i = 0; i < READS; i++) {
		ssize_t n = untrusted_recv(sock, in + in_have, sizeof(in) - in_have);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			(void)err_set(&e, ERR_SYSTEM, "the guest's stream has ended");
			carrier_break_off(&e);
			return;
		}
		in_have += (size_t)n;
		if (!carrier_parse() || in_have == sizeof(in))
			return;
	}
}

static void on_ready(struct loop_fd *f, uint32_t events)
{
	if ((events & ~(uint32_t)EPOLLOUT) != 0)
		on_readable();
	shim_wake();
}

int carrier_open(int fd, carrier_message_fn *on_message, carrier_broken_fn *on_broken,
		 struct err *e)
{
	carrier_close();
	sock = fd;
	(void)fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK);
	on_message_ = on_message;
	on_broken_ = on_broken;
	ready.on_ready = on_ready;
	carrier_restart();
	return loop_add(shim_loop, &ready, fd, EPOLLIN, e);
}

void carrier_close(void)
{
	if (sock < 0)
		return;
	loop_remove(shim_loop, &ready);
	untrusted_drain(sock);
	io_close_all(&sock, 1);
	in_have = out_at = out_have = large_left = 0;
	free(large_own);
	large_own = NULL;
	hold = is_shut = false;
	streams_drop_all();
	carrier_restart();
}

static size_t carrier_room(void)
{
	return sizeof(out) - out_have;
}

bool carrier_can_send(void)
{
	return sock >= 0 && large_left == 0 &&
	       carrier_room() >= OUT_CAP - OUT_STREAMS - MUX_FRAME_MAX;
}

static void carrier_append(const void *bytes, size_t n)
{
	if (n > 0)
		memcpy(out + out_have, bytes, n);
	out_have += n;
}

bool carrier_send(uint16_t type, const void *body, size_t len)
{
	uint8_t head[FRAME_HEAD];

	if (sock < 0 || large_left > 0 || carrier_room() < sizeof(head) + len)
		return false;
	frame_head(head, type, (uint32_t)len);
	carrier_append(head, sizeof(head));
	carrier_append(body, len);
	return true;
}

static void carrier_append_large(void)
{
	size_t n = large_left < carrier_room() ? large_left : carrier_room();

	carrier_append(large, n);
	large += n;
	large_left -= n;
	if (large_left > 0)
		return;
	free(large_own); /* or NULL */
	large_own = NULL;
}

bool carrier_is_sending_large(void)
{
	return large_left > 0 && large_own == NULL;
}

void carrier_keep_large(void)
{
	uint8_t *copy = carrier_is_sending_large() ? malloc(large_left) : NULL;

	if (!carrier_is_sending_large())
		return;
	if (copy == NULL)
		_exit(1);
	memcpy(copy, large, large_left);
	large = large_own = copy;
}

void carrier_send_large(uint16_t type, const void *head, size_t head_len, const uint8_t *rest,
			size_t rest_len)
{
	uint8_t frame[FRAME_HEAD];

	frame_head(frame, type, (uint32_t)(head_len + rest_len));
	carrier_append(frame, sizeof(frame));
	carrier_append(head, head_len);
	large = rest;
	large_left = rest_len;
	carrier_append_large();
}

void carrier_hold(bool held)
{
	hold = held;
}

bool carrier_is_drained(void)
{
	return out_have == 0 && large_left == 0 && !mux_has_output(&carrier_mux);
}

/* Return false if there is nothing to write, or the socket is full. */
static bool carrier_write_out(void)
{
	if (out_at == out_have)
		return false;
	while (out_at < out_have) {
		size_t len = out_have - out_at;
		ssize_t n = send(sock, out + out_at, hold && len > PIECE ? PIECE : len,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0) {
			is_shut = errno != EAGAIN && errno != EINTR && errno != ENOMEM &&
				  errno != ENOBUFS;
			break;
		}
		out_at += (size_t)n;
	}
	if (out_at > 0)
		memmove(out, out + out_at, out_have - out_at);
	out_have -= out_at;
	out_at = 0;
	return out_have == 0;
}

static void carrier_fill_out(void)
{
	size_t n;

	if (large_left > 0)
		carrier_append_large();
	while (large_left == 0 && !hold && out_have < OUT_STREAMS &&
	       (n = mux_write(&carrier_mux, out + out_have, carrier_room())) > 0)
		out_have += n;
}

/* Earlier bytes of the other end are read first, and its end if it has closed, too. */
static void on_shut(void)
{
	struct err e;

	on_readable();
	if (sock < 0)
		return;
	(void)err_set(&e, ERR_SYSTEM, "the guest's stream has ended");
	carrier_break_off(&e);
}

void carrier_pump(void)
{
	if (sock < 0)
		return;
	for (int i = 0; i < WRITES; i++) {
		carrier_fill_out();
		if (!carrier_write_out())
			break;
	}
	if (is_shut) {
		on_shut();
		return;
	}
	loop_modify(shim_loop, &ready, EPOLLIN | (out_have > 0 || large_left > 0 ? EPOLLOUT : 0));
	if (out_have == 0 && !hold && mux_has_output(&carrier_mux))
		shim_wake(); /* the next turn continues */
}
