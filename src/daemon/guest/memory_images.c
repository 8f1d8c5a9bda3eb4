/* memory_images.c - see memory_images.h. Steps: find the layer by its digest and load it. Or start
 * a cell, write its guest's memory, end the cell, and save the image on disk. Waiting sessions do
 * not wait for the disk. The cell has no session: if this daemon ends first, the next one ends it.
 */
#include "daemon/guest/memory_images.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "daemon/guest/root_images.h"
#include "daemon/node/core_private.h"
#include "daemon/template/layer_origin.h"
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

#define FORMAT                                                                                 \
	"memory image 2\n" /* raised when cell/engines/qemu/qemu_start.c makes another machine \
			    */
#define BOOTS_MAX 2	   /* guests started for images at a time */
#define AGAIN_NS (60ULL * 1000 * CLOCK_MS)

uint64_t memory_images_kept = 2ULL << 30;

/* ---- ends */

static void memory_image_release(struct memory_image *g)
{
	LIST_REMOVE(g);
	loop_task_cancel(g->core->loop, &g->later);
	if (g->cold != NULL)
		io_close_all(g->cold->fds, boot_fds_count(g->cold->request.fds));
	free(g->cold);
	live_guest_cancel(&g->call);
	if (g->cell != NULL)
		live_cell_abandon(g->cell);
	storage_link_cancel(&g->core->storage, &g->job);
	layers_settle(&g->core->layers, &g->writing, false);
	io_close_all(g->image, LIVE_GUEST_IMAGE);
	free(g->origin);
	free(g);
}

void memory_image_free_all(struct core *c)
{
	while (c->memory_images != NULL) {
		struct memory_image *g = c->memory_images;

		if (g->cell != NULL)
			live_cell_detach(g->cell); /* the next daemon ends it */
		g->cell = NULL;
		memory_image_release(g);
	}
}

static bool is_ready(const struct memory_image *g)
{
	return g->image[0] >= 0 && !g->loading;
}

static bool is_idle(const struct memory_image *g)
{
	return g->cell == NULL && g->cold == NULL && g->job.call == NULL &&
	       g->waiters.first == NULL;
}

/* It may be tried again. */
static bool has_failed_long_ago(const struct memory_image *g)
{
	return g->failed && clock_now_ns() > g->used_ns + AGAIN_NS;
}

static void release_stale(struct core *c)
{
	LIST_WALK_ENDING(struct memory_image, g, c->memory_images) {
		/* alone: an idle image has no waiter to call */
		if (is_idle(g) && (g->stale || has_failed_long_ago(g)))
			memory_image_release(g);
	}
}

/* Its growth since it was made, if it has more than doubled. Otherwise 0. */
static uint64_t memory_image_growth(const struct memory_image *g)
{
	return g->bytes / 2 > g->made_bytes ? g->bytes - g->made_bytes : 0;
}

/* Rather than another: it has grown more, or was used less recently. */
static bool goes_before(const struct memory_image *g, const struct memory_image *other)
{
	if (other == NULL || memory_image_growth(g) != memory_image_growth(other))
		return other == NULL || memory_image_growth(g) > memory_image_growth(other);
	return g->used_ns < other->used_ns;
}

/* The present memory of all images, and the one to close first. NULL: none can be. */
static uint64_t memory_image_measure(struct core *c, struct memory_image **ret_first)
{
	uint64_t sum = 0;

	*ret_first = NULL;
	for (struct memory_image *g = c->memory_images; g != NULL; g = g->next) {
		if (is_ready(g))
			g->bytes = memory_image_bytes(g->image);
		sum += g->bytes;
		if (is_idle(g) && goes_before(g, *ret_first))
			*ret_first = g;
	}
	return sum;
}

static void keep_few(struct core *c)
{
	struct memory_image *first;

	release_stale(c);
	while (memory_image_measure(c, &first) > memory_images_kept && first != NULL)
		memory_image_release(first);
}

void memory_images_shrink(struct core *c)
{
	struct memory_image *first;

	while (memory_image_measure(c, &first) > memory_images_kept && first != NULL &&
	       memory_image_growth(first) > 0) {
		log_info("a memory image has grown and is closed", "template=%s bytes=%llu",
			 first->version, (unsigned long long)first->bytes);
		memory_image_release(first);
	}
}

static void memory_image_end(struct memory_image *g, const struct err *e)
{
	struct err why = { 0 };

	if (e != NULL) {
		why = *e;
		g->failed = true;
		log_warn("a memory image could not be made", "template=%s error=%s", g->version,
			 why.msg);
	}
	g->used_ns = clock_now_ns();
	completions_end_all(&g->waiters, e == NULL ? NULL : &why);
}

