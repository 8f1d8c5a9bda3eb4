/* meta_go.c - Go's answer about one version, which is {"Version":"v1.2.3","Time":"..."}. Called by
 * package_meta.c. */
#include <stdio.h>
#include <string.h>

#include "package_meta_private.h"
#include "package_time.h"

enum { SEEN_VERSION = 1, SEEN_TIME = 2 };

static void go_text(struct package_meta *m)
{
	struct doc_json *j = &m->json;
	struct meta_item *it = &m->item;

	if (doc_json_key_is(j, "Version") && meta_once(m, &it->seen, SEEN_VERSION)) {
		if (!j->odd && package_version_ok(ECO_GO, j->text, j->ntext))
			meta_copy(it->version, sizeof(it->version), j->text);
	} else if (doc_json_key_is(j, "Time") && meta_once(m, &it->seen, SEEN_TIME)) {
		it->has_time = !j->odd && package_time_read(j->text, &it->time_ms);
	}
}

static void go_end(struct package_meta *m)
{
	struct meta_item *it = &m->item;

	if (it->version[0] == '\0') {
		doc_json_refuse(&m->json, ERR_INVALID, "the metadata has no version");
		return;
	}
	(void)snprintf(it->file, sizeof(it->file), "%s.zip", it->version);
	meta_item_end(m, it);
}

void meta_go_on(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n)
{
	struct package_meta *m = j->arg;

	(void)bytes;
	(void)n;
	if (ev == DOC_OPEN && j->depth == 1 && j->array)
		doc_json_refuse(j, ERR_INVALID, "the metadata is not an object");
	else if (ev == DOC_STRING)
		j->want = j->depth == 1;
	else if (ev == DOC_STRING_END && j->want)
		go_text(m);
	else if (ev == DOC_CLOSE && j->depth == 1)
		go_end(m);
}
