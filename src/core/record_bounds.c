/* record_bounds.c - see record_bounds.h. */
#include "record_bounds.h"

#include "core_private.h"
#include "store_event.h"
#include "store_net.h"
#include "store_package.h"
#include "tenant.h"

#define START_EVERY RECORD_BOUNDS_PIECE

struct gone {
	struct core *core;
	enum record_kind kind;
};

/* The functions of the store for each kind. */
static const struct {
	int (*count)(struct store *s, const char *tenant, uint64_t *ret, struct err *e);
	int (*drop)(struct store *s, const char *tenant, unsigned limit, struct err *e);
	int (*prune)(struct store *s, uint64_t before_ms, unsigned limit, store_gone_fn *fn,
		     void *cookie, struct err *e);
} kinds[RECORD_KINDS] = {
	[RECORD_EVENT] = { store_event_count, store_event_drop, store_event_prune },
	[RECORD_NET] = { store_net_count_tenant, store_net_drop_tenant, store_net_prune },
	[RECORD_PACKAGE] = { store_package_count_tenant, store_package_drop_tenant,
			     store_package_prune },
};

static uint64_t node_max(const struct config *g, enum record_kind kind)
{
	return kind == RECORD_EVENT ? g->event_max : g->network_records_max;
}

static uint64_t tenant_max(const struct config *g, enum record_kind kind)
{
	return kind == RECORD_EVENT ? g->tenant_event_max : g->tenant_network_records_max;
}

void record_bounds_add(struct core *c, struct tenant *t, enum record_kind kind, int64_t n)
{
	struct record_count *k = t == NULL ? NULL : &t->kept[kind];

	if (k != NULL && k->counted) {
		uint64_t less = n < 0 ? (uint64_t)-n : 0;

		k->rows = n >= 0 ? k->rows + (uint64_t)n : k->rows > less ? k->rows - less : 0;
	}
	if (n > 0 && ++c->appended[kind] % START_EVERY == 0)
		core_job_add(c, NULL, &c->retention.job);
}

static void on_gone(const char *tenant, void *cookie)
{
	struct gone *g = cookie;

	record_bounds_add(g->core, tenant_find(g->core, tenant), g->kind, -1);
}

/* A tenant whose rows are not counted yet, or NULL. */
static struct tenant *find_uncounted(struct core *c, enum record_kind kind)
{
	struct tenant *t = c->tenants;

	while (t != NULL && t->kept[kind].counted)
		t = t->next;
	return t;
}

/* The tenant whose records are deleted next, and how many of them; NULL: none is beyond a bound. */
static struct tenant *find_beyond(struct core *c, enum record_kind kind, uint64_t *ret)
{
	const struct config *g = c->o.config;
	struct tenant *most = NULL;
	uint64_t all = 0;

	for (struct tenant *t = c->tenants; t != NULL; t = t->next) {
		uint64_t rows = t->kept[kind].rows;

		all += rows;
		if (most == NULL || rows > most->kept[kind].rows)
			most = t;
	}
	if (most == NULL)
		return NULL;
	*ret = 0;
	if (all > node_max(g, kind))
		*ret = all - node_max(g, kind);
	if (most->kept[kind].rows > tenant_max(g, kind) &&
	    most->kept[kind].rows - tenant_max(g, kind) > *ret)
		*ret = most->kept[kind].rows - tenant_max(g, kind);
	return *ret == 0 ? NULL : most;
}

static int drop(struct core *c, struct tenant *t, enum record_kind kind, uint64_t rows,
		struct err *e)
{
	unsigned limit = rows < RECORD_BOUNDS_PIECE ? (unsigned)rows : RECORD_BOUNDS_PIECE;
	int n = kinds[kind].drop(c->store, t->row.id, limit, e);

	if (n < 0)
		return -1;
	record_bounds_add(c, t, kind, -n);
	if (n == 0)
		t->kept[kind].counted = false; /* the count was wrong */
	return 1;
}

int record_bounds_piece(struct core *c, enum record_kind kind, uint64_t before_ms, struct err *e)
{
	struct gone gone = { c, kind };
	struct tenant *t = find_uncounted(c, kind);
	uint64_t rows;
	int n;

	if (t != NULL) {
		if (kinds[kind].count(c->store, t->row.id, &t->kept[kind].rows, e) < 0)
			return -1;
		t->kept[kind].counted = true;
		return 1;
	}
	n = kinds[kind].prune(c->store, before_ms, RECORD_BOUNDS_PIECE, on_gone, &gone, e);
	if (n != 0)
		return n < 0 ? -1 : 1;
	t = find_beyond(c, kind, &rows);
	return t == NULL ? 0 : drop(c, t, kind, rows, e);
}
