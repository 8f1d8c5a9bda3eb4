#include "front/web/masked.h"

#include <string.h>

#include "front/web/auth.h"

#define PIECE_MAX ((size_t)16 * 1024)

/* Only keys of scope read get masked content. */
void masked_begin(struct masked *k, const struct request *r, const struct session *s)
{
	k->on = auth_only_reads(r) && session_mask(s) != NULL;
}

/* The bytes may hold parts of a secret, so they are wiped. */
static void drop_out(struct masked *k)
{
	if (k->out != NULL)
		explicit_bzero(k->out, k->len);
	free(k->out);
	k->out = NULL;
	k->at = k->len = 0;
}

/* Write what waits. False: there was no room for all. */
static bool write_out(struct masked *k, struct request *r)
{
	if (k->at < k->len)
		k->at += exchange_write(r->x, k->out + k->at, k->len - k->at);
	if (k->at < k->len)
		return false;
	drop_out(k);
	return true;
}

/* The current mask. NULL: it is gone, and the answer was cut off. */
static const struct mask *mask_now(struct request *r)
{
	struct err e;
	struct session *s = session_live(r->core, r->tenant, r->session_id, &e);
	const struct mask *m = s == NULL ? NULL : session_mask(s);

	if (m == NULL)
		exchange_abort(r->x);
	return m;
}

/* Room for the new bytes and for all that the mask holds. */
static bool make_room(struct masked *k, struct request *r, size_t len)
{
	k->out = malloc(len + mask_stream_held(&k->stream) + 1);
	if (k->out == NULL)
		exchange_abort(r->x);
	return k->out != NULL;
}

/* Returns how many bytes were taken. After an abort all are, and nothing is written. */
size_t masked_write(struct masked *k, struct request *r, const uint8_t *data, size_t len)
{
	const struct mask *m;
	size_t n = len < PIECE_MAX ? len : PIECE_MAX;

	if (!k->on)
		return exchange_write(r->x, data, len);
	if (!write_out(k, r))
		return 0;
	m = mask_now(r);
	if (m == NULL || !make_room(k, r, n))
		return len;
	k->len = mask_feed(m, &k->stream, data, n, k->out);
	(void)write_out(k, r);
	return n;
}

/* Repeatable until it returns true. */
bool masked_end(struct masked *k, struct request *r)
{
	const struct mask *m;

	if (!k->on)
		return true;
	if (!write_out(k, r))
		return false;
	if (k->ended)
		return true;
	m = mask_now(r);
	if (m == NULL || !make_room(k, r, 0))
		return false; /* on_done is on its way */
	k->ended = true;
	k->len = mask_end(m, &k->stream, k->out);
	return write_out(k, r);
}

void masked_release(struct masked *k)
{
	mask_stream_release(&k->stream);
	drop_out(k);
}
