/* build_fold.c - makes one layer of all that a build stands on, when there are too many to be
 * stacked in a cell.
 *
 * Layers are folded from the lowest of a stack on, so those of the base are part of it. The result
 * is a version of a template without a name: the build goes on with it as its base, and
 * removes it in the end; the single layers stay as long as others use them. What a build of a
 * daemon that died has left is removed after the next start. */
#include <stdio.h>
#include <string.h>

#include "build_cell.h"
#include "log.h"
#include "quota.h"
#include "rand.h"
#include "templates.h"

#define FOLD_ABOVE 14
#define FOLD_PREFIX BUILD_IMAGE_PREFIX "fold-"
#define LAYER_LEAST ((uint64_t)1 << 20)
#define SWEPT_MAX 64

/* All layers that the build stands on, the lowest first. */
static int whole_stack(const struct build *b, struct template_stack *ret, struct err *e)
{
	if (template_stack_read(template_row(b->base), ret, e) < 0)
		return -1;
	return template_stack_push(ret, (const char(*)[STORE_ID_MAX])b->stack.layers,
				   b->stack.nlayers, e);
}

/* ---- the version that it becomes */

static bool is_folded(const struct template_version *v)
{
	return strncmp(template_row(v)->name, FOLD_PREFIX, strlen(FOLD_PREFIX)) == 0;
}

static void drop(struct core *c, struct template_version *v)
{
	struct err e;

	if (v != NULL && is_folded(v) && templates_remove(c, v, NULL, &e) < 0)
		log_warn("folded layers of a build could not be removed", "error=%s", e.msg);
}

static struct template_version *make_version(struct build *b, struct err *e)
{
	const struct storage_reply *r = &b->fold.reply;
	struct store_layer layer = { .bytes = r->bytes,
				     .entries = r->entries,
				     .created_ms = core_now_ms(),
				     .kind = "build" };
	const struct template_new_layers made = { .rows = &layer, .n = 1 };
	char text[TEMPLATE_STACK_TEXT], id[RAND_ID_MAX];
	struct store_template row = *template_row(b->base);
	struct template_stack stack;

	if (template_stack_read(&row, &stack, e) < 0)
		return NULL;
	memcpy(layer.id, b->folding.id, sizeof(layer.id));
	memcpy(layer.tenant, b->row.tenant, sizeof(layer.tenant));
	memcpy(stack.layers[0], layer.id, sizeof(stack.layers[0]));
	stack.nlayers = 1;
	template_stack_write(&stack, text);
	rand_id("", id, sizeof(id));
	row.id[0] = row.template_id[0] = row.source[0] = '\0';
	row.kind = TEMPLATE_STACK;
	row.layers = text;
	row.public = false;
	memcpy(row.tenant, b->row.tenant, sizeof(row.tenant));
	(void)snprintf(row.name, sizeof(row.name), FOLD_PREFIX "%s", id);
	return templates_insert(b->core, &row, NULL, 0, &made, &b->actor, e);
}

static int replace(struct build *b, struct err *e)
{
	struct template_version *v = make_version(b, e), *before = b->base;

	if (v == NULL)
		return -1;
	b->base = template_use(v);
	b->stack.nlayers = 0;
	template_unuse(before);
	drop(b->core, before);
	return store_layer_unuse(core_store(b->core), STORE_LAYER_OF_BUILD, b->row.id, e);
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

/* ---- the request */

static void ask(struct build *b, const struct template_stack *s)
{
	char from[TEMPLATE_STACK_MAX][STORAGE_ID_MAX];
	struct storage_link *link = core_storage(b->core);
	const char(*ids)[STORAGE_ID_MAX] = (const char(*)[STORAGE_ID_MAX])from;
	unsigned n = (unsigned)s->nlayers;

	for (size_t i = 0; i < s->nlayers; i++)
		(void)snprintf(from[i], sizeof(from[i]), "%s", s->layers[i]);
	b->fold.done = (struct completion){ .on_done = on_folded, .arg = b };
	b->fold.tenant = b->folding.tenant;
	if (s->base == TEMPLATE_BASE_DIR)
		storage_link_fold_dir(link, &b->fold, b->folding.id, ids, n, s->dir);
	else
		storage_link_fold(link, &b->fold, b->folding.id, ids, n,
				  s->base == TEMPLATE_BASE_HOST ? STORAGE_FOLD_HOST
								: STORAGE_FOLD_BOTTOM);
}

void build_fold(struct build *b, void (*then)(struct build *b))
{
	struct template_stack stack;
	struct quota_limits limits;
	struct err e;
	int rc = whole_stack(b, &stack, &e);

	if (rc == 0 && stack.nlayers <= FOLD_ABOVE) {
		then(b);
		return;
	}
	b->then = then;
	quota_limits(b->core, b->tenant, &limits);
	if (rc == 0)
		rc = layers_admit(core_layers(b->core), &b->folding, b->row.tenant, limits.stored,
				  LAYER_LEAST, core_config(b->core)->storage_disk_max, &e);
	if (rc < 0)
		build_fail(b, "the layers of the build cannot be folded: %s", e.msg);
	else
		ask(b, &stack);
}

void build_fold_release(struct build *b)
{
	struct template_version *base = b->base;

	storage_link_cancel(core_storage(b->core), &b->fold);
	layers_settle(core_layers(b->core), &b->folding, false);
	b->base = NULL;
	template_unuse(base);
	drop(b->core, base);
}

/* ---- after a start */

struct left {
	size_t n;
	char ids[SWEPT_MAX][STORE_ID_MAX];
};

static void on_version(const struct template_version *v, void *arg)
{
	struct left *l = arg;

	/* A build that runs uses its own. */
	if (is_folded(v) && template_row(v)->current && template_sessions(v) == 0 &&
	    l->n < SWEPT_MAX)
		memcpy(l->ids[l->n++], template_row(v)->id, STORE_ID_MAX);
}

void build_fold_sweep(struct core *c)
{
	struct left l = { 0 };

	templates_each(c, NULL, on_version, &l);
	for (size_t i = 0; i < l.n; i++)
		drop(c, templates_by_id(c, l.ids[i]));
}
