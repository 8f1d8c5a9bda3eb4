#include "key_sessions.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "core_private.h"

#define MINUTE_MS 60000ULL

/* Of one key. A bucket holds what a minute allows, in thousandths of a session. */
struct key_use {
	struct key_use *next;
	char id[STORE_ID_MAX];
	uint64_t sessions;
	uint64_t tokens_milli, at_ns;
};

static bool is_limited(const struct session *s)
{
	return s->row.creator_key[0] != '\0' && s->key_max + s->key_per_minute > 0;
}

static struct key_use *find(const struct session *s)
{
	struct key_use *u = s->tenant->key_uses;

	while (u != NULL && strcmp(u->id, s->row.creator_key) != 0)
		u = u->next;
	return u;
}

static void count_one(struct session *s, void *arg)
{
	struct key_use *u = arg;

	u->sessions += s->key_counted && strcmp(s->row.creator_key, u->id) == 0;
}

/* What says nothing: no session, and a bucket that is full by now. */
static void drop_unused(struct tenant *t)
{
	uint64_t now = clock_now_ns();

	for (struct key_use **at = &t->key_uses; *at != NULL;) {
		struct key_use *u = *at;

		if (u->sessions > 0 || now - u->at_ns < MINUTE_MS * CLOCK_MS) {
			at = &u->next;
			continue;
		}
		*at = u->next;
		free(u);
	}
}

static struct key_use *find_or_make(struct session *s)
{
	struct key_use *u = find(s);

	if (u != NULL)
		return u;
	drop_unused(s->tenant);
	u = calloc(1, sizeof(*u));
	assert(u != NULL);
	memcpy(u->id, s->row.creator_key, sizeof(u->id));
	u->tokens_milli = s->key_per_minute * 1000;
	u->at_ns = clock_now_ns();
	session_each(s->core, s->tenant, count_one, u);
	u->next = s->tenant->key_uses;
	s->tenant->key_uses = u;
	return u;
}

static void refill(struct key_use *u, uint64_t per_minute)
{
	uint64_t full = per_minute * 1000, ms = (clock_now_ns() - u->at_ns) / CLOCK_MS;
	uint64_t more;

	if (ms > MINUTE_MS)
		ms = MINUTE_MS;
	more = full * ms / MINUTE_MS;
	if (more == 0)
		return; /* counted with the next look */
	u->tokens_milli = u->tokens_milli + more < full ? u->tokens_milli + more : full;
	u->at_ns = clock_now_ns();
}

int key_sessions_fit(struct session *s, unsigned *ret_retry_s, struct err *e)
{
	struct key_use *u;

	*ret_retry_s = 1;
	if (!is_limited(s))
		return 0;
	u = find_or_make(s);
	if (s->key_max > 0 && u->sessions >= s->key_max)
		return err_set_reason(e, REASON_QUOTA_SESSIONS,
				      "the key's sessions at a time are %llu",
				      (unsigned long long)s->key_max);
	if (s->key_per_minute == 0)
		return 0;
	refill(u, s->key_per_minute);
	if (u->tokens_milli >= 1000)
		return 0;
	*ret_retry_s = (unsigned)((1000 - u->tokens_milli) * 60 / (s->key_per_minute * 1000)) + 1;
	return err_set_reason(e, REASON_QUOTA_RATE, "the key's sessions in a minute are %llu",
			      (unsigned long long)s->key_per_minute);
}

void key_sessions_count(struct session *s)
{
	struct key_use *u = s->tenant->key_uses == NULL ? NULL : find(s);

	s->key_counted = true;
	if (u == NULL)
		return;
	u->sessions++;
	if (s->key_per_minute > 0 && u->tokens_milli >= 1000)
		u->tokens_milli -= 1000;
}

void key_sessions_release(struct session *s)
{
	struct key_use *u = s->tenant->key_uses == NULL || !s->key_counted ? NULL : find(s);

	s->key_counted = false;
	if (u != NULL && u->sessions > 0)
		u->sessions--;
}

void key_sessions_free(struct tenant *t)
{
	while (t->key_uses != NULL) {
		struct key_use *u = t->key_uses;

		t->key_uses = u->next;
		free(u);
	}
}
