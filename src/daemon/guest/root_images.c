/* root_images.c - see root_images.h. Steps: find the layer by its digest. Open it, or make it and
 * write its row with a use of the template's version. End all that wait. An image with a row but no
 * file is made again. */
#include "daemon/guest/root_images.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/node/core.h"
#include "daemon/node/core_private.h"
#include "daemon/template/template_stack.h"
#include "daemon/template/templates.h"
#include "daemon/template/templates_private.h"
#include "daemon/tenant/quota.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/clock.h"
#include "lib/base/hex.h"
#include "lib/base/io.h"
#include "lib/base/list.h"
#include "lib/base/log.h"
#include "lib/base/sha256.h"
#include "lib/base/str.h"

#define ROOTS_MAX 4    /* of one version: the host template has another after each upgrade */
#define MEMORIES_MAX 8 /* one for each size */
#define USED_MAX (ROOTS_MAX + MEMORIES_MAX)

/* The layers of a version during a change. */
struct root_images_uses {
	char old[USED_MAX][STORE_ID_MAX];
	size_t nold;
	char roots[ROOTS_MAX][STORE_ID_MAX], memories[MEMORIES_MAX][STORE_ID_MAX];
	size_t nroots, nmemories;
};

static int read_old(struct core *c, const char *version, struct root_images_uses *u, struct err *e)
{
	int n = store_layer_used(c->store, STORE_LAYER_GUEST_OF_TEMPLATE, version, u->old, USED_MAX,
				 e);

	if (n < 0)
		return -1;
	u->nold = (size_t)n < USED_MAX ? (size_t)n : USED_MAX;
	return 0;
}

static void root_image_put(struct root_images_uses *u, const struct store_layer *row)
{
	bool is_root = strcmp(row->kind, ROOT_IMAGE_KIND) == 0;

	if (is_root && u->nroots < ROOTS_MAX)
		memcpy(u->roots[u->nroots++], row->id, sizeof(row->id));
	else if (!is_root && u->nmemories < MEMORIES_MAX)
		memcpy(u->memories[u->nmemories++], row->id, sizeof(row->id));
}

/* The present uses, without one. */
static int put_old(struct core *c, struct root_images_uses *u, const char *without, struct err *e)
{
	for (size_t i = 0; i < u->nold; i++) {
		struct store_layer row;

		if (strcmp(u->old[i], without) == 0)
			continue;
		if (store_layer_get(c->store, u->old[i], &row, e) < 0)
			return -1;
		root_image_put(u, &row);
	}
	return 0;
}

static int write_uses(struct core *c, const char *version, const struct root_images_uses *u,
		      struct err *e)
{
	char all[USED_MAX][STORE_ID_MAX];

	memcpy(all, u->roots, u->nroots * sizeof(all[0]));
	memcpy(all + u->nroots, u->memories, u->nmemories * sizeof(all[0]));
	return store_layer_use(c->store, STORE_LAYER_GUEST_OF_TEMPLATE, version,
			       (const char(*)[STORE_ID_MAX])all, u->nroots + u->nmemories, e);
}

static bool root_image_has(const struct root_images_uses *u, const char *layer)
{
	for (size_t i = 0; i < u->nold; i++)
		if (strcmp(u->old[i], layer) == 0)
			return true;
	return false;
}

int guest_layers_add(struct core *c, const char *version, const struct store_layer *row,
		     struct err *e)
{
	struct root_images_uses u = { 0 };

	if (templates_by_id(c, version) == NULL)
		return err_set(e, ERR_NOT_FOUND, "the template was removed");
	if (read_old(c, version, &u, e) < 0)
		return -1;
	if (root_image_has(&u, row->id))
		return 0;
	root_image_put(&u, row);
	if (put_old(c, &u, row->id, e) < 0)
		return -1;
	return write_uses(c, version, &u, e);
}

int guest_layers_add_session(struct core *c, const char *session, const char *layer, struct err *e)
{
	char one[1][STORE_ID_MAX];

	str_copy(one[0], layer);
	return store_layer_use(c->store, STORE_LAYER_GUEST_OF_SESSION, session,
			       (const char(*)[STORE_ID_MAX])one, 1, e);
}

