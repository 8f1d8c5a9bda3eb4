/* guest_layers.c - see guest_layers.h. The uses of a version are in the order: root images, then
 * memory images, the newest of each first. */
#include "guest_layers.h"

#include <stdio.h>
#include <string.h>

#include "core_private.h"
#include "log.h"
#include "templates_private.h"

#define ROOTS_MAX 4    /* of one version: the host template has another after each upgrade */
#define MEMORIES_MAX 8 /* one for each size */
#define USED_MAX (ROOTS_MAX + MEMORIES_MAX)

/* What a version uses, while it is changed. */
struct uses {
	char old[USED_MAX][STORE_ID_MAX];
	size_t nold;
	char roots[ROOTS_MAX][STORE_ID_MAX], memories[MEMORIES_MAX][STORE_ID_MAX];
	size_t nroots, nmemories;
};

static int read_old(struct core *c, const char *version, struct uses *u, struct err *e)
{
	int n = store_layer_used(c->store, STORE_LAYER_GUEST_OF_TEMPLATE, version, u->old, USED_MAX,
				 e);

	if (n < 0)
		return -1;
	u->nold = (size_t)n < USED_MAX ? (size_t)n : USED_MAX;
	return 0;
}

static void put(struct uses *u, const struct store_layer *row)
{
	bool is_root = strcmp(row->kind, ROOT_IMAGE_KIND) == 0;

	if (is_root && u->nroots < ROOTS_MAX)
		memcpy(u->roots[u->nroots++], row->id, sizeof(row->id));
	else if (!is_root && u->nmemories < MEMORIES_MAX)
		memcpy(u->memories[u->nmemories++], row->id, sizeof(row->id));
}

/* Those that are used now, without one. */
static int put_old(struct core *c, struct uses *u, const char *without, struct err *e)
{
	for (size_t i = 0; i < u->nold; i++) {
		struct store_layer row;

		if (strcmp(u->old[i], without) == 0)
			continue;
		if (store_layer_get(c->store, u->old[i], &row, e) < 0)
			return -1;
		put(u, &row);
	}
	return 0;
}

static int write_uses(struct core *c, const char *version, const struct uses *u, struct err *e)
{
	char all[USED_MAX][STORE_ID_MAX];

	memcpy(all, u->roots, u->nroots * sizeof(all[0]));
	memcpy(all + u->nroots, u->memories, u->nmemories * sizeof(all[0]));
	return store_layer_use(c->store, STORE_LAYER_GUEST_OF_TEMPLATE, version,
			       (const char(*)[STORE_ID_MAX])all, u->nroots + u->nmemories, e);
}

static bool has(const struct uses *u, const char *layer)
{
	for (size_t i = 0; i < u->nold; i++)
		if (strcmp(u->old[i], layer) == 0)
			return true;
	return false;
}

int guest_layers_add(struct core *c, const char *version, const struct store_layer *row,
		     struct err *e)
{
	struct uses u = { 0 };

	if (templates_by_id(c, version) == NULL)
		return err_set(e, ERR_NOT_FOUND, "the template was removed");
	if (read_old(c, version, &u, e) < 0)
		return -1;
	if (has(&u, row->id))
		return 0;
	put(&u, row);
	if (put_old(c, &u, row->id, e) < 0)
		return -1;
	return write_uses(c, version, &u, e);
}

int guest_layers_add_session(struct core *c, const char *session, const char *layer, struct err *e)
{
	char one[1][STORE_ID_MAX];

	(void)snprintf(one[0], sizeof(one[0]), "%s", layer);
	return store_layer_use(c->store, STORE_LAYER_GUEST_OF_SESSION, session,
			       (const char(*)[STORE_ID_MAX])one, 1, e);
}

static int add(struct core *c, const struct guest_layer *l, const struct store_layer *row,
	       struct err *e)
{
	return l->session[0] != '\0' ? guest_layers_add_session(c, l->session, row->id, e)
				     : guest_layers_add(c, l->version, row, e);
}

int guest_layers_insert(struct core *c, const struct guest_layer *l, const struct layer_writing *w,
			const struct storage_reply *made, struct err *e)
{
	struct store_layer row = { .bytes = made->bytes,
				   .entries = made->entries,
				   .created_ms = core_now_ms(),
				   .origin = l->origin };

	(void)snprintf(row.kind, sizeof(row.kind), "%s", l->kind);
	(void)snprintf(row.digest, sizeof(row.digest), "%s", l->digest);
	memcpy(row.id, w->id, sizeof(row.id));
	memcpy(row.tenant, w->tenant, sizeof(row.tenant));
	if (store_begin(c->store, e) == 0 && store_layer_insert(c->store, &row, e) == 0 &&
	    add(c, l, &row, e) == 0 && store_commit(c->store, e) == 0)
		return 0;
	store_rollback(c->store);
	return -1;
}

static int drop(struct core *c, const char *version, const char *layer, struct err *e)
{
	struct uses u = { 0 };

	if (read_old(c, version, &u, e) < 0)
		return -1;
	if (!has(&u, layer))
		return 0;
	return put_old(c, &u, layer, e) < 0 ? -1 : write_uses(c, version, &u, e);
}

void guest_layers_drop(struct core *c, const char *layer)
{
	struct err e;

	for (const struct template_version *v = c->templates; v != NULL; v = v->next)
		if (drop(c, v->row.id, layer, &e) < 0)
			log_warn("an image stays in use", "layer=%s error=%s", layer, e.msg);
	layers_collect(&c->layers, false, NULL);
}
