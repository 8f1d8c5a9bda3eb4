/* meta_cargo.c - cargo's sparse index, an object a line, and the web API's list of versions, which
 * has times for registries whose index has none. Also Go's answer about one version.
 *
 * What is not understood of a line makes it invisible (it is no fact), not the document invalid:
 * indexes have lines of newer formats. */
#include <stdio.h>
#include <string.h>

#include "package_meta_private.h"
#include "package_time.h"

enum place { OTHER, ROOT, LIST, ITEM };

enum {
	SEEN_NAME = 1,
	SEEN_VERSION = 2,
	SEEN_CHECKSUM = 4,
	SEEN_YANKED = 8,
	SEEN_TIME = 16,
};

struct members {
	const char *version, *checksum, *time;
};

static const struct members *members_of(const struct package_meta *m)
{
	static const struct members index = { "vers", "cksum", "pubtime" };
	static const struct members api = { "num", "checksum", "created_at" };

	return m->doc == DOC_CARGO_INDEX ? &index : &api;
}

static void end_item(struct package_meta *m)
{
	struct meta_item *it = &m->item;

	if (it->bad || it->version[0] == '\0') {
		if (m->doc == DOC_CARGO_INDEX)
			meta_check(m, facts_add_order(&m->table, FACTS_NONE, &m->err));
		return;
	}
	if (facts_find_version(&m->table, it->version) != FACTS_NONE)
		doc_json_refuse(&m->json, ERR_INVALID, "the metadata has a version twice");
	if ((size_t)snprintf(it->file, sizeof(it->file), "%s-%s.crate", it->path, it->version) >=
	    sizeof(it->file))
		it->file[0] = '\0';
	meta_item_end(m, it);
	if (m->json.fault == NULL && m->doc == DOC_CARGO_INDEX)
		meta_check(m, facts_add_order(&m->table, it->fact, &m->err));
}

static enum place on_open(struct package_meta *m)
{
	struct doc_json *j = &m->json;
	enum place in = j->place[j->depth - 1];

	if (j->depth == 1 && j->array)
		doc_json_refuse(j, ERR_INVALID, "the metadata is not an object");
	if (j->depth == 1 && m->doc == DOC_CARGO_API)
		return ROOT;
	if (in == ROOT && j->array && doc_json_key_is(j, "versions"))
		return meta_once(m, &m->seen_root, SEEN_VERSION) ? LIST : OTHER;
	if (j->depth == 1 || (in == LIST && !j->array)) {
		meta_item_begin(&m->item);
		return ITEM;
	}
	return OTHER;
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
	const struct members *names = members_of(m);
	struct meta_item *it = &m->item;

	if (doc_json_key_is(j, m->doc == DOC_CARGO_INDEX ? "name" : "crate")) {
		if (meta_once(m, &it->seen, SEEN_NAME))
			read_name(m);
	} else if (doc_json_key_is(j, names->version)) {
		if (meta_once(m, &it->seen, SEEN_VERSION))
			read_version(m);
	} else if (doc_json_key_is(j, names->checksum)) {
		if (meta_once(m, &it->seen, SEEN_CHECKSUM))
			(void)digest_read_hex(DIGEST_SHA256, j->text, j->ntext, &it->digest);
	} else if (doc_json_key_is(j, names->time)) {
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

/* ---- Go: {"Version":"v1.2.3","Time":"..."} */

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
