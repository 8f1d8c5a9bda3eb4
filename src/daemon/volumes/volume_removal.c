/* volume_removal.c - removes volumes marked for removal in their rows, one after the other, each
 * when the last session that mounted it has ended. cordon-storage removes the files, then the row
 * is deleted. After a kill in between the next daemon finds the row and does it again. Called by
 * volume.c. */
#include <string.h>

#include "daemon/volumes/volume_state.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/str.h"

#define REMOVE_MS 600000
#define RETRY_MS 1000

static int note_first(const struct store_volume *row, void *cookie)
{
	struct store_volume *first = cookie;

	if (row->state != STORE_VOLUME_DYING)
		return 0;
	*first = *row;
	return 1;
}

static void on_removed(struct completion *done, const struct err *why)
{
	struct volume_node *n = done->arg;
	struct err e = { 0 };

	if (why != NULL)
		e = *why;
	else
		IGNORED(store_volume_delete(core_store(n->core), n->removing, &e), "logged below");
	if (e.code != ERR_NONE) {
		log_warn("a volume could not be removed; tried again", "volume=%s error=%s",
			 n->removing, e.msg);
		n->retry_ns = clock_now_ns() + RETRY_MS * CLOCK_MS;
	}
	n->removing[0] = '\0';
	volume_removal_next(n);
}

void volume_removal_next(struct volume_node *n)
{
	struct storage_volume r = { .head = { .op = STORAGE_VOLUME_REMOVE,
					      .deadline_ms = REMOVE_MS } };
	struct store_volume first = { 0 };
	struct err e;

	if (n->removing[0] != '\0' || clock_now_ns() < n->retry_ns ||
	    !storage_link_is_ready(n->storage))
		return;
	if (store_volume_each_unready(core_store(n->core), "", 0, note_first, &first, &e) < 0) {
		log_error("volumes to be removed could not be read", "error=%s", e.msg);
		n->retry_ns = clock_now_ns() + RETRY_MS * CLOCK_MS;
		return;
	}
	if (first.id[0] == '\0')
		return;
	memcpy(n->removing, first.id, sizeof(n->removing));
	str_copy(r.volume, first.id);
	r.image = first.kind == VOLUME_IMAGE;
	n->removal.done = (struct completion){ .on_done = on_removed, .arg = n };
	storage_link_ask(n->storage, &n->removal, &r, sizeof(r), NULL, 0);
}

void volume_removal_release(struct volume_node *n)
{
	storage_link_cancel(n->storage, &n->removal);
}