static int guest_layers_add_use(struct core *c, const struct guest_layer *l,
				const struct store_layer *row, struct err *e)
{
	return l->session[0] != '\0' ? guest_layers_add_session(c, l->session, row->id, e)
				     : guest_layers_add(c, l->version, row, e);
}

int guest_layers_insert(struct core *c, const struct guest_layer *l, const struct layer_writing *w,
			const struct storage_reply *made, struct err *e)
{
	struct store_layer row = layers_row(w, made, l->kind);

	str_copy(row.digest, l->digest);
	row.origin = l->origin;
	if (store_begin(c->store, e) == 0 && store_layer_insert(c->store, &row, e) == 0 &&
	    guest_layers_add_use(c, l, &row, e) == 0 && store_commit(c->store, e) == 0)
		return 0;
	store_rollback(c->store);
	return -1;
}

static int root_image_drop(struct core *c, const char *version, const char *layer, struct err *e)
{
	struct root_images_uses u = { 0 };

	if (read_old(c, version, &u, e) < 0)
		return -1;
	if (!root_image_has(&u, layer))
		return 0;
	return put_old(c, &u, layer, e) < 0 ? -1 : write_uses(c, version, &u, e);
}

void guest_layers_drop(struct core *c, const char *layer)
{
	struct err e;

	for (const struct template_version *v = c->templates; v != NULL; v = v->next)
		if (root_image_drop(c, v->row.id, layer, &e) < 0)
			log_warn("an image stays in use", "layer=%s error=%s", layer, e.msg);
	layers_collect(&c->layers, false, NULL);
}

#define FORMAT "root image 1\n"
#define OPEN_MAX 32 /* images kept open */

static void on_made(struct completion *done, const struct err *e);
static void on_opened(struct completion *done, const struct err *e);

/* ---- names */

/* An image above the host template has the machine's files at one moment: its name has the root
 * directory for cordon-storage, and the times in /usr. */
static void name_image(const struct core *c, const struct template_stack *stack,
		       char ret[STORE_LAYER_DIGEST_MAX])
{
	char text[TEMPLATE_STACK_TEXT], hex[2 * SHA256_SIZE + 1];
	uint8_t sum[SHA256_SIZE];
	struct sha256 h;

	template_stack_write(stack, text);
	sha256_init(&h);
	sha256_add(&h, FORMAT, strlen(FORMAT));
	sha256_add(&h, text, strlen(text));
	if (stack->base == TEMPLATE_BASE_HOST) {
		sha256_add(&h, c->o.host.name, strlen(c->o.host.name));
		layer_origin_add_machine(&h);
	}
	sha256_end(&h, sum);
	hex_encode(sum, sizeof(sum), hex);
	(void)snprintf(ret, STORE_LAYER_DIGEST_MAX, "root:%s", hex);
}

/* ---- ends */

static void root_image_release(struct root_image *g)
{
	LIST_REMOVE(g);
	loop_task_cancel(g->core->loop, &g->later);
	storage_link_cancel(&g->core->storage, &g->job);
	layers_settle(&g->core->layers, &g->writing, false);
	if (g->of != NULL)
		template_unuse(g->of);
	io_close_all(&g->fd, 1);
	free(g);
}

void root_image_free_all(struct core *c)
{
	while (c->root_images != NULL)
		root_image_release(c->root_images);
}

static void root_image_end(struct root_image *g, const struct err *e)
{
	struct err why = { 0 };

	if (e != NULL)
		why = *e;
	if (g->of != NULL)
		template_unuse(g->of);
	g->of = NULL;
	completions_end_all(&g->waiters, e == NULL ? NULL : &why);
	if (e != NULL && g->waiters.first == NULL)
		root_image_release(g);
}

static bool is_idle(const struct root_image *g)
{
	return g->fd >= 0 && g->waiters.first == NULL;
}

/* Close stale images, and one long unused image if there are many. */
static void keep_few_open(struct core *c)
{
	struct root_image *oldest = NULL;
	unsigned n = 0;

	LIST_WALK_ENDING(struct root_image, g, c->root_images) {
		n++;
		/* alone: an idle image has no waiter to call */
		if (is_idle(g) && g->stale)
			root_image_release(g);
		else if (is_idle(g) && (oldest == NULL || g->used_ns < oldest->used_ns))
			oldest = g;
	}
	if (n > OPEN_MAX && oldest != NULL)
		root_image_release(oldest);
}

