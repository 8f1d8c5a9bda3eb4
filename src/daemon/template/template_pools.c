/* template_pools.c - finished cells for the sessions of each template: with the node's default
 * limits and profile, and the mounts of the template.
 *
 * The pool of the default template has pool_size cells. Other pools are empty until their first
 * use, and then follow demand as pool.c says. All together have at most pool_max. Those of the
 * operator's templates come first. In cells of a template with a start command it runs in advance
 * (pool_boot.h), in pool_started_size of them, for pool_started_keep after the last use. Cells of a
 * tenant's templates with its commands or a guest have room only where its quotas have room for as
 * many sessions: they end when sessions need it. The row of a default session is made at the first
 * use, when the keepers have reported the machine's abilities.
 *
 * There is a pool for each level used by the template's sessions: that of the template's own level,
 * and others from their first session on. Cells with a guest take memory while they wait:
 * their number is that of cells with a start command. At microvm it does not grow with demand. At
 * each such level all templates together have STARTED_GROWTH times as many, those of one tenant
 * half of that, and the operator's come first. Those at microvm are clones of the template's memory
 * image: none is made before a session has used the level, and the image is in memory. A waiting
 * clone has run one program (pool_boot.h), with the names and random numbers of its own id.
 * Its session gets that id. */
#include <assert.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cells/live_cell.h"
#include "daemon/cells/live_guest.h"
#include "daemon/cells/pool.h"
#include "daemon/guest/memory_images.h"
#include "daemon/guest/root_images.h"
#include "daemon/guest/session_guest.h"
#include "daemon/node/core.h"
#include "daemon/node/core_private.h"
#include "daemon/session/session.h"
#include "daemon/session/session_boot.h"
#include "daemon/session/session_spec.h"
#include "daemon/store/store.h"
#include "daemon/template/pool_boot.h"
#include "daemon/template/template_stack.h"
#include "daemon/template/templates.h"
#include "daemon/template/templates_private.h"
#include "daemon/tenant/quota.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/list.h"
#include "lib/base/session_id.h"

struct store_session;
struct template_version;

/* The root image in memory for such a session. NULL: it has to be made or loaded. */
static struct root_image *find_root(struct template_version *v, const struct store_session *row)
{
	struct template_stack stack;
	struct err ignored;

	if (session_spec_stack(v, row, NULL, &stack, NULL, &ignored) < 0)
		return NULL;
	return root_image_at_hand(v, &stack);
}

/* Is that the root image with which such a guest would be started now? Not if the layer is gone, or
 * the machine's programs have changed. */
static bool guest_root_is_current(struct template_version *v, const struct store_session *row,
				  const char *root)
{
	const struct root_image *now = find_root(v, row);

	return now != NULL && strcmp(now->layer, root) == 0;
}

/* The images of such a session, if none has to be made or loaded. */
static bool find_images(struct template_version *v, const struct store_session *row,
			const struct boot_request *r, struct root_image **ret_root,
			struct memory_image **ret_memory)
{
	struct memory_image_ask ask = { .memory_bytes = r->memory_bytes,
					.vcpus = r->vcpus,
					.guest = v->core->o.guest_key };

	*ret_root = find_root(v, row);
	if (*ret_root == NULL)
		return false;
	ask.root = *ret_root;
	*ret_memory = memory_image_at_hand(v->core, &ask);
	return *ret_memory != NULL;
}

/* A gVisor guest needs no images. */
static bool guest_is_at_hand(struct template_version *v, const struct store_session *row)
{
	struct memory_image *memory;
	struct boot_request r;
	struct root_image *root;

	guest_fill_request(v->core, row, row->id, &r);
	return r.engine == BOOT_GVISOR || find_images(v, row, &r, &root, &memory);
}

/* The request and its descriptors, owned by the caller, and the root image ("" at gvisor). The
 * identity is that of the cell's id, taken over by the session. */
static int guest_at_hand(struct template_version *v, const struct store_session *row,
			 const char *id, struct boot_request *ret, int *fds,
			 char ret_root[STORE_ID_MAX], struct err *e)
{
	struct memory_image *memory;
	struct root_image *root;

	guest_fill_request(v->core, row, id, ret);
	ret_root[0] = '\0';
	if (ret->engine == BOOT_GVISOR)
		return guest_fill_fds(v->core, -1, NULL, ret, fds, e);
	if (!find_images(v, row, ret, &root, &memory))
		return err_set(e, ERR_CONFLICT, "the images of the guest are not in memory");
	memcpy(ret_root, root->layer, sizeof(root->layer));
	return guest_fill_fds(v->core, root->fd, memory->image, ret, fds, e);
}

