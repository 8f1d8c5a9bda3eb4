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

void secret_change_keep_old(struct core *c, const struct tenant *t, const struct store_secret *row)
{
	struct store_secret copy = *row;

	session_each(c, t, keep_one, &copy);
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
