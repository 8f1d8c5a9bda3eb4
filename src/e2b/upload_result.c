#include "upload_result.h"

#include <string.h>

#include "entry_info.h"
#include "fnv.h"
#include "reply.h"

/* Two places with the same hash are taken for one: of 20,000 that happens by chance in one
 * of 10^11 requests, and a client that does it on purpose only has its own upload refused. */
static uint64_t hash(const char *text)
{
	return fnv_add(FNV_START, text, strlen(text));
}

static bool has(const struct upload_result *w, uint64_t h)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->hashes[i] == h)
			return true;
	return false;
}

bool upload_result_has(const struct upload_result *w, const char *place)
{
	return has(w, hash(place));
}

bool upload_result_is_twice(const struct upload_result *w)
{
	return w->twice;
}

int upload_result_add(struct upload_result *w, const char *target,
		      const struct file_msg_entry *entry, struct err *e)
{
	uint64_t asked = hash(target), place = hash(entry_info_path(entry));

	if (w->files == UPLOAD_RESULT_MAX)
		return err_set(e, ERR_LIMIT, "more than %d files in one request",
			       UPLOAD_RESULT_MAX);
	if (w->n + 2 > w->cap) {
		size_t cap = w->cap == 0 ? 16 : 2 * w->cap;
		uint64_t *more = reallocarray(w->hashes, cap, sizeof(*more));

		if (more == NULL)
			return err_sys(e, "allocate");
		w->hashes = more;
		w->cap = cap;
	}
	if (w->files == 0) {
		json_init_heap(&w->j, REPLY_JSON_MAX);
		json_open(&w->j, NULL, '[');
	}
	w->twice = w->twice || has(w, place);
	w->hashes[w->n++] = asked;
	if (place != asked)
		w->hashes[w->n++] = place;
	w->files++;
	entry_info_shape_written(&w->j, NULL, entry);
	return 0;
}

void upload_result_reply(struct upload_result *w, struct request *r)
{
	if (w->files == 0) {
		json_init_heap(&w->j, REPLY_JSON_MAX);
		json_open(&w->j, NULL, '[');
	}
	json_close(&w->j, ']');
	reply_json(r, 200, &w->j);
}

void upload_result_release(struct upload_result *w)
{
	json_release(&w->j);
	free(w->hashes);
	w->hashes = NULL;
}
