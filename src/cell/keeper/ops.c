/* ops.c - channel A: receives requests, dispatches them by the table ops[], sends replies.
 *
 * The table is the attack surface of the privileged program. A request of an unknown operation or
 * another size, with a value out of range or with the wrong number of descriptors, ends the
 * connection (keeper_msg_check()). A request that names a cell in the wrong state is answered with
 * an error.
 *
 * The keeper of cordon run has one cell, `own`. A server's keeper holds none: its cells linger, and
 * a request about a cell finds it by name, whichever keeper made it.
 *
 * Invariant: a request is checked as a whole before anything is done. Its descriptors are closed
 * when it is answered, and no request takes longer than its PATIENCE. */
#include <fcntl.h>
#include <string.h>

#include "cell/keeper/cell.h"
#include "cell/keeper/mounts.h"
#include "cell/keeper/source.h"
#include "lib/base/io.h"
#include "lib/base/kernel.h"

/* How long a request may wait until processes have exited. A server repeats its request. cordon run
 * sends it once. */
#define PATIENCE_SERVE_MS 50
#define PATIENCE_MS 60000

static struct cell own; /* the cell that does not linger */

/* A request with its descriptors, and the answer. */
struct ops_call {
	union keeper_request r;
	int fds[IO_FDS_MAX]; /* owned, valid while the request is served: as many as it has */
	struct keeper_reply reply;
	int fd; /* owned, sent along if >= 0 */
};

/* For a server, which may have been taken over: only sources below the operator's roots, and no
 * cell without limits. ret_fds: layers, then mounts. The caller closes them, also on failure. */
static int ops_open_sources(const struct keeper *k, const struct keeper_create *r, int *ret_fds,
			    struct err *e)
{
	uint32_t unlimited = (r->limits.memory_bytes == 0 ? (uint32_t)CELL_LIMIT_MEMORY : 0) |
			     (r->limits.pids == 0 ? (uint32_t)CELL_LIMIT_PIDS : 0);

	if ((r->flags & CELL_LINGER) == 0 || (unlimited & k->setup.common.limits) != 0)
		return err_set(e, ERR_DENIED, "a server's cells must linger and have limits");
	for (unsigned i = 0; i < r->nlayers; i++)
		if (source_open(k, &r->layer_from[i], KEEPER_ROOT_LAYER, &ret_fds[i], e) < 0)
			return err_wrap(e, "layer %u", i);
	for (unsigned i = 0; i < r->nmounts; i++)
		if (source_open(k, &r->mounts[i].from,
				(r->mounts[i].flags & CELL_MOUNT_WRITABLE) != 0 ? KEEPER_ROOT_WRITE
										: KEEPER_ROOT_READ,
				&ret_fds[r->nlayers + i], e) < 0)
			return err_wrap(e, "mount %u", i);
	return 0;
}

static int op_create(const struct keeper *k, struct ops_call *c, struct err *e)
{
	const struct keeper_create *r = &c->r.create;
	int sources[CELL_LAYERS_MAX + CELL_MOUNTS_MAX], result = -1;
	struct cell made;

	if (own.id[0] != '\0')
		return err_set(e, ERR_CONFLICT, "this keeper has a cell already");
	if (r->engine != CELL_ENGINE_NONE && k->shim_fd < 0)
		return err_set(e, ERR_UNSUPPORTED, "cordon-shim is not installed");
	memset(sources, 0xff, sizeof(sources)); /* every descriptor -1 */
	if (!k->setup.serve || ops_open_sources(k, r, sources, e) == 0)
		result = cell_create(&made, k, r, c->fds[0], c->fds[1],
				     k->setup.serve ? sources : c->fds + 1, e);
	io_close_all(sources, COUNT(sources));
	if (result < 0)
		return -1;
	c->reply.restrictions = k->setup.common;
	c->reply.restrictions.idmapped = made.idmapped;
	c->reply.restrictions.redirect = made.redirect;
	c->reply.restrictions.watched = made.watched;
	c->reply.pid = (uint32_t)made.pid;
	c->fd = fcntl(made.pidfd, F_DUPFD_CLOEXEC, 3);
	if ((r->flags & CELL_LINGER) != 0)
		cell_release(&made);
	else
		own = made;
	return 0;
}

