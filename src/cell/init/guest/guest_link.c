/* guest_link.c - theory of operation
 *
 * Output is collected in one buffer: messages as they come, and frames of the mux while less than
 * OUT_DATA bytes wait, so that a message never waits behind more than that. A message that does not
 * fit is refused, and agentd.c keeps it. RESERVED bytes are left for answers of this file.
 *
 * Much output of a program does not go through that buffer: its pages are moved to a pipe of this
 * file and from there to the port (splice(2)), behind the head of their frame in the buffer. One
 * frame at a time is sent in this way. The pipe has the bytes of that frame and no others, and all
 * of them are asked for: the port's driver counts the buffers of the whole pipe, and sends the
 * guest's device empty ones for those that it was not asked for.
 *
 * Input is read into one large mapping, as in channel.c. A request may be 4 MiB. Frames of streams
 * are handled where they are found, messages are returned one by one. The body of QUIESCE is
 * dropped as it comes: it has no content, and an emulated processor takes long to map memory for
 * it.
 *
 * Programs stand still from before QUIESCED until GO_ON or HELLO has been handled: the memory is
 * copied in between, and no program of a copy, nor of the guest itself, runs with a generator of
 * random numbers, a clock or names that another copy has, too. If they cannot be stopped, QUIESCED
 * follows when the shim has given up.
 *
 * QUIESCED is put behind everything else, and nothing comes behind it: so when the shim has it, the
 * shim has all, and the connection is between two frames in both directions. */
#include "cell/init/guest/guest_link.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "cell/init/guest/guest_changes.h"
#include "cell/init/guest/guest_dns.h"
#include "cell/init/guest/guest_egress.h"
#include "cell/init/guest/guest_limits.h"
#include "cell/init/guest/guest_stream.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"

#define IN_CAP ((size_t)FRAME_HEAD + GUEST_TO_GUEST_MAX)
#define IN_KEPT (256U << 10)
#define PAD_READS 256 /* of a page each, in a turn */
#define OUT_CAP (160U << 10)
#define OUT_DATA (64U << 10)
#define RESERVED 256U
#define RETRY_NS (10 * CLOCK_MS)

static int link_fd = -1;
static bool is_port; /* of a virtual machine */
static bool away;    /* the host's end of the port is not connected */
static bool silent;  /* nothing may be sent */
static bool stalled; /* there was no room for a message */
static bool quiesced_owed;
static guest_apply apply_hello;
static uint64_t generation;
static struct guest_ready ready;

static struct mux *mux; /* mapped */
static uint8_t *in, *out;
static size_t in_at, in_len, in_touched; /* in[in_at .. in_len) was not handled */
static bool in_pad;			 /* inside of the body of QUIESCE, */
static size_t pad_left;			 /* of which so much is to come */
static size_t out_at, out_len;		 /* out[out_at .. out_len) was not written */
static int claimed_fd[2] = { -1, -1 };	 /* a pipe. -1: the port takes no pages */
static size_t claimed_at, claimed;	 /* so many bytes of it belong before out[claimed_at] */

static void *guest_link_map(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		       -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

bool guest_link_is_used(void)
{
	return link_fd >= 0;
}

static bool guest_link_can_put(size_t n, size_t reserved)
{
	if (out_at > 0 && out_len + n + reserved > OUT_CAP) {
		memmove(out, out + out_at, out_len - out_at);
		claimed_at -= claimed > 0 ? out_at : claimed_at;
		out_len -= out_at;
		out_at = 0;
	}
	return out_len + n + reserved <= OUT_CAP;
}

static void guest_link_put_message(uint16_t type, const uint8_t *body, size_t len)
{
	frame_head(out + out_len, type, (uint32_t)len);
	if (len > 0)
		memcpy(out + out_len + FRAME_HEAD, body, len);
	out_len += FRAME_HEAD + len;
}

/* The transport. */

/* The meaning of a failed read or write. A socket that ends ends the guest. */
static void on_lost(ssize_t n)
{
	if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOMEM || errno == ENOBUFS))
		return;
	if (!is_port)
		_exit(0);
	away = true;
}

static bool guest_link_has_output(void)
{
	return out_at < out_len || claimed > 0;
}

