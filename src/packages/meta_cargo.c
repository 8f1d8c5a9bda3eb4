/* meta_cargo.c - cargo's sparse index, an object a line. Called by package_meta.c.
 *
 * What is not understood of a line makes it invisible (it is no fact), not the document invalid:
 * indexes have lines of newer formats. */
#include <stdio.h>
#include <string.h>

#include "package_meta_private.h"
#include "package_time.h"

enum place { OTHER, ITEM };

enum {
	SEEN_NAME = 1,
	SEEN_VERSION = 2,
	SEEN_CHECKSUM = 4,
	SEEN_YANKED = 8,
	SEEN_TIME = 16,
};

static void end_item(struct package_meta *m)
{
	struct meta_item *it = &m->item;

	if (it->bad || it->version[0] == '\0') {
		meta_check(m, facts_add_order(&m->table, FACTS_NONE, &m->err));
		return;
	}
	if (facts_find_version(&m->table, it->version) != FACTS_NONE)
		doc_json_refuse(&m->json, ERR_INVALID, "the metadata has a version twice");
	if ((size_t)snprintf(it->file, sizeof(it->file), "%s-%s.crate", it->path, it->version) >=
	    sizeof(it->file))
		it->file[0] = '\0';
	meta_item_end(m, it);
	if (m->json.fault == NULL)
		meta_check(m, facts_add_order(&m->table, it->fact, &m->err));
}

static enum place on_open(struct package_meta *m)
{
	struct doc_json *j = &m->json;

	if (j->depth != 1)
		return OTHER;
	if (j->array)
		doc_json_refuse(j, ERR_INVALID, "the metadata is not an object");
	meta_item_begin(&m->item);
	return ITEM;
}

static void read_name(struct package_meta *m)
{
	struct meta_item *it = &m->item;
	char normal[PACKAGE_NAME_MAX];
	const char *text = meta_text(m, PACKAGE_NAME_MAX);

	if (text == NULL)
		return;
	if (!package_name_normal(ECO_CARGO, text, strlen(text), normal) ||
	    (m->name[0] != '\0' && strcmp(normal, m->name) != 0))
		doc_json_refuse(&m->json, ERR_INVALID, "the metadata is of another name");
	else
		meta_copy(it->path, sizeof(it->path), text);
}

static void read_version(struct package_meta *m)
{
	struct doc_json *j = &m->json;

	if (!j->odd && package_version_ok(ECO_CARGO, j->text, j->ntext))
		meta_copy(m->item.version, sizeof(m->item.version), j->text);
	else
		m->item.bad = true;
}

static void on_text(struct package_meta *m)
{
	struct doc_json *j = &m->json;
	struct meta_item *it = &m->item;

	if (doc_json_key_is(j, "name")) {
		if (meta_once(m, &it->seen, SEEN_NAME))
			read_name(m);
	} else if (doc_json_key_is(j, "vers")) {
		if (meta_once(m, &it->seen, SEEN_VERSION))
			read_version(m);
	} else if (doc_json_key_is(j, "cksum")) {
		if (meta_once(m, &it->seen, SEEN_CHECKSUM))
			(void)digest_read_hex(DIGEST_SHA256, j->text, j->ntext, &it->digest);
	} else if (doc_json_key_is(j, "pubtime")) {
		if (meta_once(m, &it->seen, SEEN_TIME) && !j->odd)
			it->has_time = package_time_read(j->text, &it->time_ms);
	}
}

void meta_cargo_on(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n)
{
	struct package_meta *m = j->arg;

	(void)n;
	if (ev == DOC_OPEN)
		j->place[j->depth] = (uint8_t)on_open(m);
	else if (ev == DOC_CLOSE && j->place[j->depth] == ITEM)
		end_item(m);
	else if (ev == DOC_STRING)
		j->want = j->place[j->depth] == ITEM;
	else if (ev == DOC_STRING_END && j->want)
		on_text(m);
	else if (ev == DOC_WORD && j->place[j->depth] == ITEM && doc_json_key_is(j, "yanked") &&
		 meta_once(m, &m->item.seen, SEEN_YANKED))
		m->item.yanked = strcmp(bytes, "true") == 0;
}