/* ---- making */

static void fill_request(const struct root_image *g, const struct template_stack *stack,
			 struct storage_root *r)
{
	static const uint32_t below[] = { [TEMPLATE_BASE_HOST] = STORAGE_FOLD_HOST,
					  [TEMPLATE_BASE_DIR] = STORAGE_FOLD_DIR,
					  [TEMPLATE_BASE_NONE] = STORAGE_FOLD_BOTTOM };
	const struct core *c = g->core;

	r->flags = below[stack->base];
	r->nfrom = (uint32_t)stack->nlayers;
	r->reserve_percent = (uint32_t)c->layers.reserve_percent;
	r->bytes_max = g->writing.bytes;
	memcpy(r->layer, g->writing.id, sizeof(g->writing.id));
	str_copy(r->base, template_stack_base(c, stack));
	for (uint32_t i = 1;
	     stack->base == TEMPLATE_BASE_HOST && i < c->o.host.nlayers && i < STORAGE_HOST_MAX;
	     i++) /* "/usr" without the slash */
		(void)snprintf(r->at[i], sizeof(r->at[i]), "%.15s", c->o.host.layers[i].at + 1);
	for (size_t i = 0; i < stack->nlayers; i++)
		str_copy(r->from[i], stack->layers[i]);
}

static int root_image_make(struct root_image *g, const struct template_stack *stack, struct err *e)
{
	struct core *c = g->core;
	struct storage_root r = { 0 };
	/* The machine's own files are not bounded by the setting, but by the room on its disk. */
	uint64_t host = stack->base == TEMPLATE_BASE_HOST ? c->o.host.bytes : 0;

	if (layers_admit(&c->layers, &g->writing, g->tenant,
			 quota_stored(c, tenant_find(c, g->tenant)), 1 + host,
			 c->o.config->guest_root_max + host, e) < 0)
		return host == 0 ? -1
				 : err_wrap(e,
					    "the files of this machine, which are the template "
					    "host, have %llu MiB at level microvm; another "
					    "template may have less",
					    (unsigned long long)(host >> 20));
	fill_request(g, stack, &r);
	g->job.done = (struct completion){ .on_done = on_made, .arg = g };
	g->job.tenant = g->tenant;
	storage_link_root_make(&c->storage, &g->job, &r);
	return 0;
}

static void on_made(struct completion *done, const struct err *e)
{
	struct root_image *g = done->arg;
	struct err why;
	const struct guest_layer l = { g->version, g->session, ROOT_IMAGE_KIND, g->digest,
				       g->origin };
	bool good = e == NULL &&
		    guest_layers_insert(g->core, &l, &g->writing, &g->job.reply, &why) == 0;

	if (good) {
		memcpy(g->layer, g->writing.id, sizeof(g->layer));
		g->fd = g->job.fd;
		log_info("root image made", "layer=%s template=%s bytes=%llu", g->layer,
			 g->of->row.name, (unsigned long long)g->job.reply.bytes);
	} else if (e == NULL) {
		fd_close(g->job.fd);
	}
	g->job.fd = -1;
	layers_settle(&g->core->layers, &g->writing, good);
	if (!good && e != NULL)
		why = *e;
	if (!good)
		(void)err_wrap(&why, "the root image of template %.60s",
			       g->of == NULL ? "" : g->of->row.name);
	root_image_end(g, good ? NULL : &why);
}

static void on_opened(struct completion *done, const struct err *e)
{
	struct root_image *g = done->arg;
	struct err why;

	if (e == NULL) {
		g->fd = g->job.fd;
		g->job.fd = -1;
		root_image_end(g, NULL);
		return;
	}
	why = *e;
	if (e->code == ERR_NOT_FOUND) /* a row without a file: made again by the next request */
		guest_layers_drop(g->core, g->layer);
	root_image_end(g, &why);
}

static struct root_image *root_image_find(const struct core *c, const char *tenant,
					  const char *digest)
{
	for (struct root_image *g = c->root_images; g != NULL; g = g->next)
		if (!g->stale && strcmp(g->digest, digest) == 0 && strcmp(g->tenant, tenant) == 0)
			return g;
	return NULL;
}