static int op_diff(const struct keeper *k, struct ops_call *c, struct err *e)
{
	struct cell found;
	int result;

	if (strcmp(own.id, c->r.named.id) == 0)
		return diff_reader_start(&own, c->r.op == KEEPER_CAPTURE, c->fds[0], e);
	result = adopt_cell(&found, k, &c->r.diff, e);
	if (result == 0)
		result = diff_reader_start(&found, c->r.op == KEEPER_CAPTURE, c->fds[0], e);
	cell_release(&found);
	return result;
}

static int op_destroy(const struct keeper *k, struct ops_call *c, struct err *e)
{
	if (strcmp(own.id, c->r.named.id) == 0)
		return cell_destroy(&own, k, PATIENCE_MS, &c->reply.disk, e);
	if (!k->setup.serve)
		return err_set(e, ERR_NOT_FOUND, "no cell %s", c->r.named.id);
	return cell_destroy_named(k, &c->r.named, PATIENCE_SERVE_MS, e);
}

static int op_freeze(const struct keeper *k, struct ops_call *c, struct err *e)
{
	return cgroup_freeze(&k->cgroups, c->r.named.id, c->r.named.on != 0, e);
}

static int op_volume(const struct keeper *k, struct ops_call *c, struct err *e)
{
	const struct cell_source *from = &c->r.volume.from;
	int fd = -1;

	if (!source_is_volume(k, from) || !source_is_image(from))
		return err_set(e, ERR_DENIED, "not the image of a volume");
	if (source_open(k, from, KEEPER_ROOT_WRITE, &fd, e) < 0)
		return -1;
	OWN_FD mount = fd;
	if (mounts_restrict(mount, MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, e) < 0)
		return -1;
	c->fd = TAKE_FD(mount);
	return 0;
}

static int (*const ops[])(const struct keeper *, struct ops_call *, struct err *) = {
	[KEEPER_CREATE] = op_create,   [KEEPER_DIFF] = op_diff,	    [KEEPER_CAPTURE] = op_diff,
	[KEEPER_DESTROY] = op_destroy, [KEEPER_FREEZE] = op_freeze, [KEEPER_VOLUME] = op_volume,
};

static int ops_send_reply(int sock, struct ops_call *c, const struct err *e)
{
	OWN_FD fd = c->fd;

	c->reply.op = c->r.op;
	c->reply.version = KEEPER_VERSION;
	c->reply.err = *e;
	return io_send(sock, &c->reply, sizeof(c->reply), &fd, fd >= 0, &(struct err){ 0 });
}

/* Serve one request. Return 1 to continue, 0 at the end of the connection, -1 if the peer broke
 * the protocol. */
static int ops_serve_one(int sock, const struct keeper *k)
{
	struct ops_call c = { .r.op = KEEPER_HELLO, .fd = -1 };
	size_t nfds = 0;
	struct err e = { 0 };
	ssize_t n = io_recv(sock, &c.r, sizeof(c.r), c.fds, IO_FDS_MAX, &nfds, &e);

	diff_reader_reap();
	/* ERR_LIMIT: the request was received, but some of its descriptors were lost. */
	if (n == 0 || (n < 0 && e.code != ERR_LIMIT))
		return (int)n;
	if (n > 0 && keeper_msg_check(&c.r, (size_t)n, nfds, k->setup.serve != 0, &e) < 0) {
		io_close_all(c.fds, nfds);
		IGNORED(ops_refuse(sock, &e), "the connection ends either way");
		return -1;
	}
	if (n > 0 && ops[c.r.op](k, &c, &e) == 0)
		e = (struct err){ 0 };
	io_close_all(c.fds, nfds);
	diff_reader_reap();
	return ops_send_reply(sock, &c, &e) < 0 ? -1 : 1;
}

int ops_refuse(int sock, const struct err *why)
{
	return ops_send_reply(sock, &(struct ops_call){ .r.op = KEEPER_HELLO, .fd = -1 }, why);
}

int ops_serve(int sock, const struct keeper *k)
{
	struct ops_call hello = { .r.op = KEEPER_HELLO, .fd = -1 };
	int more;

	cell_init(&own);
	hello.reply.restrictions = k->setup.common;
	more = ops_send_reply(sock, &hello, &(struct err){ 0 }) == 0;
	while (more > 0)
		more = ops_serve_one(sock, k);
	if (own.id[0] != '\0')
		IGNORED(cell_destroy(&own, k, PATIENCE_MS, NULL, &(struct err){ 0 }),
			"the other end is closed");
	return more;
}