struct live_cell;
struct pool;

#define PROGRAM_MS 10000ULL
#define ANSWER_MS 30000ULL /* for PID 1, which ends the program after PROGRAM_MS */

/* The run of one program in a waiting clone. The cell's `prepared` points here until it has ended.
 */
struct pool_warm {
	struct live_program program;
	struct core *core;
	struct pool *pool;
	struct live_cell *cell;
	struct loop_timer late;
	int fds[3]; /* owned: its unread pipes */
};

static void pool_warm_unprepare(void *arg, struct live_cell *c)
{
	struct pool_warm *w = c->prepared;

	if (w == NULL)
		return;
	c->prepared = NULL;
	loop_timer_cancel(w->core->loop, &w->late);
	io_close_all(w->fds, COUNT(w->fds));
	live_cell_remove(c, &w->program);
	free(w);
}

/* e: the cell is dropped. */
static void template_pools_end(struct pool_warm *w, const struct err *e)
{
	struct live_cell *c = w->cell;
	struct pool *p = w->pool;

	pool_warm_unprepare(NULL, c);
	pool_prepared(p, c, e);
}

static void on_late(struct loop_timer *t)
{
	struct err e;

	IGNORED(err_set_reason(&e, REASON_TIMEOUT, "the guest's agent does not answer"), "logged");
	template_pools_end(t->arg, &e);
}

static void on_event(struct live_program *lp, struct live_cell *c, enum agent_type type,
		     const struct agent_event *v)
{
	struct pool_warm *w =
		(struct pool_warm *)((uintptr_t)lp - offsetof(struct pool_warm, program));

	if (type == AGENT_STARTED) {
		io_close_all(w->fds, COUNT(w->fds));
		agent_take_stdio(&c->agent, v, &w->fds[0], &w->fds[1], 2);
	} else if (type == AGENT_FAILED || type == AGENT_EXITED) {
		template_pools_end(w, NULL);
	}
}

/* A program that ends at once. on_event() waits for its end. */
static int template_pools_spawn(struct pool_warm *w, const struct level_pool *of, struct err *e)
{
	static const char program[] = "/bin/true";
	struct agent_spawn r = { .flags = AGENT_NO_STDIN,
				 .handle = w->program.handle,
				 .timeout_ms = PROGRAM_MS,
				 .nofile = of->like.limits.nofile,
				 .argc = 1,
				 .strings = program,
				 .strings_len = sizeof(program),
				 .user = session_boot_user(&of->version->row, of->like.profile),
				 .cwd = "/" };

	if (agent_send_spawn(&w->cell->agent, &r, e) < 0)
		return -1;
	live_cell_flush(w->cell);
	return 0;
}

/* For struct pool_source. arg is a struct level_pool. */
static void pool_warm_prepare(void *arg, struct pool *p, struct live_cell *c)
{
	const struct level_pool *of = arg;
	struct pool_warm *w = calloc(1, sizeof(*w));
	struct err e;

	assert(w != NULL);
	*w = (struct pool_warm){ .core = of->version->core,
				 .pool = p,
				 .cell = c,
				 .program.on_event = on_event,
				 .late = { .on_expire = on_late, .arg = w },
				 .fds = { -1, -1, -1 } };
	c->prepared = w;
	live_cell_add(c, &w->program);
	loop_timer_set(w->core->loop, &w->late, clock_now_ns() + ANSWER_MS * CLOCK_MS);
	if (template_pools_spawn(w, of, &e) < 0)
		template_pools_end(w, &e);
}

#define STARTED_GROWTH \
	4 /* times pool_started_size, when demand is high. Also of a tenant's in all */

static bool is_ready(void *arg)
{
	const struct level_pool *l = arg;
	const char *why;

	return core_ready(l->version->core, &why);
}

static bool is_vm(const struct level_pool *l)
{
	return l->like_set && cell_level_of(l->like.level)->engine == CELL_ENGINE_MICROVM;
}

static bool has_guest(const struct level_pool *l)
{
	return l->like_set && cell_level_of(l->like.level)->engine != CELL_ENGINE_NONE;
}

/* Nothing is loaded or started from the beginning for a pool. */
static bool is_vm_ready(void *arg)
{
	const struct level_pool *l = arg;

	return is_vm(l) && is_ready(arg) && guest_is_at_hand(l->version, &l->like);
}