/* The pages that come next. */
static ssize_t guest_link_write_claimed(void)
{
	ssize_t n = splice(claimed_fd[0], NULL, link_fd, NULL, claimed, SPLICE_F_NONBLOCK);

	/* The driver has taken them off the pipe, and had no memory to send them. */
	if (n == 0)
		_exit(1);
	if (n > 0)
		claimed -= (size_t)n;
	return n;
}

static ssize_t guest_link_write_buffered(void)
{
	size_t end = claimed > 0 ? claimed_at : out_len;
	ssize_t n = write(link_fd, out + out_at, end - out_at);

	if (n > 0)
		out_at += (size_t)n;
	return n;
}

static void guest_link_write_out(void)
{
	while (guest_link_has_output()) {
		bool pages = claimed > 0 && out_at == claimed_at;
		ssize_t n = pages ? guest_link_write_claimed() : guest_link_write_buffered();

		if (n <= 0) {
			on_lost(n);
			return;
		}
	}
	out_at = out_len = 0;
	if (silent)
		(void)madvise(out, OUT_CAP, MADV_DONTNEED); /* likewise */
}

/* Add frames of streams while there is room for a long one. */
static void guest_link_collect_frames(void)
{
	size_t n;

	while (!silent && claimed == 0 && out_len - out_at < OUT_DATA &&
	       guest_link_can_put(MUX_FRAME_MAX, RESERVED) &&
	       (n = mux_write(mux, out + out_len, MUX_FRAME_MAX)) > 0) {
		out_len += n;
		claimed = mux->claimed;
		claimed_at = out_len;
	}
}

void guest_link_flush(void)
{
	for (unsigned i = 0; i < 8; i++) { /* then the loop has other work, too */
		guest_link_collect_frames();
		if (!guest_link_has_output())
			return;
		guest_link_write_out();
		if (guest_link_has_output())
			return;
	}
}

/* The carrier of channel.h. */

static bool guest_link_is_broken(void)
{
	return silent;
}

static bool guest_link_send_ready(void)
{
	uint8_t body[GUEST_READY_SIZE];

	if (!guest_link_can_put(FRAME_HEAD + sizeof(body), 0))
		return false;
	guest_ready_write(&ready, body);
	guest_link_put_message(GUEST_READY, body, sizeof(body));
	return true;
}

/* If the descriptor cannot be kept, the stream ends at once. */
static uint16_t guest_link_begin_stream(int fd, enum mux_way way, uint32_t program)
{
	uint16_t number = guest_pump_announce(mux, fd, way, program);

	if (number == 0) {
		number = mux_announce(mux, way, NULL);
		mux_reset(mux, number, EMFILE);
	}
	return number;
}

/* Every descriptor becomes a stream. */
static bool guest_link_send_event(enum agent_type type, const struct agent_event *v, const int *fds,
				  size_t n)
{
	struct guest_event g = { .event = *v, .nstreams = n };
	uint8_t body[GUEST_TO_SHIM_MAX];
	size_t len;

	if (silent || n > GUEST_EVENT_FDS)
		return false;
	if (type == AGENT_READY)
		return guest_link_send_ready();
	stalled = !guest_link_can_put(FRAME_HEAD + sizeof(body), RESERVED);
	if (stalled || mux_numbers_left(mux) < n)
		return false;
	for (size_t i = 0; i < n; i++)
		g.streams[i] = guest_link_begin_stream(fds[i], guest_event_way(v, i), v->handle);
	len = guest_event_write(&g, body);
	guest_link_put_message((uint16_t)type, body, len);
	return true;
}

/* in[] is empty: guest_link_next() has handled it. */
static bool guest_link_receive_pad(void)
{
	for (int i = 0; i < PAD_READS && pad_left > 0; i++) {
		ssize_t n = read(link_fd, in, pad_left < IN_KEPT ? pad_left : IN_KEPT);

		if (n < 0 && i > 0 && errno == EAGAIN)
			return true;
		if (n <= 0) {
			on_lost(n);
			return false;
		}
		pad_left -= (size_t)n;
		if ((size_t)n > in_touched)
			in_touched = (size_t)n;
	}
	return true;
}

