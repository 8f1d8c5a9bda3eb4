/* root_images.c - see root_images.h. Steps: find the layer by its digest; open it, or make it and
 * write its row with a use of the template's version; end all that wait. An image whose row is
 * there but not its file is made again. */
#include "root_images.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "core_private.h"
#include "guest_layers.h"
#include "hex.h"
#include "io.h"
#include "list.h"
#include "log.h"
#include "quota.h"
#include "sha256.h"
#include "template_stack.h"
#include "templates_private.h"

#define FORMAT "root image 1\n"
#define OPEN_MAX 32 /* images that are kept open */

static void on_made(struct completion *done, const struct err *e);
static void on_opened(struct completion *done, const struct err *e);

/* ---- names */

static void name_image(const struct template_stack *stack, char ret[STORE_LAYER_DIGEST_MAX])
{
	char text[TEMPLATE_STACK_TEXT], hex[2 * SHA256_SIZE + 1];
	uint8_t sum[SHA256_SIZE];
	struct sha256 h;

	template_stack_write(stack, text);
	sha256_init(&h);
	sha256_add(&h, FORMAT, strlen(FORMAT));
	sha256_add(&h, text, strlen(text));
	if (stack->base == TEMPLATE_BASE_HOST)
		layer_origin_add_machine(&h);
	sha256_end(&h, sum);
	hex_encode(sum, sizeof(sum), hex);
	(void)snprintf(ret, STORE_LAYER_DIGEST_MAX, "root:%s", hex);
}

/* ---- ends */

static void release(struct root_image *g)
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
		release(c->root_images);
}

static void end(struct root_image *g, const struct err *e)
{
	struct err why = { 0 };

	if (e != NULL)
		why = *e;
	if (g->of != NULL)
		template_unuse(g->of);
	g->of = NULL;
	completions_end_all(&g->waiters, e == NULL ? NULL : &why);
	if (e != NULL && g->waiters.first == NULL)
		release(g);
}

static bool is_idle(const struct root_image *g)
{
	return g->fd >= 0 && g->waiters.first == NULL;
}

/* Closes images that are stale, and one that was not used for long if there are many. */
static void keep_few_open(struct core *c)
{
	struct root_image *oldest = NULL, *next;
	unsigned n = 0;

	for (struct root_image *g = c->root_images; g != NULL; g = next) {
		next = g->next; /* alone: an image that is idle has no waiter to call */
		n++;
		if (is_idle(g) && g->stale)
			release(g);
		else if (is_idle(g) && (oldest == NULL || g->used_ns < oldest->used_ns))
			oldest = g;
	}
	if (n > OPEN_MAX && oldest != NULL)
		release(oldest);
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
	if (stack->base == TEMPLATE_BASE_DIR)
		(void)snprintf(r->base, sizeof(r->base), "%s", stack->dir);
	for (uint32_t i = 1;
	     stack->base == TEMPLATE_BASE_HOST && i < c->o.host.nlayers && i < STORAGE_HOST_MAX;
	     i++) /* "/usr" without the slash */
		(void)snprintf(r->at[i], sizeof(r->at[i]), "%.15s", c->o.host.layers[i].at + 1);
	for (size_t i = 0; i < stack->nlayers; i++)
		(void)snprintf(r->from[i], sizeof(r->from[i]), "%s", stack->layers[i]);
}

static int make(struct root_image *g, const struct template_stack *stack, struct err *e)
{
	struct core *c = g->core;
	const struct tenant *t = tenant_find(c, g->tenant);
	struct quota_limits limits = { 0 };
	struct storage_root r = { 0 };
	/* The machine's own files are not bounded by the setting, but by the room on its disk. */
	uint64_t host = stack->base == TEMPLATE_BASE_HOST ? c->o.host_bytes : 0;

	if (t != NULL)
		quota_limits(c, t, &limits);
	if (layers_admit(&c->layers, &g->writing, g->tenant, limits.stored, 1 + host,
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
	end(g, good ? NULL : &why);
}

static void on_opened(struct completion *done, const struct err *e)
{
	struct root_image *g = done->arg;
	struct err why;

	if (e == NULL) {
		g->fd = g->job.fd;
		g->job.fd = -1;
		end(g, NULL);
		return;
	}
	why = *e;
	if (e->code == ERR_NOT_FOUND) /* a row without a file: made again by the next request */
		guest_layers_drop(g->core, g->layer);
	end(g, &why);
}

static struct root_image *find(const struct core *c, const char *tenant, const char *digest)
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

/* One that is open, with a use of this user: its layer may have gone with all others. */
static struct root_image *find_open(struct core *c, const struct root_image_user *u,
				    const char *digest)
{
	struct root_image *g = find(c, u->tenant, digest);
	struct err e;

	if (g == NULL || g->fd < 0 || root_image_use(g, u, &e) == 0)
		return g;
	log_info("a root image is made again", "layer=%s reason=%s", g->layer, e.msg);
	g->stale = true;
	return NULL;
}

static int start(struct root_image *g, const struct root_image_user *u,
		 const struct template_stack *stack, struct err *e)
{
	struct core *c = g->core;
	struct store_layer row;

	if (store_layer_find(c->store, g->tenant, g->digest, &row, e) < 0)
		return e->code == ERR_NOT_FOUND ? make(g, stack, e) : -1;
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

	name_image(stack, digest);
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

	end(g, NULL);
}

static struct root_image *add(struct core *c, const struct root_image_user *u,
			      const struct template_stack *stack, const char *digest)
{
	struct root_image *g = calloc(1, sizeof(*g));

	assert(g != NULL);
	*g = (struct root_image){ .core = c, .fd = -1, .job.fd = -1 };
	g->later = (struct loop_task){ .on_run = on_later, .arg = g };
	memcpy(g->digest, digest, sizeof(g->digest));
	memcpy(g->version, u->version->row.id, sizeof(g->version));
	(void)snprintf(g->session, sizeof(g->session), "%s", u->session);
	(void)snprintf(g->tenant, sizeof(g->tenant), "%s", u->tenant);
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

	name_image(stack, digest);
	g = find_open(c, u, digest);
	if (g == NULL) {
		keep_few_open(c);
		g = add(c, u, stack, digest);
		if (start(g, u, stack, &e) < 0) {
			completion_end_soon(w, c->loop, &e);
			release(g);
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