/* Fill in the session for which the pool's cells are made. Once for each pool. */
static int template_pools_settle(struct level_pool *l, uint32_t level, struct err *e)
{
	struct session_spec spec = { .profile = -1, .level = cell_level_of(level)->name };
	struct template_version *v = l->version;
	char *texts;

	if (l->like_set)
		return 0;
	if (session_spec_check(v->core, v, &spec, &l->like, &texts, e) < 0)
		return -1;
	free(texts);
	l->like.mounts = v->row.mounts; /* the others are not read any more */
	l->like.watch_reads = NULL;
	l->like_set = true;
	return 0;
}

/* Each cell gets a new id, which becomes that of its session. */
static int template_pools_plan(void *arg, struct keeper_create *ret, struct err *e)
{
	struct level_pool *l = arg;

	if (!l->like_set)
		return err_set(e, ERR_CONFLICT, "no session of this level was made yet");
	session_id_make(l->version->core->o.config->node_name, l->like.id);
	return session_spec_plan(l->version->core, l->version, &l->like, NULL, ret, e);
}

static int plan_own(void *arg, struct keeper_create *ret, struct err *e)
{
	struct level_pool *l = arg;

	return template_pools_settle(l, l->version->row.level, e) < 0
		       ? -1
		       : template_pools_plan(arg, ret, e);
}

static int template_pools_guest(void *arg, const struct keeper_create *cell,
				struct boot_request *ret, int *ret_fds, char ret_root[CELL_ID_MAX],
				struct err *e)
{
	const struct level_pool *l = arg;

	return guest_at_hand(l->version, &l->like, cell->id, ret, ret_fds, ret_root, e);
}

static unsigned template_pools_lesser(uint64_t a, uint64_t b)
{
	return (unsigned)(a < b ? a : b);
}

/* Programs run in these cells, so there are few, and only while the template is in use. */
static void set_few(struct pool_source *src, const struct config *g, bool is_default)
{
	src->used_size = template_pools_lesser(g->pool_started_size, g->pool_max);
	src->keep_ns = g->pool_started_keep_ms * CLOCK_MS;
	src->size = is_default && g->pool_size > 0 ? src->used_size : 0;
	src->max = template_pools_lesser(STARTED_GROWTH * g->pool_started_size, g->pool_max);
}

/* Guests wait in small numbers. Clones of memory images only while the images are in memory. */
static void set_level(struct pool_source *src, const struct config *g, uint32_t level,
		      bool is_default)
{
	if (cell_level_of(level)->engine == CELL_ENGINE_NONE)
		return;
	set_few(src, g, is_default);
	src->guest = template_pools_guest;
	src->prepare = pool_warm_prepare;
	src->unprepare = pool_warm_unprepare;
	if (cell_level_of(level)->engine != CELL_ENGINE_MICROVM)
		return;
	src->size = 0;
	src->max = src->used_size;
	src->is_ready = is_vm_ready;
}

static bool is_default(const struct template_version *v)
{
	return v->row.tenant[0] == '\0' && strcmp(v->row.name, v->core->o.config->template) == 0;
}

/* Made at the first use of a level, and kept until the version is freed. */
static struct level_pool *make_pool(struct template_version *v, uint32_t level)
{
	const struct config *g = v->core->o.config;
	bool is_own = level == v->row.level;
	bool many = is_own && is_default(v);
	struct level_pool *l = calloc(1, sizeof(*l));
	struct pool_source src = { .size = many ? (unsigned)g->pool_size : 0,
				   .max = (unsigned)g->pool_max,
				   .refill_milli = g->pool_refill_milli,
				   .is_ready = is_ready,
				   .plan = is_own ? plan_own : template_pools_plan,
				   .tenant = v->row.tenant,
				   .arg = l };

	assert(l != NULL);
	l->version = v;
	if (pool_boot_is_needed(&v->row))
		set_few(&src, g, many);
	set_level(&src, g, level, many);
	if (pool_boot_is_needed(&v->row)) {
		src.prepare = pool_boot_prepare;
		src.unprepare = pool_boot_unprepare;
	}
	l->pool = pool_new(&v->core->cells, &src);
	v->pools[level] = l;
	return l;
}

void template_make_pool(struct template_version *v)
{
	if (is_default(v))
		(void)make_pool(v, v->row.level);
}

