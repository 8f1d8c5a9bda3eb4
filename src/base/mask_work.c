/* mask_work.c - a whole text in pieces: see mask.h. What was scanned is covered at once, because
 * the scan keeps what it needs of it. */
#include "mask_private.h"

#include <assert.h>

void mask_work_release(struct mask_work *w)
{
	mask_scan_free(w->scan);
	*w = (struct mask_work){ .places = w->places };
}

static void begin(const struct mask *m, struct mask_work *w)
{
	if (w->scan != NULL && w->mask == m->id)
		return;
	mask_work_release(w);
	w->scan = mask_scan_new(m);
	assert(w->scan != NULL);
	w->mask = m->id;
}

void mask_work_count(const struct mask *m, struct mask_work *w, const uint8_t *data, size_t n)
{
	begin(m, w);
	mask_scan_feed(w->scan, data, n);
	mask_scan_forget(w->scan, w->scan->at);
	w->places += w->scan->places;
	w->scan->places = 0;
}

bool mask_work_step(const struct mask *m, struct mask_work *w, uint8_t *text, size_t len, size_t n)
{
	begin(m, w);
	n = n < len - w->at ? n : len - w->at;
	mask_scan_feed(w->scan, text + w->at, n);
	w->at += n;
	if (w->at == len)
		mask_scan_end(w->scan);
	mask_scan_cover(w->scan, 0, text, w->at);
	mask_scan_forget(w->scan, w->at);
	w->places += w->scan->places;
	w->scan->places = 0;
	if (w->at < len)
		return false;
	mask_work_release(w);
	return true;
}