/* ---- to disk */

/* If it fails the image is used from memory, and made again after the next start. */
static void on_saved(struct completion *done, const struct err *e)
{
	struct memory_image *g = done->arg;
	struct err why;
	const struct guest_layer l = { g->version, "", "memory", g->digest, g->origin };
	bool good = e == NULL && !g->stale &&
		    guest_layers_insert(g->core, &l, &g->writing, &g->job.reply, &why) == 0;

	if (good)
		memcpy(g->layer, g->writing.id, sizeof(g->layer));
	else
		log_warn("a memory image could not be saved", "template=%s error=%s", g->version,
			 e != NULL  ? e->msg
			 : g->stale ? "it is not good"
				    : why.msg);
	layers_settle(&g->core->layers, &g->writing, good);
}

int memory_image_save(struct core *c, const char *tenant, uint64_t bytes,
		      const int image[LIVE_GUEST_IMAGE], struct layer_writing *w,
		      struct storage_job *job, struct err *e)
{
	int copy[LIVE_GUEST_IMAGE];

	if (layers_admit(&c->layers, w, tenant, quota_stored(c, tenant_find(c, tenant)), bytes,
			 bytes, e) < 0)
		return -1;
	if (memory_image_copy(image, copy, e) < 0) {
		layers_settle(&c->layers, w, false);
		return -1;
	}
	job->tenant = w->tenant;
	storage_link_memory_save(&c->storage, job, w->id, w->bytes,
				 (unsigned)c->layers.reserve_percent, copy);
	return 0;
}

static void memory_image_keep(struct memory_image *g)
{
	struct err e;

	g->job.done = (struct completion){ .on_done = on_saved, .arg = g };
	if (memory_image_save(g->core, g->tenant, g->bytes, g->image, &g->writing, &g->job, &e) < 0)
		log_warn("a memory image could not be saved", "template=%s error=%s", g->version,
			 e.msg);
}

/* ---- from a guest */

static void boot_next(struct core *c);

static void on_cell_gone(struct live_cell *cell)
{
	struct memory_image *g = cell->owner;
	struct core *c = g->core;

	g->cell = NULL;
	release_stale(c);
	boot_next(c);
}

uint64_t memory_image_bytes(const int image[LIVE_GUEST_IMAGE])
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < LIVE_GUEST_IMAGE; i++) {
		struct stat st;

		if (fstat(image[i], &st) == 0)
			sum += (uint64_t)st.st_blocks * 512;
	}
	return sum;
}

static void on_snapshot(struct live_guest_call *k, int *image, const struct err *e)
{
	struct memory_image *g = k->arg;
	struct err why;

	if (e == NULL) {
		memcpy(g->image, image, sizeof(g->image));
		g->bytes = g->made_bytes = memory_image_bytes(image);
		memory_image_keep(g);
		log_info("memory image made", "template=%s bytes=%llu", g->version,
			 (unsigned long long)g->bytes);
	} else {
		why = *e;
	}
	if (g->cell != NULL)
		live_cell_end(g->cell);
	memory_image_end(g, e == NULL ? NULL : &why);
}

static void on_cell_up(struct live_cell *cell, const struct err *e)
{
	struct memory_image *g = cell->owner;

	if (e != NULL) {
		struct core *c = g->core;

		g->cell = NULL; /* ends by itself */
		memory_image_end(g, e);
		release_stale(c);
		boot_next(c);
		return;
	}
	g->call = (struct live_guest_call){ .on_done = on_snapshot, .arg = g };
	live_guest_snapshot(cell, true, &g->call);
}

/* on_snapshot() has come before, with the error. */
static void on_cell_dead(struct live_cell *cell)
{
	live_cell_end(cell);
}

static void on_cell_event(struct live_cell *cell, const struct agent_event *v)
{
}

static void on_cell_synced(struct live_cell *cell)
{
}

static const struct live_cell_events cell_events = { .on_up = on_cell_up,
						     .on_dead = on_cell_dead,
						     .on_gone = on_cell_gone,
						     .on_held = on_cell_event,
						     .on_failed = on_cell_event,
						     .on_synced = on_cell_synced };

static void memory_image_boot(struct memory_image *g)
{
	g->cell = live_cell_make(&g->core->cells, &g->cold->plan, g->asker, true, &cell_events, g);
	live_guest_set(g->cell, &g->cold->request, g->cold->fds);
	free(g->cold);
	g->cold = NULL;
}

