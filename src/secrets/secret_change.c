/* secret_change.c - see secret_change.h. */
#include "secret_change.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "secret_delivery.h"
#include "secret_mask.h"
#include "secret_state.h"
#include "secret_values.h"
#include "session_parts.h"

#define PAST_MAX 64 /* old values that a session remembers */

static void keep_one(struct session *s, void *arg)
{
	const struct store_secret *row = arg;
	struct secret_state *st;
	struct secret_past *p;
	size_t hosts_len;

	if (!secret_values_has(s, row->name) || session_row(s)->state >= SESSION_STOPPING)
		return;
	hosts_len = strlen(row->hosts);
	p = malloc(sizeof(*p) + row->box_len + hosts_len + 1);
	assert(p != NULL);
	secret_about(row, p->about);
	(void)snprintf(p->name, sizeof(p->name), "%s", row->name);
	p->hosts = memcpy(p->box + row->box_len, row->hosts, hosts_len + 1);
	p->len = row->box_len;
	memcpy(p->box, row->box, row->box_len);
	st = secret_state(s);
	p->next = st->past;
	st->past = p;
	st->bytes += row->box_len; /* until the mask is made */
	for (unsigned n = 1; p != NULL; p = p->next, n++)
		if (n == PAST_MAX && p->next != NULL) {
			free(p->next); /* the oldest, of which there is one more than there may be
					*/
			p->next = NULL;
		}
}

/* Programs of one that waits for room, and begins with the memory of another, have the old value.
 */
static void keep_queued(struct session *s, void *arg)
{
	if (session_goes_on(s))
		keep_one(s, arg);
}

void secret_change_keep_old(struct core *c, const struct tenant *t, const struct store_secret *row)
{
	struct store_secret copy = *row;

	session_each(c, t, keep_one, &copy);
	session_each_queued(t, keep_queued, &copy);
}

static struct secret_past *copy_past(const struct secret_past *from)
{
	size_t size = sizeof(*from) + from->len + strlen(from->hosts) + 1;
	struct secret_past *p = malloc(size);

	assert(p != NULL);
	memcpy(p, from, size);
	p->hosts = (const char *)p->box + p->len;
	p->next = NULL;
	return p;
}

size_t secret_change_inherit(struct session *s)
{
	const struct session *source = session_source(s);
	const struct secret_state *from = source == NULL ? NULL : secret_state_of(source);
	struct secret_state *st;
	struct secret_past **end;
	size_t bytes = 0;

	if (from == NULL || from->past == NULL)
		return 0;
	st = secret_state(s);
	end = &st->past;
	for (const struct secret_past *p = from->past; p != NULL; p = p->next) {
		*end = copy_past(p);
		end = &(*end)->next;
		bytes += p->len;
	}
	st->bytes += bytes; /* until the mask is made */
	return bytes;
}

static void mark_one(struct session *s, void *arg)
{
	if (!secret_values_has(s, arg) || session_row(s)->state >= SESSION_STOPPING)
		return;
	secret_state(s)->unmasked = true;
	secret_state(s)->changed = true;
	session_parts_changed(s);
}

void secret_change_apply(struct session *s)
{
	struct secret_state *st = secret_state_of(s);

	secret_mask_now(s);
	if (st == NULL || !st->changed)
		return;
	st->changed = false;
	secret_delivery_start(s);
}

void secret_change_mark(struct core *c, const struct tenant *t, const char *name)
{
	char copy[STORE_NAME_MAX];

	(void)snprintf(copy, sizeof(copy), "%s", name);
	session_each(c, t, mark_one, copy);
}
