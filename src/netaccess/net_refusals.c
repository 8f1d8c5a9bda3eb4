/* net_refusals.c - see net_refusals.h. */
#include "net_refusals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "access_record_text.h"
#include "buf.h"
#include "net_state.h"
#include "store_execution.h"

#define SLACK_MS 20 /* clocks of the two programs are read at different moments */

struct net_refusal {
	uint64_t time_ms; /* the last one */
	char kind[ACCESS_RECORD_TEXT_KIND_MAX], name[ACCESS_RECORD_TEXT_NAME_MAX];
	char reason[ACCESS_RECORD_TEXT_REASON_MAX];
	char execution[STORE_ID_MAX];
};

static unsigned count(const struct net_refusals *l)
{
	return l->n < NET_REFUSALS_MAX ? l->n : NET_REFUSALS_MAX;
}

void net_refusals_add(struct net_refusals *l, const struct access_record_text *r,
		      const char *execution)
{
	struct net_refusal *f = NULL;

	if (l->at == NULL)
		l->at = calloc(NET_REFUSALS_MAX, sizeof(*l->at));
	if (l->at == NULL)
		return; /* the record has it */
	for (unsigned i = 0; f == NULL && i < count(l); i++)
		if (strcmp(l->at[i].name, r->name) == 0 &&
		    strcmp(l->at[i].execution, execution) == 0)
			f = &l->at[i];
	if (f == NULL)
		f = &l->at[l->n++ % NET_REFUSALS_MAX];
	f->time_ms = r->time_ms;
	(void)snprintf(f->kind, sizeof(f->kind), "%s", r->kind);
	(void)snprintf(f->name, sizeof(f->name), "%s", r->name);
	(void)snprintf(f->reason, sizeof(f->reason), "%s", r->reason);
	(void)snprintf(f->execution, sizeof(f->execution), "%s", execution);
}

void net_refusals_release(struct net_refusals *l)
{
	free(l->at);
	*l = (struct net_refusals){ 0 };
}

static bool is_of(const struct net_refusal *f, const struct store_execution *row)
{
	if (f->execution[0] != '\0')
		return strcmp(f->execution, row->id) == 0;
	return f->time_ms >= row->created_ms &&
	       (row->ended_ms == 0 || f->time_ms <= row->ended_ms + SLACK_MS);
}

static bool was_before(const struct net_refusals *l, unsigned i, const struct store_execution *row)
{
	for (unsigned k = 0; k < i; k++)
		if (is_of(&l->at[k], row) && strcmp(l->at[k].name, l->at[i].name) == 0)
			return true;
	return false;
}

void net_refusals_write(struct core *c, const struct store_execution *row, struct json *j)
{
	const struct session *s = session_by_id(c, row->session);
	const struct net_refusals *l;

	if (s == NULL)
		return;
	l = &net_session_of(s)->refused;
	json_open(j, "denied", '[');
	for (unsigned i = 0; i < count(l); i++) {
		if (!is_of(&l->at[i], row) || was_before(l, i, row))
			continue;
		json_open(j, NULL, '{');
		json_text(j, "kind", l->at[i].kind);
		json_text(j, "name", l->at[i].name);
		json_text(j, "reason", l->at[i].reason);
		json_close(j, '}');
	}
	json_close(j, ']');
}

#define NAMED 3 /* hosts in a line */
#define NAME_SHOWN 100

/* Names are of the cell's choice: nothing that changes a terminal. */
static void put_name(struct buf *b, const char *name)
{
	for (size_t i = 0; name[i] != '\0' && i < NAME_SHOWN; i++)
		buf_printf(b, "%c", name[i] > ' ' && name[i] < 0x7f ? name[i] : '?');
}

void net_refusals_line(struct core *c, const struct store_execution *row,
		       char ret[NET_REFUSALS_LINE])
{
	const struct session *s = session_by_id(c, row->session);
	const struct net_refusals *l = s == NULL ? NULL : &net_session_of(s)->refused;
	struct buf names = BUF_INIT(NET_REFUSALS_LINE);
	unsigned n = 0;

	for (unsigned i = 0; l != NULL && i < count(l); i++) {
		if (!is_of(&l->at[i], row) || was_before(l, i, row) || ++n > NAMED)
			continue;
		buf_put_text(&names, n == 1 ? "" : ", ");
		put_name(&names, l->at[i].name);
	}
	ret[0] = '\0';
	if (n > 0)
		(void)snprintf(ret, NET_REFUSALS_LINE,
			       "cordon: the network policy refused %u host%s (%.330s%s)\n", n,
			       n == 1 ? "" : "s", buf_text(&names), n > NAMED ? ", ..." : "");
	buf_release(&names);
}
