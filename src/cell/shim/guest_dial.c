#include "cell/shim/guest_dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "cell/init/pid1/dialer.h"
#include "cell/shim/carrier.h"
#include "cell/shim/shim.h"
#include "cell/shim/streams.h"
#include "lib/base/io.h"

struct guest_dial {
	bool used, done;
	uint32_t handle;
	int fd;		       /* for the server, owned */
	int sys;	       /* once done */
	struct stream *stream; /* until the guest has answered */
};

static struct guest_dial dials[GUEST_DIALS_MAX];
static struct guest_dial refused; /* one more: too many. The next request waits until it is sent. */
static size_t ndone;		  /* of the table */

static struct guest_dial *guest_dial_find_free(void)
{
	for (size_t i = 0; i < GUEST_DIALS_MAX; i++)
		if (!dials[i].used)
			return &dials[i];
	return NULL;
}

/* The server's end stays open until it was sent. */
static void guest_dial_end(struct guest_dial *d, int sys)
{
	d->done = true;
	ndone++;
	d->sys = sys;
	d->stream = NULL;
	if (sys != 0)
		io_close_all(&d->fd, 1);
	shim_wake();
}

static void on_opened(struct stream *s)
{
	struct guest_dial *d = s->arg;

	s->on_opened = s->on_end = NULL;
	guest_dial_end(d, 0);
}

static void on_end(struct stream *s)
{
	guest_dial_end(s->arg, s->sys == 0 ? ECONNREFUSED : s->sys);
}

/* Two ends of one TCP connection on loopback. No process of the cell can come in between: the
 * accepted one must be that of the first socket's address. */
static int guest_dial_make_pair(int ret[2])
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in peer = { 0 }, mine = { 0 };
	socklen_t len = sizeof(at), peer_len = sizeof(peer), mine_len = sizeof(mine);
	OWN_FD listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	OWN_FD a = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const struct timeval second = { .tv_sec = 1 }; /* it is there at once */
	OWN_FD b = -1;

	if (listener < 0 ||
	    setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second)) < 0 || a < 0 ||
	    bind(listener, (struct sockaddr *)&at, len) < 0 || listen(listener, 1) < 0 ||
	    getsockname(listener, (struct sockaddr *)&at, &len) < 0 ||
	    (connect(a, (struct sockaddr *)&at, len) < 0 && errno != EINPROGRESS))
		return errno;
	b = accept4(listener, (struct sockaddr *)&peer, &peer_len, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (b < 0 || getsockname(a, (struct sockaddr *)&mine, &mine_len) < 0)
		return errno;
	if (peer.sin_port != mine.sin_port)
		return ECONNABORTED;
	(void)setsockopt(a, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	(void)setsockopt(b, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	ret[0] = TAKE_FD(a);
	ret[1] = TAKE_FD(b);
	return 0;
}

/* Return 0, or why it cannot be tried. */
static int guest_dial_open_stream(struct guest_dial *d, uint16_t port)
{
	const struct mux_open open = { .kind = MUX_DIAL, .port = port, .credit = MUX_WINDOW };
	int pair[2] = { -1, -1 }, sys = guest_dial_make_pair(pair);
	struct stream *s;
	uint16_t number;

	if (sys != 0)
		return sys;
	d->fd = pair[0];
	s = stream_new(pair[1], MUX_BOTH, true);
	if (s == NULL)
		return ENOMEM;
	number = mux_open(&carrier_mux, &open, s);
	if (number == 0) {
		stream_free(s, 0);
		return EAGAIN;
	}
	s->on_opened = on_opened;
	s->on_end = on_end;
	s->arg = d;
	d->stream = s;
	stream_join(s, number);
	return 0;
}

void guest_dial_begin(uint32_t handle, uint16_t port, bool directly)
{
	struct guest_dial *d = guest_dial_find_free();
	int sys;

	if (d == NULL) {
		refused = (struct guest_dial){
			.used = true, .done = true, .handle = handle, .fd = -1, .sys = EAGAIN
		};
		return;
	}
	*d = (struct guest_dial){ .used = true, .handle = handle, .fd = -1 };
	sys = directly ? dialer_connect(port, &d->fd) : guest_dial_open_stream(d, port);
	if (sys != 0 || directly)
		guest_dial_end(d, sys);
}

bool guest_dial_next_done(struct agent_event *ret, int *ret_fd)
{
	const struct guest_dial *d = refused.used ? &refused : NULL;

	for (size_t i = 0; d == NULL && ndone > 0 && i < GUEST_DIALS_MAX; i++)
		if (dials[i].used && dials[i].done)
			d = &dials[i];
	if (d == NULL)
		return false;
	*ret = (struct agent_event){ .handle = d->handle, .sys = d->sys };
	*ret_fd = d->fd;
	return true;
}

static void guest_dial_drop(struct guest_dial *d)
{
	struct stream *s = d->stream;

	d->stream = NULL;
	if (s != NULL)
		stream_free(s, ECONNABORTED);
	io_close_all(&d->fd, 1);
	ndone -= d->done;
	d->used = false;
}

void guest_dial_on_sent(const struct agent_event *v)
{
	if (refused.used && refused.handle == v->handle) {
		refused.used = false;
		return;
	}
	for (size_t i = 0; i < GUEST_DIALS_MAX; i++)
		if (dials[i].used && dials[i].done && dials[i].handle == v->handle) {
			guest_dial_drop(&dials[i]);
			return;
		}
}

void guest_dial_drop_all(void)
{
	refused.used = false;
	for (size_t i = 0; i < GUEST_DIALS_MAX; i++)
		if (dials[i].used)
			guest_dial_drop(&dials[i]);
}
