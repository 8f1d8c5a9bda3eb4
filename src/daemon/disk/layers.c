/* layers.c - see layers.h. */
#include "daemon/disk/layers.h"

#include <string.h>
#include <sys/statfs.h>

#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/base/log.h"
#include "lib/base/rand.h"
#include "lib/base/str.h"

#define LEAST 65536	   /* bytes of any layer: its directories */
#define LEAST_ENTRIES 1024 /* files, for a layer to be begun */

void layers_init(struct layers *l, struct loop *loop, struct store *store)
{
	memset(l, 0, sizeof(*l));
	l->loop = loop;
	l->store = store;
	l->state_fd = -1;
	layers_gc_init(l);
}

void layers_release(struct layers *l)
{
	layers_gc_release(l);
	while (l->writing != NULL)
		LIST_REMOVE(l->writing);
}

static uint64_t room_of(uint64_t size, uint64_t left, uint64_t percent)
{
	uint64_t reserve = size / 100 * percent;

	if (size == 0)
		return UINT64_MAX; /* not known */
	return left > reserve ? left - reserve : 0;
}

uint64_t layers_tenant_share(const struct layers *l)
{
	if (l->link == NULL || l->link->disk_bytes == 0)
		return UINT64_MAX;
	return l->link->disk_bytes / 200 * (100 - l->reserve_percent);
}

/* The numbers of cordon-storage are as old as its last answer. The state folder, usually on the
 * same disk, is asked now. */