int template_plan(struct template_version *v, struct keeper_create *ret, struct err *e)
{
	struct level_pool *own = v->pools[v->row.level];
	struct store_session row;

	if (own == NULL)
		own = make_pool(v, v->row.level);
	if (template_pools_settle(own, v->row.level, e) < 0)
		return -1;
	row = own->like;
	row.level = CELL_CONTAINER;
	session_id_make(v->core->o.config->node_name, row.id);
	return session_spec_plan(v->core, v, &row, NULL, ret, e);
}

void template_pools_empty(struct core *c)
{
	/* alone: templates_collect() frees versions, which no pool calls */
	LIST_WALK(struct template_version, v, c->templates)
		for (unsigned i = 0; i < CELL_LEVELS; i++)
			if (v->pools[i] != NULL)
				pool_limit(v->pools[i]->pool, 0);
}

/* Can a session with that row use a cell of the pool? */
static bool template_pools_fits(const struct level_pool *l, const struct store_session *row)
{
	const struct store_template *t = &l->version->row;
	const struct store_session *like = &l->like;

	/* A running program cannot get them. An interpreter gets them when it is claimed. */
	if (pool_boot_is_needed(t) && !t->interpreter &&
	    (row->env_len > 0 || row->secrets[0] != '\0'))
		return false;
	return l->like_set && row->profile == like->profile && row->level == like->level &&
	       row->storage == SESSION_MEMORY && !row->read_only &&
	       strcmp(row->mounts, like->mounts) == 0 &&
	       memcmp(&row->limits, &like->limits, sizeof(row->limits)) == 0;
}

/* ---- the share of a tenant */

struct share {
	struct tenant *tenant;
	struct quota_taken taken; /* by its cells so far */
	unsigned guests[CELL_LEVELS];
};

/* Do commands of a tenant, or guests for its sessions, run in its cells, and has it been used? */
static bool is_charged(const struct level_pool *l)
{
	const struct store_template *t = &l->version->row;

	return t->tenant[0] != '\0' && l->like_set && (pool_boot_is_needed(t) || has_guest(l));
}

/* How many guests may wait at a level, for sessions of all templates. */
static unsigned guests_max(const struct level_pool *l)
{
	const struct config *g = l->version->core->o.config;

	return template_pools_lesser(STARTED_GROWTH * g->pool_started_size, UINT_MAX);
}

static unsigned template_pools_minus(unsigned a, unsigned b)
{
	return a > b ? a - b : 0;
}

/* How many cells it may have. */
static unsigned room_of(const struct share *share, const struct level_pool *l)
{
	const struct core *c = l->version->core;
	uint64_t most = STARTED_GROWTH * c->o.config->pool_started_size;

	if (share->tenant == NULL || share->taken.sessions >= most)
		return 0;
	if (has_guest(l)) /* so that no tenant has all that may wait */
		most = template_pools_lesser(
			most,
			share->taken.sessions + template_pools_minus((guests_max(l) + 1) / 2,
								     share->guests[l->like.level]));
	return template_pools_lesser(most - share->taken.sessions,
				     quota_room(c, share->tenant, &l->like.limits, &share->taken));
}

static void template_pools_charge(struct share *share, const struct level_pool *l)
{
	uint64_t n = pool_size(l->pool);

	share->taken.sessions += n;
	share->taken.memory += n * l->like.limits.memory_bytes;
	share->taken.pids += n * l->like.limits.pids;
	share->guests[l->like.level] += has_guest(l) ? (unsigned)n : 0;
	if (share->tenant != NULL)
		share->tenant->started_cells = share->taken.sessions;
}

/* The pools of all versions, in the order of the list. l NULL: the first. */
static struct level_pool *next_pool(const struct core *c, const struct level_pool *l)
{
	const struct template_version *v = l == NULL ? c->templates : l->version;

	for (bool passed = l == NULL; v != NULL; v = v->next)
		for (unsigned k = 0; k < CELL_LEVELS; k++) {
			if (passed && v->pools[k] != NULL)
				return v->pools[k];
			passed |= v->pools[k] == l;
		}
	return NULL;
}

/* NOLINTBEGIN(bugprone-macro-parentheses): l is declared by it */
#define EACH_POOL(c, l) \
	for (struct level_pool *l = next_pool(c, NULL); l != NULL; l = next_pool(c, l))
/* NOLINTEND(bugprone-macro-parentheses) */

