/* audit_erase.c - see audit_erase.h. */
#include "daemon/audit/audit_erase.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/audit/audit_private.h"
#include "lib/json/json.h"
#include "lib/json/json_tree.h"

#define PIECE 64 /* records */
#define SIDE_MAX (256U << 10)

static bool erase_names(const struct audit_erasure *x, struct json_span name)
{
	for (unsigned i = 0; i < x->nnames; i++)
		if (json_span_is(name, x->names[i]))
			return true;
	return x->nnames == 0;
}

/* Is it the record of the one who is to be forgotten? */
static bool erase_takes(const struct audit_erasure *x, const struct json_node *root)
{
	const struct json_node *claim = json_tree_get(root, "on_behalf");

	return x->by != ERASE_ON_BEHALF ||
	       json_span_is(json_tree_get_text(claim, "value"), x->on_behalf);
}

static bool erase_write(const struct audit_erasure *x, const struct json_node *root, char **ret)
{
	bool gone = false, left = false;
	struct json j;

	json_init_heap(&j, SIDE_MAX);
	json_open(&j, NULL, '{');
	for (const struct json_node *n = json_tree_first(root); n != NULL;
	     n = json_tree_next(root, n)) {
		char *name;

		if (erase_names(x, n->text)) {
			gone = true;
			continue;
		}
		name = json_span_dup(n->text);
		if (name != NULL)
			json_tree_write(&j, name, json_tree_value(n));
		else
			j.full = true;
		free(name);
		left = true;
	}
	json_close(&j, '}');
	if (!json_ok(&j)) {
		json_release(&j);
		return false;
	}
	if (gone && !left)
		j.text[0] = '\0';
	*ret = gone ? j.text : NULL;
	if (!gone)
		json_release(&j);
	return true;
}

int audit_erase_side(const struct audit_erasure *x, const char *side, char **ret, struct err *e)
{
	struct json_tree t;
	bool done = true;

	*ret = NULL;
	if (side[0] == '\0')
		return 0;
	if (json_tree_read(&t, side, strlen(side), &json_tree_default, e) < 0)
		return -1;
	if (erase_takes(x, json_tree_root(&t)))
		done = erase_write(x, json_tree_root(&t), ret);
	json_tree_release(&t);
	return done ? 0 : err_set(e, ERR_SYSTEM, "audit: out of memory");
}

struct erase_rows {
	struct audit_erasure *x;
	uint64_t ids[PIECE];
	char *sides[PIECE]; /* owned */
	unsigned n;
	size_t bytes; /* looked at */
	struct err *e;
	bool failed;
};

/* Rows are changed after the list: a callback must not write. */
static int on_row(const struct store_audit *row, void *cookie)
{
	struct erase_rows *r = cookie;
	char *side;

	if (r->bytes >= AUDIT_PIECE)
		return 1;
	if (r->x->by == ERASE_SEQ && store_audit_seq(row) != r->x->seq)
		return 1; /* that one is pruned: this is the next one that is kept */
	r->bytes += row->leaf_len + strlen(row->side);
	if (audit_erase_side(r->x, row->side, &side, r->e) < 0) {
		r->failed = true;
		return 1;
	}
	if (side != NULL) {
		r->ids[r->n] = row->id;
		r->sides[r->n++] = side;
	}
	return 0;
}

static int erase_store(struct store *s, const struct erase_rows *r, struct err *e)
{
	int done = 0;

	if (r->n == 0)
		return 0;
	store_audit_overwrite(s, true);
	if (store_begin(s, e) < 0)
		done = -1;
	for (unsigned i = 0; done == 0 && i < r->n; i++)
		done = store_audit_set_side(s, r->ids[i], r->sides[i], e);
	if (done == 0)
		done = store_commit(s, e);
	if (done < 0)
		store_rollback(s);
	store_audit_overwrite(s, false);
	return done;
}

int audit_erase_piece(struct audit_erasure *x, struct err *e)
{
	struct erase_rows r = { .x = x, .e = e };
	const struct store_audit_filter f = {
		.log = x->log,
		.from = x->next,
		.session = x->by == ERASE_SESSION ? x->session : NULL,
		.limit = x->by == ERASE_SEQ ? 1 : PIECE,
	};
	struct store_looked looked;
	int done = store_audit_list(x->audit->store, &f, on_row, &r, &looked, e);

	if (done == 0)
		done = r.failed ? -1 : erase_store(x->audit->store, &r, e);
	for (unsigned i = 0; i < r.n; i++)
		free(r.sides[i]);
	if (done < 0)
		return -1;
	x->records += r.n;
	x->next = looked.seq + 1;
	return !looked.end && x->by != ERASE_SEQ;
}

int audit_erase_begin(struct audit_erasure *x, const char *tenant, const struct store_actor *who,
		      struct err *e)
{
	static const char *const by[] = { "seq", "session", "on_behalf" };
	const struct audit_record record = {
		.tenant = tenant,
		.session = x->by == ERASE_SESSION ? x->session : "",
		.type = "audit.erased",
		.actor = who,
	};
	char names[AUDIT_ERASE_NAMES * 33] = "";
	size_t n = 0;

	for (unsigned i = 0; i < x->nnames; i++) {
		n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", i == 0 ? "" : " ",
				      x->names[i]);
	}
	if (x->by == ERASE_SEQ) {
		x->next = x->seq;
		return audit_append(x->audit, &record, e, "by\t%s\nrecord\t%llu\nnames\t%s\n",
				    by[x->by], (unsigned long long)x->seq, names);
	}
	return audit_append(x->audit, &record, e, "by\t%s\nnames\t%s\n", by[x->by], names);
}

int audit_erase_end(struct audit_erasure *x, struct err *e)
{
	return store_audit_forget(x->audit->store, e);
}