static bool guest_link_receive(void)
{
	ssize_t n;

	if (in_pad)
		return guest_link_receive_pad();
	if (in_len == IN_CAP)
		return false;
	n = read(link_fd, in + in_len, IN_CAP - in_len);
	if (n <= 0) {
		on_lost(n);
		return false;
	}
	in_len += (size_t)n;
	if (in_len > in_touched)
		in_touched = in_len;
	return true;
}

/* Handled input is given back, so that an image of a quiet guest does not have it: the kernel
 * clears free memory. */
static void guest_link_compact(void)
{
	if (in_at > 0) { /* else each part of a long message would move the whole */
		memmove(in, in + in_at, in_len - in_at);
		in_len -= in_at;
		in_at = 0;
	}
	if (in_len > 0 || (in_touched <= IN_KEPT && !silent))
		return;
	(void)madvise(in, IN_CAP, MADV_DONTNEED);
	in_touched = 0;
}

static void on_quiesce(void)
{
	struct err e;

	quiesced_owed = guest_limits_hold(&e) < 0;
	if (quiesced_owed)
		return;
	guest_link_put_message(GUEST_QUIESCED, NULL, 0);
	silent = true;
}

/* GO_ON, or an applied HELLO. */
static void guest_link_go_on(void)
{
	if (quiesced_owed) /* too late to be used: the shim counts them */
		guest_link_put_message(GUEST_QUIESCED, NULL, 0);
	quiesced_owed = false;
	guest_limits_let_go(guest_changes_stop_programs());
	silent = generation == 0;
}

/* Messages that concern the connection alone. False: it is for the caller. */
static bool on_own_message(const struct frame *f)
{
	struct err e;

	if (f->type < GUEST_HELLO || f->type > GUEST_PING)
		return false;
	if (f->type == GUEST_HELLO)
		return false;
	if (f->type != GUEST_QUIESCE && guest_empty_read(f, &e) < 0)
		_exit(1);
	if (f->type == GUEST_QUIESCE)
		on_quiesce();
	else if (f->type == GUEST_GO_ON)
		guest_link_go_on();
	else if (!silent)
		guest_link_put_message(GUEST_PONG, NULL, 0);
	return true;
}

static ssize_t guest_link_fill(void *arg, uint16_t number, void *stream_arg, uint8_t *to,
			       size_t max)
{
	struct guest_stream *s = stream_arg;

	return s->fill(s, to, max);
}

static size_t guest_link_claim(void *arg, uint16_t number, void *stream_arg, size_t max)
{
	struct guest_stream *s = stream_arg;

	return s->claim != NULL ? s->claim(s, claimed_fd[1], max) : 0;
}

/* Does the port take pages? An empty pipe tells without sending anything. */
static void guest_link_open_claimed(void)
{
	if (!is_port || pipe2(claimed_fd, O_CLOEXEC | O_NONBLOCK) < 0)
		return;
	if (fcntl(claimed_fd[0], F_SETPIPE_SZ, MUX_DATA_MAX) < 0 ||
	    splice(claimed_fd[0], NULL, link_fd, NULL, 1, SPLICE_F_NONBLOCK) < 0)
		io_close_all(claimed_fd, 2);
}

static void guest_link_begin_mux(void)
{
	mux_init(mux, MUX_GUEST, GUEST_TO_GUEST_MAX, guest_link_fill, NULL);
	mux_set_claim(mux, claimed_fd[0] >= 0 ? guest_link_claim : NULL);
}

static void on_stream_event(const struct mux_event *v)
{
	struct guest_stream *s = v->arg;

	if (v->kind == MUX_ON_OPEN)
		guest_pump_dial(mux, v->number, v->open.port);
	else if (s != NULL)
		s->on_event(s, mux, v);
}

/* The head of QUIESCE, and as much of its body as is there. True: more output is to come. */
static bool guest_link_drop_pad(void)
{
	uint8_t head[FRAME_HEAD];
	size_t n;

	frame_head(head, GUEST_QUIESCE, GUEST_PAD);
	if (!in_pad && (in_len - in_at < FRAME_HEAD || memcmp(in + in_at, head, FRAME_HEAD) != 0))
		return false;
	if (!in_pad) {
		in_at += FRAME_HEAD;
		in_pad = true;
		pad_left = GUEST_PAD;
	}
	n = in_len - in_at < pad_left ? in_len - in_at : pad_left;
	in_at += n;
	pad_left -= n;
	if (pad_left > 0)
		return true;
	in_pad = false;
	on_quiesce();
	return false;
}

