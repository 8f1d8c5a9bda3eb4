/* endpoint_result.c - the result of a tool, with values of the server's secrets masked, as the
 * answer to a call. Called by endpoint_call.c.
 *
 * A result may have PEER_RESULT_MAX bytes, and masking them takes longer than a turn of the loop
 * should: it is done in pieces of the tenant's share (loop/jobs.h). Meanwhile the server's session
 * or its mask may end: then there is no answer but that.
 *
 * Results that wait take memory. There is one copy of each; it is counted for the tenant, as a body
 * of a request is, and its link is not read from while many bytes wait (server_link_hold()). When
 * the answer is written the copy is freed. */
#include <stdlib.h>
#include <string.h>

#include "endpoint_call.h"
#include "routes.h"

#define RESULT_MAX (PEER_LINK_MAX + 65536)
#define PIECE ((size_t)16 << 10)

static void drop(struct call *c)
{
	core_job_cancel(c->r->core, &c->job);
	mask_work_release(&c->mask);
	server_link_let_go(&c->wait);
	free(c->result);
	c->result = NULL;
}

void endpoint_result_sent(struct call *c)
{
	exchange_unreserve(c->r->x, c->charged);
	c->charged = 0;
}

void endpoint_result_release(struct call *c)
{
	drop(c);
	endpoint_result_sent(c);
}

static void lose(struct call *c)
{
	endpoint_result_release(c);
	endpoint_error(c, "server %s: the result is lost", c->server);
}

/* A value with characters of JSON may make the text unreadable: then it is not passed on. */
static bool read_result(const struct call *c, struct json_value *ret)
{
	struct err e;

	*ret = (struct json_value){ JSON_READ_OBJECT, c->result, c->nresult };
	return c->mask.places == 0 ||
	       (json_read(c->result, c->nresult, PEER_DEPTH_MAX, ret, &e) == 0 &&
		ret->kind == JSON_READ_OBJECT);
}

static void answer(struct call *c)
{
	struct json_value result;

	if (!read_result(c, &result)) {
		endpoint_result_release(c);
		endpoint_error(c, "server %s: the result has a secret that cannot be masked",
			       c->server);
		return;
	}
	c->record.is_error = json_read_member(result, "isError").kind == JSON_READ_TRUE;
	endpoint_begin(c, RESULT_MAX);
	mcp_write_result(&c->answer, &c->about, &c->q);
	join_write_result(&c->answer, result);
	mcp_write_result_end(&c->answer);
	drop(c); /* what was counted for it now counts for the answer */
	endpoint_send(c);
}

static struct server_link *link_of(const struct call *c)
{
	return servers_find(c->r->core, c->r->session_id, c->server, strlen(c->server));
}

static bool on_piece(struct job *j)
{
	struct call *c = j->arg;
	const struct server_link *k = link_of(c);
	const struct mask *m = k == NULL ? NULL : session_mask(k->session);
	size_t turn;

	loop_note(core_loop(c->r->core), c->r->route->pattern);
	if (k == NULL || (m == NULL && c->mask.at > 0)) {
		lose(c);
		return false;
	}
	if (c->masked) {
		answer(c);
		return false;
	}
	turn = m == NULL || mask_turn(m) > PIECE ? PIECE : mask_turn(m);
	c->masked =
		m == NULL || mask_work_step(m, &c->mask, (uint8_t *)c->result, c->nresult, turn);
	return true;
}

void endpoint_result(struct call *c, struct json_value result)
{
	struct server_link *k = link_of(c);

	if (!exchange_reserve(c->r->x, result.n)) {
		endpoint_error(c,
			       "server %s: the tool ran, but there is no room for its result of "
			       "%zu bytes beside the other requests and results of this tenant "
			       "(tenant_bodies_max): call fewer tools at once",
			       c->server, result.n);
		return;
	}
	c->charged = result.n;
	c->result = malloc(result.n);
	if (c->result == NULL || k == NULL) {
		lose(c);
		return;
	}
	memcpy(c->result, result.p, result.n);
	c->nresult = result.n;
	c->job = (struct job){ .on_piece = on_piece, .arg = c };
	server_link_hold(k, &c->wait, result.n);
	if (result.n > PIECE) {
		core_job_add(c->r->core, c->r->tenant, &c->job);
		return;
	}
	while (on_piece(&c->job))
		;
}
