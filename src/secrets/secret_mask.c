/* secret_mask.c - see secret_mask.h. The values are in the clear while the mask is made.
 *
 * Brokered values are among them, although the cell does not hold them: a server may repeat one in
 * a form that cordon-egress does not recognise. A program that guesses learns nothing from the
 * mask: only whole values are masked. */
#include "secret_mask.h"

#include <assert.h>
#include <string.h>

#include "log.h"
#include "seal.h"
#include "secret_state.h"
#include "secret_values.h"

struct values {
	char **at;
	size_t *lens;
	size_t n;
};

static void add(const struct secret_values_one *one, void *arg)
{
	struct values *v = arg;

	v->at = realloc(v->at, (v->n + 1) * sizeof(*v->at));
	v->lens = realloc(v->lens, (v->n + 1) * sizeof(*v->lens));
	assert(v->at != NULL && v->lens != NULL);
	v->at[v->n] = malloc(one->len + 1);
	assert(v->at[v->n] != NULL);
	memcpy(v->at[v->n], one->value, one->len);
	v->lens[v->n++] = one->len;
}

void secret_mask(struct session *s)
{
	struct secret_state *st = secret_state_of(s);
	struct values v = { 0 };
	struct mask *m;
	struct err e;

	secret_values_each(s, add, &v);
	if (v.n > 0) {
		m = session_mask_make(s, (const char *const *)v.at, v.lens, v.n, &e);
		if (m != NULL)
			session_mask_set(s, m);
		else
			log_error("mask for output could not be made", "session_id=%s error=%s",
				  session_row(s)->id, e.msg);
	}
	if (st != NULL) {
		st->bytes = 0;
		st->unmasked = false;
	}
	for (size_t i = 0; i < v.n; i++) {
		secret_state(s)->bytes += v.lens[i];
		seal_wipe(v.at[i], v.lens[i]);
	}
	free(v.at);
	free(v.lens);
}

void secret_mask_now(struct session *s)
{
	const struct secret_state *st = secret_state_of(s);

	if (st != NULL && st->unmasked)
		secret_mask(s);
}