/* A session of the tenant has got its room: ends the cells for which none is left. */
static void template_pools_yield(struct core *c, struct tenant *t)
{
	struct share share = { .tenant = t };

	if (t->started_cells == 0)
		return;
	EACH_POOL(c, l)
	if (is_charged(l) && strcmp(l->version->row.tenant, t->row.id) == 0) {
		pool_limit(l->pool, template_pools_lesser(pool_size(l->pool), room_of(&share, l)));
		template_pools_charge(&share, l);
	}
}

/* ---- for sessions */

/* If a clone's image is not the template's any more, give out neither it nor the others. */
static struct live_cell *check_clone(struct level_pool *l, struct live_cell *cell)
{
	if (cell == NULL || !is_vm(l) ||
	    guest_root_is_current(l->version, &l->like, cell->root_image))
		return cell;
	live_cell_abandon(cell);
	pool_limit(l->pool, 0);
	return NULL;
}

/* NULL: no finished cell fits, and the session's cell is made from the beginning. */
struct live_cell *templates_claim(struct session *s)
{
	struct template_version *v = s->template;
	struct level_pool *l = v->pools[s->row.level];
	struct live_cell *cell;
	struct err ignored;

	if (l == NULL)
		l = make_pool(v, s->row.level);
	IGNORED(template_pools_settle(l, s->row.level, &ignored), "then no cell of the pool fits");
	cell = check_clone(l, pool_claim(l->pool, template_pools_fits(l, &s->row)));
	template_pools_yield(s->core, s->tenant);
	return cell;
}

void templates_fill(struct core *c)
{
	EACH_POOL(c, l)
	pool_fill(l->pool);
}

/* Sizes of all pools. */
struct template_pools_sizes {
	unsigned all, operators;
	struct {
		unsigned all, operators;
	} guests[CELL_LEVELS];
};

/* Count a pool, or one less. */
static void template_pools_count(struct template_pools_sizes *n, const struct level_pool *l, int by)
{
	unsigned size = (unsigned)by * pool_size(l->pool);

	bool is_operators = l->version->row.tenant[0] == '\0';

	n->all += size;
	n->operators += is_operators ? size : 0;
	if (!has_guest(l))
		return;
	n->guests[l->like.level].all += size;
	n->guests[l->like.level].operators += is_operators ? size : 0;
}

/* Up to pool_max without the others, and for a tenant's within the room of its quotas. n: of the
 * others. */
static void template_pools_adapt(struct level_pool *l, struct share *share,
				 const struct template_pools_sizes *n)
{
	const struct template_version *v = l->version;
	const struct config *g = v->core->o.config;
	bool of_tenant = v->row.tenant[0] != '\0';
	unsigned max = (unsigned)g->pool_max;
	unsigned others = of_tenant ? n->all : n->operators;
	unsigned most = template_pools_minus(max, others), level = l->like.level;

	if (has_guest(l))
		most = template_pools_lesser(
			most, template_pools_minus(guests_max(l),
						   of_tenant ? n->guests[level].all
							     : n->guests[level].operators));
	if (is_charged(l))
		most = template_pools_lesser(most, room_of(share, l));
	if (of_tenant)
		pool_limit(l->pool, most);
	pool_adapt(l->pool, most);
	if (is_charged(l))
		template_pools_charge(share, l);
}

/* The sizes are added up once, and follow the changes: there are as many pools as used
 * templates. */
void templates_adapt(struct core *c)
{
	struct share share = { 0 };
	struct template_pools_sizes n = { 0 };

	EACH_POOL(c, l)
	template_pools_count(&n, l, 1);
	/* The list is by tenant: the operator's are first. */
	EACH_POOL(c, l)
	{
		const char *tenant = l->version->row.tenant;

		if (is_charged(l) &&
		    (share.tenant == NULL || strcmp(share.tenant->row.id, tenant) != 0))
			share = (struct share){ .tenant = tenant_find(c, tenant) };
		template_pools_count(&n, l, -1);
		template_pools_adapt(l, &share, &n);
		template_pools_count(&n, l, 1);
	}
}

void templates_close(struct core *c)
{
	/* alone: as in template_pools_empty() */
	LIST_WALK(struct template_version, v, c->templates)
		template_close_pools(v);
}

bool templates_are_idle(const struct core *c)
{
	for (const struct template_version *v = c->templates; v != NULL; v = v->next)
		if (!template_pools_are_idle(v))
			return false;
	return c->templates_adding == 0;
}
