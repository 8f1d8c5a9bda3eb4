/* ops.c - the table is the whole attack surface: a request that is not in it, has another size, a
 * value out of bounds or the wrong number of descriptors ends the connection (keeper_msg_check);
 * one that names a cell in the wrong state is answered with an error. */
#include "ops.h"

#include <string.h>

#include "cell.h"
#include "io.h"

#define CELLS_MAX 4096

static struct cell cells[CELLS_MAX];
static unsigned used; /* slots at or above this were never used */

static struct cell *find(const char *id)
{
	for (unsigned i = 0; i < used; i++)
		if (strcmp(cells[i].id, id) == 0)
			return &cells[i];
	return NULL;
}

static struct cell *free_slot(void)
{
	struct cell *c = find("");

	return c == NULL && used < CELLS_MAX ? &cells[used++] : c;
}

static void fill_walls(const struct keeper *k, const struct cell *c, struct keeper_walls *ret)
{
	const struct keeper_setup *s = &k->setup;

	*ret = (struct keeper_walls){ .rootless = s->rootless,
				      .ids = s->rootless && s->subordinate == 0 ? 1 : KEEPER_IDS,
				      .cgroup_version = s->cgroup_version,
				      .limits = s->limits,
				      .landlock_abi = (uint32_t)k->landlock_abi,
				      .idmapped = c != NULL && c->idmapped };
	memcpy(ret->no_limits_why, s->no_limits_why, sizeof(ret->no_limits_why));
}

static int op_create(const struct keeper *k, const union keeper_request *r, int *fds,
		     struct keeper_reply *reply, struct err *e)
{
	struct cell *c = find(r->create.id);

	if (c != NULL)
		return err_set(e, ERR_CONFLICT, "cell %s exists", r->create.id);
	c = free_slot();
	if (c == NULL)
		return err_set(e, ERR_LIMIT, "a keeper holds at most %d cells", CELLS_MAX);
	if (cell_create(c, k, &r->create, fds[0], fds + 1, e) < 0)
		return -1;
	fill_walls(k, c, &reply->walls);
	return 0;
}

static int op_diff(const struct keeper *k, const union keeper_request *r, int *fds,
		   struct keeper_reply *reply, struct err *e)
{
	const struct cell *c = find(r->named.id);

	(void)reply;
	if (c == NULL)
		return err_set(e, ERR_NOT_FOUND, "no cell %s", r->named.id);
	return cell_diff(c, k, fds[0], e);
}

static int op_destroy(const struct keeper *k, const union keeper_request *r, int *fds,
		      struct keeper_reply *reply, struct err *e)
{
	struct cell *c = find(r->named.id);

	(void)fds;
	if (c == NULL)
		return err_set(e, ERR_NOT_FOUND, "no cell %s", r->named.id);
	return cell_destroy(c, k, &reply->stat, e);
}

static int (*const ops[])(const struct keeper *, const union keeper_request *, int *fds,
			  struct keeper_reply *, struct err *) = {
	[KEEPER_CREATE] = op_create,
	[KEEPER_DIFF] = op_diff,
	[KEEPER_DESTROY] = op_destroy,
};

static int say(int sock, const struct keeper_reply *reply, const int *fds, size_t nfds)
{
	struct err e;

	return io_send(sock, reply, sizeof(*reply), fds, nfds, &e);
}

/* One request; 1 to go on, 0 at the end of the connection, -1 if the peer broke the protocol. */
static int serve_one(int sock, const struct keeper *k)
{
	union keeper_request r;
	struct keeper_reply reply;
	int fds[IO_FDS_MAX];
	size_t nfds = 0;
	const struct cell *made = NULL;
	struct err e = { 0 };
	ssize_t n = io_recv(sock, &r, sizeof(r), fds, IO_FDS_MAX, &nfds, &e);
	int result;

	if (n <= 0)
		return (int)n;
	if (keeper_msg_check(&r, (size_t)n, nfds, &e) < 0) {
		io_close_all(fds, nfds);
		IGNORED(ops_refuse(sock, &e), "the connection ends either way");
		return -1;
	}
	memset(&reply, 0, sizeof(reply));
	reply.op = r.op;
	reply.version = KEEPER_VERSION;
	if (ops[r.op](k, &r, fds, &reply, &e) < 0)
		reply.err = e;
	else if (r.op == KEEPER_CREATE)
		made = find(r.create.id);
	io_close_all(fds, nfds);
	result = say(sock, &reply, made == NULL ? NULL : &made->pidfd, made != NULL);
	return result < 0 ? -1 : 1;
}

int ops_refuse(int sock, const struct err *why)
{
	struct keeper_reply reply;

	memset(&reply, 0, sizeof(reply));
	reply.op = KEEPER_HELLO;
	reply.version = KEEPER_VERSION;
	reply.err = *why;
	return say(sock, &reply, NULL, 0);
}

int ops_serve(int sock, const struct keeper *k)
{
	struct keeper_reply hello;
	int more;

	memset(&hello, 0, sizeof(hello));
	hello.op = KEEPER_HELLO;
	hello.version = KEEPER_VERSION;
	fill_walls(k, NULL, &hello.walls);
	more = say(sock, &hello, NULL, 0) == 0;
	while (more > 0)
		more = serve_one(sock, k);
	for (unsigned i = 0; i < used; i++)
		if (cells[i].id[0] != '\0' && !cells[i].linger)
			IGNORED(cell_destroy(&cells[i], k, NULL, &(struct err){ 0 }),
				"nobody left to tell");
	return more;
}