static bool guest_link_next(struct frame *ret)
{
	struct mux_event v;
	struct err e;

	for (;;) {
		int took;

		/* Each message may need an answer. */
		stalled = !guest_link_can_put(RESERVED / 2, 0);
		if (stalled)
			return false;
		if (guest_link_drop_pad()) {
			guest_link_compact();
			return false;
		}
		took = mux_read(mux, in + in_at, in_len - in_at, &v, &e);
		if (took < 0)
			_exit(1);
		if (took == 0) {
			guest_link_compact();
			return false;
		}
		in_at += (size_t)took;
		if (v.kind == MUX_ON_MESSAGE && !on_own_message(&v.message)) {
			*ret = v.message;
			return true;
		}
		if (v.kind != MUX_ON_MESSAGE)
			on_stream_event(&v);
	}
}

static const struct channel_carrier carrier = { guest_link_is_broken, guest_link_send_event,
						guest_link_receive, guest_link_next,
						guest_pump_is_drained };

int guest_link_begin(int fd, guest_apply apply)
{
	struct stat st;
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fstat(fd, &st) < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
	    fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return -1;
	mux = guest_link_map(sizeof(*mux));
	in = guest_link_map(IN_CAP);
	out = guest_link_map(OUT_CAP);
	if (mux == NULL || in == NULL || out == NULL)
		return -1;
	link_fd = fd;
	is_port = S_ISCHR(st.st_mode);
	guest_link_open_claimed();
	guest_link_begin_mux();
	silent = true;
	apply_hello = apply;
	channel_use_carrier(&carrier);
	return 0;
}

bool guest_link_on_hello(const struct frame *f)
{
	struct guest_hello h;
	struct err e;
	int sys = 0;
	bool is_new;

	if (guest_hello_read(f, &h, &e) < 0)
		_exit(1);
	is_new = h.generation != generation;
	if (is_new) {
		guest_dns_drop();
		guest_pump_detach_all();
		/* The rest belongs to another connection, and was not written to it. */
		out_at = out_len = claimed = 0;
		io_close_all(claimed_fd, 2);
		guest_link_open_claimed();
		guest_link_begin_mux();
	}
	generation = h.generation;
	ready = (struct guest_ready){ .generation = generation, .version = GUEST_VERSION };
	ready.refused = apply_hello(&h, &sys);
	if ((h.flags & GUEST_EGRESS) != 0 && guest_egress_open() != 0)
		ready.refused |= GUEST_NO_EGRESS;
	ready.sys = ready.refused == 0 ? 0 : sys;
	guest_link_go_on();
	if (!is_new)
		(void)guest_link_send_ready(); /* there is room: see guest_link_next() */
	return is_new;
}

/* Called by main.c. */

nfds_t guest_link_poll_fds(struct pollfd *ret_fds)
{
	nfds_t n = 1;
	/* While output waits, nothing is read from programs: it would wait, too. */
	bool reading = !silent && !guest_link_has_output();

	bool writing = guest_link_has_output() || (!silent && mux_has_output(mux));

	ret_fds[0] = (struct pollfd){ away ? -1 : link_fd,
				      (short)(POLLIN | (writing ? POLLOUT : 0)), 0 };
	n += guest_egress_poll_fds(ret_fds + n, reading);
	return n + guest_pump_poll_fds(ret_fds + n, reading);
}

bool guest_link_on_ready(const struct pollfd *fds)
{
	guest_pump_on_ready(mux, fds + 1 + GUEST_EGRESS_FDS);
	guest_egress_on_ready(mux, fds + 1);
	away = false;
	return fds[0].revents != 0 || fds[0].fd < 0 || in_at < in_len;
}

uint64_t guest_link_wake_ns(uint64_t now_ns)
{
	if (stalled && !guest_link_has_output())
		return now_ns;
	return away ? now_ns + RETRY_NS : guest_egress_owner_wake_ns();
}