/* ---- turns */

static unsigned count_boots(const struct core *c, const char *asker)
{
	unsigned n = 0;

	for (const struct memory_image *g = c->memory_images; g != NULL; g = g->next)
		n += g->cell != NULL && (asker == NULL || strcmp(g->asker, asker) == 0);
	return n;
}

/* The oldest of a tenant without one in progress. */
static struct memory_image *next_to_boot(const struct core *c)
{
	struct memory_image *oldest = NULL;

	for (struct memory_image *g = c->memory_images; g != NULL; g = g->next)
		if (g->cold != NULL && count_boots(c, g->asker) == 0)
			oldest = g;
	return oldest;
}

static void boot_next(struct core *c)
{
	struct memory_image *g;

	while (count_boots(c, NULL) < BOOTS_MAX && (g = next_to_boot(c)) != NULL)
		memory_image_boot(g);
}

void memory_image_leave(struct memory_image *g)
{
	if (g->waiters.first != NULL || is_ready(g) || (g->cell == NULL && g->cold == NULL))
		return;
	log_info("a memory image is given up", "template=%s", g->version);
	g->stale = true;
	if (g->cell == NULL) {
		memory_image_release(g);
		return;
	}
	live_guest_cancel(&g->call);
	live_cell_end(g->cell); /* on_cell_gone() releases it */
}

/* ---- from disk */

static void on_loaded(struct completion *done, const struct err *e)
{
	struct memory_image *g = done->arg;

	g->loading = false;
	if (e != NULL) {
		io_close_all(g->image, LIVE_GUEST_IMAGE);
		if (e->code == ERR_NOT_FOUND) /* a row without files: made again later */
			guest_layers_drop(g->core, g->layer);
	} else {
		g->bytes = g->made_bytes = memory_image_bytes(g->image);
	}
	memory_image_end(g, e);
}

static int memory_image_load(struct memory_image *g, struct err *e)
{
	int copy[LIVE_GUEST_IMAGE] = { -1, -1 };

	if (memory_image_make_empty(g->image, copy, e) < 0)
		return -1;
	g->loading = true;
	g->job.done = (struct completion){ .on_done = on_loaded, .arg = g };
	g->job.tenant = g->tenant;
	storage_link_memory_load(&g->core->storage, &g->job, g->layer, copy);
	return 0;
}

int memory_image_make_empty(int ret[LIVE_GUEST_IMAGE], int ret_copy[LIVE_GUEST_IMAGE],
			    struct err *e)
{
	for (unsigned i = 0; i < LIVE_GUEST_IMAGE; i++)
		ret[i] = ret_copy[i] = -1;
	for (unsigned i = 0; i < LIVE_GUEST_IMAGE; i++) {
		ret[i] = memfd_create("guest", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		ret_copy[i] = ret[i] < 0 ? -1 : fcntl(ret[i], F_DUPFD_CLOEXEC, 0);
		if (ret_copy[i] >= 0)
			continue;
		(void)err_sys(e, "memory of a guest");
		io_close_all(ret, LIVE_GUEST_IMAGE);
		io_close_all(ret_copy, LIVE_GUEST_IMAGE);
		return -1;
	}
	return 0;
}

int memory_image_copy(const int image[LIVE_GUEST_IMAGE], int ret[LIVE_GUEST_IMAGE], struct err *e)
{
	for (unsigned i = 0; i < LIVE_GUEST_IMAGE; i++)
		ret[i] = -1;
	for (unsigned i = 0; i < LIVE_GUEST_IMAGE; i++) {
		ret[i] = fcntl(image[i], F_DUPFD_CLOEXEC, 0);
		if (ret[i] >= 0)
			continue;
		(void)err_sys(e, "memory image");
		io_close_all(ret, LIVE_GUEST_IMAGE);
		return -1;
	}
	return 0;
}

/* ---- requests */

static void name_image(const struct root_image *root, uint64_t memory_bytes, uint32_t vcpus,
		       const char *guest, char ret[STORE_LAYER_DIGEST_MAX])
{
	char text[STORE_LAYER_DIGEST_MAX + 256], hex[2 * SHA256_SIZE + 1];
	uint8_t sum[SHA256_SIZE];

	(void)snprintf(text, sizeof(text), FORMAT "%s\n%llu\n%u\n%.100s\n", root->layer,
		       (unsigned long long)memory_bytes, vcpus, guest);
	sha256_of(text, strlen(text), sum);
	hex_encode(sum, sizeof(sum), hex);
	(void)snprintf(ret, STORE_LAYER_DIGEST_MAX, "memory:%s", hex);
}

static struct memory_image *memory_image_find(struct core *c, const char *digest)
{
	struct memory_image *g = c->memory_images;

