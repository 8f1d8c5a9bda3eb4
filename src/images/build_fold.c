/* build_fold.c - makes one layer of those that a build has made so far, when there are too many to
 * be stacked in a cell. The single layers stay as long as the cache has them. */
#include <stdio.h>
#include <string.h>

#include "build_cell.h"
#include "quota.h"
#include "templates.h"

#define FOLD_ABOVE 14 /* layers of the base included */
#define LAYER_LEAST ((uint64_t)1 << 20)

static bool is_needed(const struct build *b)
{
	struct template_stack base;
	struct err e;

	if (b->stack.nlayers < 2 || template_stack_read(template_row(b->base), &base, &e) < 0)
		return false;
	return base.nlayers + b->stack.nlayers > FOLD_ABOVE;
}

/* The new layer takes the place of the others in the moment in which its row is written. */
static int replace(struct build *b, struct err *e)
{
	const struct storage_reply *r = &b->fold.reply;
	struct store *s = core_store(b->core);
	struct store_layer row = { .bytes = r->bytes,
				   .entries = r->entries,
				   .created_ms = core_now_ms(),
				   .kind = "build" };

	memcpy(row.id, b->folding.id, sizeof(row.id));
	memcpy(row.tenant, b->row.tenant, sizeof(row.tenant));
	if (store_begin(s, e) == 0 && store_layer_insert(s, &row, e) == 0 &&
	    store_layer_use(s, STORE_LAYER_OF_BUILD, b->row.id, (const char(*)[STORE_ID_MAX])row.id,
			    1, e) == 0 &&
	    store_commit(s, e) == 0) {
		memcpy(b->stack.layers[0], row.id, sizeof(row.id));
		b->stack.nlayers = 1;
		return 0;
	}
	store_rollback(s);
	return -1;
}

static void on_folded(struct completion *w, const struct err *e)
{
	struct build *b = w->arg;
	struct err why = { 0 };
	int rc = e == NULL ? replace(b, &why) : -1;

	layers_settle(core_layers(b->core), &b->folding, rc == 0);
	if (rc == 0)
		b->then(b);
	else
		build_fail(b, "the layers of the build cannot be folded: %s",
			   e == NULL ? why.msg : e->msg);
}

void build_fold(struct build *b, void (*then)(struct build *b))
{
	char from[TEMPLATE_STACK_MAX][STORAGE_ID_MAX];
	struct quota_limits limits;
	struct err e;

	if (!is_needed(b)) {
		then(b);
		return;
	}
	b->then = then;
	quota_limits(b->core, b->tenant, &limits);
	if (layers_admit(core_layers(b->core), &b->folding, b->row.tenant, limits.stored,
			 LAYER_LEAST, core_config(b->core)->disk_max, &e) < 0) {
		build_fail(b, "the layers of the build cannot be folded: %s", e.msg);
		return;
	}
	for (size_t i = 0; i < b->stack.nlayers; i++)
		(void)snprintf(from[i], sizeof(from[i]), "%s", b->stack.layers[i]);
	b->fold.done = (struct completion){ .on_done = on_folded, .arg = b };
	storage_link_fold(core_storage(b->core), &b->fold, b->folding.id,
			  (const char(*)[STORAGE_ID_MAX])from, (unsigned)b->stack.nlayers, 0);
}

void build_fold_release(struct build *b)
{
	storage_link_cancel(core_storage(b->core), &b->fold);
	layers_settle(core_layers(b->core), &b->folding, false);
}