uint64_t layers_room(const struct layers *l)
{
	uint64_t room = UINT64_MAX, far;
	struct statfs fs;

	if (l->state_fd >= 0 && fstatfs(l->state_fd, &fs) == 0)
		room = room_of((uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize,
			       (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize, l->reserve_percent);
	if (l->link == NULL)
		return room;
	far = room_of(l->link->disk_bytes, l->link->disk_free, l->reserve_percent);
	return far < room ? far : room;
}

uint64_t layers_files_room(const struct layers *l)
{
	uint64_t room = UINT64_MAX, far;
	struct statfs fs;

	if (l->state_fd >= 0 && fstatfs(l->state_fd, &fs) == 0)
		room = room_of((uint64_t)fs.f_files, (uint64_t)fs.f_ffree, l->reserve_percent);
	if (l->link == NULL)
		return room;
	far = room_of(l->link->disk_files, l->link->disk_files_free, l->reserve_percent);
	return far < room ? far : room;
}

static int no_room(const struct layers *l, uint64_t room, uint64_t bytes, struct err *e)
{
	/* The next request knows removals made without cordon-storage. */
	if (l->link != NULL)
		storage_link_look(l->link);
	if (room >= bytes)
		return err_set_reason(e, REASON_STORAGE_FULL,
				      "the file system of the storage folder can hold few more "
				      "files above its reserve (storage_reserve)");
	return err_set_reason(
		e, REASON_STORAGE_FULL,
		"the disk of the storage folder has room for %llu MiB above its reserve "
		"(storage_reserve), and %llu MiB are needed",
		(unsigned long long)(room >> 20),
		(unsigned long long)((bytes + (1 << 20) - 1) >> 20));
}

int layers_check_reserve(const struct layers *l, uint64_t bytes, struct err *e)
{
	uint64_t room = layers_room(l);

	if (room >= bytes && layers_files_room(l) >= LEAST_ENTRIES)
		return 0;
	return no_room(l, room, bytes, e);
}

static uint64_t being_written(const struct layers *l, const char *tenant)
{
	uint64_t sum = 0;

	for (const struct layer_writing *w = l->writing; w != NULL; w = w->next)
		if (tenant == NULL || strcmp(w->tenant, tenant) == 0)
			sum += w->bytes;
	return sum;
}

uint64_t layers_paid(const struct layers *l, const char *payer)
{
	uint64_t sum = 0;

	for (const struct layer_writing *w = l->writing; w != NULL; w = w->next)
		if (strcmp(w->payer, payer) == 0)
			sum += w->paid;
	return sum;
}

int layers_used(struct layers *l, const char *tenant, uint64_t *ret_bytes, uint64_t *ret_layers,
		struct err *e)
{
	if (store_layer_sum(l->store, tenant, ret_bytes, ret_layers, e) < 0)
		return -1;
	*ret_bytes += being_written(l, tenant);
	return 0;
}

static uint64_t least_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void layers_unhold(struct layers *l, const char *layer)
{
	struct err e;

	if (store_layer_unuse(l->store, STORE_LAYER_HELD, layer, &e) < 0)
		log_warn("a layer stays held until the next start", "layer=%s error=%s", layer,
			 e.msg);
}

void layers_let_go(struct layers *l, const char *layer)
{
	layers_unhold(l, layer);
	layers_collect(l, false, NULL);
}

uint64_t layers_give_up(struct layers *l, const char *tenant, uint64_t bytes)
{
	uint64_t freed = l->give_up == NULL ? 0 : l->give_up(l->give_up_arg, tenant, bytes);

	if (freed > 0)
		layers_collect(l, false, NULL);
	return freed;
}

/* Bytes that a tenant uses. If too much, layers it can do without go, and do not count. */
static int make_quota_room(struct layers *l, const char *tenant, uint64_t max, uint64_t least,
			   uint64_t *ret_used, struct err *e)
{
	uint64_t n, freed;

	if (layers_used(l, tenant, ret_used, &n, e) < 0)
		return -1;
	if (max == 0 || *ret_used + least <= max)
		return 0;
	freed = layers_give_up(l, tenant, *ret_used + least - max);
	*ret_used -= freed < *ret_used ? freed : *ret_used;
	return 0;
}

/* Half of the free bytes, or the needed ones. */
static uint64_t share_of(uint64_t room, uint64_t least)
{
	return room / 2 > least ? room / 2 : least_of(room, least);
}

int layers_admit(struct layers *l, struct layer_writing *w, const char *tenant, uint64_t max,
		 uint64_t least, uint64_t most, struct err *e)
{
	uint64_t used, others, left, room, wanted;

	if (l->link == NULL)
		return err_set_reason(e, REASON_UNAVAILABLE, "this server has no storage folder");
	others = being_written(l, NULL);
	if (least < LEAST)
		least = LEAST;
	/* How much it will be is known at its end only: layers the tenant can do without make room
	 * for its largest size, up to half of the quota. */
	wanted = least_of(most, max / 2);
	if (make_quota_room(l, tenant, max, wanted > least ? wanted : least, &used, e) < 0 ||
	    layers_check_reserve(l, least + others, e) < 0)
		return -1;
	room = layers_room(l); /* may be less than a moment ago */
	room = room > others + least ? room - others : least;
	left = max == 0 ? UINT64_MAX : max > used ? max - used : 0;
	if (left < least)
		return err_set_reason(e, REASON_QUOTA_STORED,
				      "a tenant may store %llu bytes (tenant_max_stored): %llu are "
				      "used, and %llu more are needed",
				      (unsigned long long)max, (unsigned long long)used,
				      (unsigned long long)least);
	w->quota_left = left;
	w->payer[0] = '\0';
	w->paid = 0;
	rand_id("lay_", w->id, sizeof(w->id));
	str_copy(w->tenant, tenant);
	most = most > least ? most : least;
	w->bytes = least_of(most, least_of(left, share_of(room, least)));
	w->entries = least_of(left / LAYERS_ENTRY_BYTES + LEAST_ENTRIES,
			      share_of(layers_files_room(l), LEAST_ENTRIES));
	w->short_of = w->bytes == most	 ? REASON_NONE
		      : w->bytes == left ? REASON_QUOTA_STORED
					 : REASON_STORAGE_FULL;
	LIST_PUSH(&l->writing, w);
	return 0;
}

struct store_layer layers_row(const struct layer_writing *w, const struct storage_reply *made,
			      const char *kind)
{
	struct store_layer row = { .bytes = made->bytes,
				   .entries = made->entries,
				   .created_ms = clock_wall_ms(),
				   .state = STORE_LAYER_READY };

	str_copy(row.id, w->id);
	str_copy(row.tenant, w->tenant);
	str_copy(row.kind, kind);
	return row;
}

void layers_settle(struct layers *l, struct layer_writing *w, bool kept)
{
	if (w->link == NULL)
		return;
	LIST_REMOVE(w);
	w->link = NULL;
	if (!kept)
		layers_give_it_up(l, w->id);
}