static int add_use(struct root_image *g, const struct root_image_user *u, struct err *e)
{
	struct store_layer row = { .kind = ROOT_IMAGE_KIND };

	memcpy(row.id, g->layer, sizeof(row.id));
	return u->session[0] != '\0' ? guest_layers_add_session(g->core, u->session, row.id, e)
				     : guest_layers_add(g->core, u->version->row.id, &row, e);
}

int root_image_use(struct root_image *g, const struct root_image_user *u, struct err *e)
{
	if (add_use(g, u, e) == 0)
		return 0;
	if (e->code == ERR_CONFLICT) /* its layer goes */
		g->stale = true;
	return -1;
}

/* An open image, with a use of this user: its layer may have gone with all others. */
static struct root_image *find_open(struct core *c, const struct root_image_user *u,
				    const char *digest)
{
	struct root_image *g = root_image_find(c, u->tenant, digest);
	struct err e;

	if (g == NULL || g->fd < 0 || root_image_use(g, u, &e) == 0)
		return g;
	log_info("a root image is made again", "layer=%s reason=%s", g->layer, e.msg);
	g->stale = true;
	return NULL;
}

static int root_image_start(struct root_image *g, const struct root_image_user *u,
			    const struct template_stack *stack, struct err *e)
{
	struct core *c = g->core;
	struct store_layer row;

	if (store_layer_find(c->store, g->tenant, g->digest, &row, e) < 0)
		return e->code == ERR_NOT_FOUND ? root_image_make(g, stack, e) : -1;
	memcpy(g->layer, row.id, sizeof(g->layer));
	if (add_use(g, u, e) < 0)
		return -1;
	g->job.done = (struct completion){ .on_done = on_opened, .arg = g };
	g->job.tenant = g->tenant;
	storage_link_root_open(&c->storage, &g->job, g->layer);
	return 0;
}

struct root_image *root_image_at_hand(struct template_version *v,
				      const struct template_stack *stack)
{
	struct root_image_user u = { .version = v, .tenant = v->row.tenant, .session = "" };
	char digest[STORE_LAYER_DIGEST_MAX];
	struct root_image *g;

	name_image(v->core, stack, digest);
	g = find_open(v->core, &u, digest);
	return g == NULL || g->fd < 0 ? NULL : g;
}

int root_image_fd(const struct core *c, const char *layer)
{
	for (const struct root_image *g = c->root_images; g != NULL; g = g->next)
		if (!g->stale && strcmp(g->layer, layer) == 0)
			return g->fd;
	return -1;
}

static void on_later(struct loop_task *t)
{
	struct root_image *g = t->arg;

	root_image_end(g, NULL);
}

static struct root_image *root_image_add(struct core *c, const struct root_image_user *u,
					 const struct template_stack *stack, const char *digest)
{
	struct root_image *g = calloc(1, sizeof(*g));

	assert(g != NULL);
	*g = (struct root_image){ .core = c, .fd = -1, .job.fd = -1 };
	g->later = (struct loop_task){ .on_run = on_later, .arg = g };
	memcpy(g->digest, digest, sizeof(g->digest));
	memcpy(g->version, u->version->row.id, sizeof(g->version));
	str_copy(g->session, u->session);
	str_copy(g->tenant, u->tenant);
	layer_origin_of_root(u->version, stack, g->origin);
	g->of = template_use(u->version);
	LIST_PUSH(&c->root_images, g);
	return g;
}

void root_image_get(struct core *c, const struct root_image_user *u,
		    const struct template_stack *stack, struct completion *w,
		    struct root_image **ret)
{
	char digest[STORE_LAYER_DIGEST_MAX];
	struct root_image *g;
	struct err e;

	name_image(c, stack, digest);
	g = find_open(c, u, digest);
	if (g == NULL) {
		keep_few_open(c);
		g = root_image_add(c, u, stack, digest);
		if (root_image_start(g, u, stack, &e) < 0) {
			completion_end_soon(w, c->loop, &e);
			root_image_release(g);
			*ret = NULL;
			return;
		}
	}
	*ret = g;
	g->used_ns = clock_now_ns();
	completion_begin(w, c->loop, &g->waiters); /* which keeps it open */
	if (g->fd >= 0)
		loop_defer(c->loop, &g->later);
}