	while (g != NULL && (g->stale || strcmp(g->digest, digest) != 0))
		g = g->next;
	if (g != NULL && is_idle(g) && has_failed_long_ago(g)) {
		memory_image_release(g);
		return NULL;
	}
	return g;
}

void memory_image_tried(struct core *c, const char *digest, bool good)
{
	struct memory_image *g = digest[0] == '\0' ? NULL : memory_image_find(c, digest);

	if (g == NULL || !is_ready(g))
		return;
	if (good || g->is_good) { /* another failure is the session's own */
		g->is_good = true;
		return;
	}
	log_warn("a memory image cannot be used and is made again", "template=%s layer=%s",
		 g->version, g->layer);
	g->stale = true;
	if (g->layer[0] != '\0')
		guest_layers_drop(c, g->layer);
	release_stale(c);
}

static int memory_image_start(struct memory_image *g, const struct memory_image_ask *ask,
			      struct err *e)
{
	struct store_layer row;

	if (store_layer_find(g->core->store, g->tenant, g->digest, &row, e) == 0) {
		memcpy(g->layer, row.id, sizeof(g->layer));
		return memory_image_load(g, e);
	}
	if (e->code != ERR_NOT_FOUND)
		return -1;
	g->cold = calloc(1, sizeof(*g->cold));
	assert(g->cold != NULL);
	if (ask->cold(ask->arg, g->cold, e) < 0) {
		free(g->cold);
		g->cold = NULL;
		return -1;
	}
	boot_next(g->core);
	if (g->cold != NULL)
		log_info("a memory image waits for its turn", "template=%s", g->version);
	return 0;
}

static void on_later(struct loop_task *t)
{
	struct memory_image *g = t->arg;

	memory_image_end(g, NULL);
}

static struct memory_image *memory_image_add(struct core *c, const struct memory_image_ask *ask,
					     const char *digest, struct err *e)
{
	struct memory_image *g;

	keep_few(c);
	g = calloc(1, sizeof(*g));
	assert(g != NULL);
	*g = (struct memory_image){ .core = c, .image = { -1, -1 }, .job.fd = -1 };
	g->origin = calloc(1, LAYER_ORIGIN_MAX);
	assert(g->origin != NULL);
	layer_origin_of_memory(ask->root, ask->memory_bytes, ask->vcpus, c->o.guest_origin,
			       g->origin);
	memcpy(g->digest, digest, sizeof(g->digest));
	memcpy(g->version, ask->version->row.id, sizeof(g->version));
	memcpy(g->tenant, ask->version->row.tenant, sizeof(g->tenant));
	str_copy(g->asker, ask->tenant);
	g->later = (struct loop_task){ .on_run = on_later, .arg = g };
	LIST_PUSH(&c->memory_images, g);
	if (memory_image_start(g, ask, e) == 0)
		return g;
	memory_image_release(g);
	return NULL;
}

struct memory_image *memory_image_at_hand(struct core *c, const struct memory_image_ask *ask)
{
	char digest[STORE_LAYER_DIGEST_MAX];
	struct memory_image *g;

	name_image(ask->root, ask->memory_bytes, ask->vcpus, ask->guest, digest);
	g = memory_image_find(c, digest);
	return g == NULL || !is_ready(g) ? NULL : g;
}

void memory_image_get(struct core *c, const struct memory_image_ask *ask, struct completion *w,
		      struct memory_image **ret)
{
	char digest[STORE_LAYER_DIGEST_MAX];
	struct memory_image *g;
	struct err e;

	name_image(ask->root, ask->memory_bytes, ask->vcpus, ask->guest, digest);
	g = memory_image_find(c, digest);
	if (g == NULL)
		g = memory_image_add(c, ask, digest, &e);
	*ret = g;
	if (g == NULL) {
		completion_end_soon(w, c->loop, &e);
		return;
	}
	g->used_ns = clock_now_ns();
	if (is_ready(g)) {
		completion_begin(w, c->loop, &g->waiters); /* which keeps it in memory */
		loop_defer(c->loop, &g->later);
	} else if (g->failed) {
		(void)err_set(&e, ERR_CONFLICT, "the template's memory image could not be made");
		completion_end_soon(w, c->loop, &e);
	} else {
		completion_begin(w, c->loop, &g->waiters);
	}
}
