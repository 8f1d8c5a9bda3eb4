/* endpoint_result.c - the result of a tool, with values of the server's secrets masked, as the
 * answer to a call. Called by endpoint_call.c.
 *
 * A result may have PEER_RESULT_MAX bytes, and masking them takes longer than a turn of the loop
 * should: it is done in pieces of the tenant's share (loop/jobs.h). Meanwhile the server's session
 * or its mask may end: then there is no answer but that. */
#include <stdlib.h>
#include <string.h>

#include "endpoint_call.h"

#define RESULT_MAX (PEER_LINK_MAX + 65536)
#define PIECE ((size_t)16 << 10)

void endpoint_result_release(struct call *c)
{
	core_job_cancel(c->r->core, &c->job);
	mask_stream_release(&c->mask);
	free(c->raw);
	free(c->masked);
	c->raw = NULL;
	c->masked = NULL;
}

/* A value with characters of JSON may make the text unreadable: then it is not passed on. */
static void answer(struct call *c)
{
	struct json_value result;
	struct err e;

	if (json_read(c->masked, c->nmasked, PEER_DEPTH_MAX, &result, &e) < 0 ||
	    result.kind != JSON_READ_OBJECT) {
		endpoint_error(c, "server %s: the result has a secret that cannot be masked",
			       c->server);
		return;
	}
	c->record.is_error = json_read_member(result, "isError").kind == JSON_READ_TRUE;
	endpoint_begin(c, RESULT_MAX);
	mcp_write_result(&c->answer, &c->about, &c->q);
	join_write_result(&c->answer, result);
	mcp_write_result_end(&c->answer);
	endpoint_send(c);
}

static void mask_piece(struct call *c, const struct mask *m)
{
	size_t n = c->nraw - c->fed, turn = mask_turn(m);

	n = n < PIECE ? n : PIECE;
	n = n < turn ? n : turn;
	c->nmasked += mask_feed(m, &c->mask, (const uint8_t *)c->raw + c->fed, n,
				(uint8_t *)c->masked + c->nmasked);
	c->fed += n;
	if (c->fed == c->nraw)
		c->nmasked += mask_end(m, &c->mask, (uint8_t *)c->masked + c->nmasked);
}

static bool on_piece(struct job *j)
{
	struct call *c = j->arg;
	const struct server_link *k =
		servers_find(c->r->core, c->r->session_id, c->server, strlen(c->server));
	const struct mask *m = k == NULL ? NULL : session_mask(k->session);

	if (k == NULL || (m == NULL && c->fed > 0 && c->fed < c->nraw)) {
		endpoint_error(c, "server %s: the result is lost", c->server);
		return false;
	}
	if (c->fed == c->nraw) {
		answer(c);
		return false;
	}
	if (m == NULL) {
		memcpy(c->masked, c->raw, c->nraw);
		c->nmasked = c->fed = c->nraw;
	} else {
		mask_piece(c, m);
	}
	return true;
}

void endpoint_result(struct call *c, struct json_value result)
{
	c->raw = malloc(result.n);
	c->masked = malloc(result.n + 1);
	if (c->raw == NULL || c->masked == NULL) {
		endpoint_error(c, "server %s: the result is lost", c->server);
		return;
	}
	memcpy(c->raw, result.p, result.n);
	c->nraw = result.n;
	c->job = (struct job){ .on_piece = on_piece, .arg = c };
	if (result.n > PIECE) {
		core_job_add(c->r->core, c->r->tenant, &c->job);
		return;
	}
	while (on_piece(&c->job))
		;
}
