/* meta_npm.c - reads npm's documents: all versions of a name, full or short, or one version.
 *
 * These members are read: name, versions.V.{dist.{integrity,shasum,tarball}, scripts,
 * hasInstallScript, gypfile}, time.V, dist-tags. `time` may come before `versions`. It then makes
 * facts, to be listed only when the version itself comes. The others are removed at the end. */
#include <string.h>

#include "lib/packages/package_meta_private.h"
#include "lib/packages/package_time.h"

/* Places of doc_json.h, and bits for members seen, of the root and a version. */
enum meta_npm_place { OTHER, ROOT, VERSIONS, VERSION, DIST, SCRIPTS, TIME, TAGS };

enum { SEEN_NAME = 1, SEEN_VERSIONS = 2, SEEN_TIME = 4, SEEN_TAGS = 8 };
enum {
	SEEN_DIST = 1,
	SEEN_SCRIPTS = 2,
	SEEN_HAS_SCRIPT = 4,
	SEEN_GYP = 8,
	SEEN_INTEGRITY = 16,
	SEEN_SHASUM = 32,
	SEEN_TARBALL = 64,
};

/* ---- one version */

/* A time read before may have made the fact, which is not listed yet. */
static void begin_version(struct package_meta *m)
{
	struct doc_json *j = &m->json;
	struct meta_item *it = &m->item;

	meta_item_begin(it);
	if (j->key_odd || j->nkey >= sizeof(it->version) ||
	    !package_version_ok(ECO_NPM, j->key, j->nkey)) {
		it->bad = true; /* not in the table, so never shown */
		return;
	}
	memcpy(it->version, j->key, j->nkey + 1);
	it->fact = facts_find_version(&m->table, it->version);
	if (it->fact != FACTS_NONE && m->table.facts[it->fact].listed)
		doc_json_refuse(j, ERR_INVALID, "the metadata has a version twice");
}

/* npm's documents list scripts, so a version without them has no install code. */
static void end_version(struct package_meta *m)
{
	struct meta_item *it = &m->item;

	if (it->bad)
		return;
	meta_copy(it->file, sizeof(it->file), it->path);
	meta_item_end(m, it);
	if (m->json.fault == NULL)
		m->table.facts[it->fact].code = it->code ? INSTALL_CODE_YES : INSTALL_CODE_NO;
}

static enum meta_npm_place open_in_version(struct package_meta *m)
{
	if (doc_json_key_is(&m->json, "dist"))
		return meta_once(m, &m->item.seen, SEEN_DIST) ? DIST : OTHER;
	if (doc_json_key_is(&m->json, "scripts"))
		return meta_once(m, &m->item.seen, SEEN_SCRIPTS) ? SCRIPTS : OTHER;
	return OTHER;
}

/* A second member of one name refuses the document. */
static enum meta_npm_place open_in_root(struct package_meta *m)
{
	if (doc_json_key_is(&m->json, "versions"))
		return meta_once(m, &m->seen_root, SEEN_VERSIONS) ? VERSIONS : OTHER;
	if (doc_json_key_is(&m->json, "time"))
		return meta_once(m, &m->seen_root, SEEN_TIME) ? TIME : OTHER;
	if (doc_json_key_is(&m->json, "dist-tags"))
		return meta_once(m, &m->seen_root, SEEN_TAGS) ? TAGS : OTHER;
	return OTHER;
}

/* The place of the new container, from that of the one around it. OTHER: nothing below it is read.
 */
static enum meta_npm_place on_open(struct package_meta *m)
{
	struct doc_json *j = &m->json;

	if (j->depth == 1) {
		if (j->array)
			doc_json_refuse(j, ERR_INVALID, "the metadata is not an object");
		return ROOT;
	}
	if (j->array) {
		/* The second pass would copy the list unchanged. */
		if (j->place[j->depth - 1] == ROOT && open_in_root(m) != OTHER)
			doc_json_refuse(j, ERR_INVALID, "the metadata has a list for an object");
		return OTHER;
	}
	switch ((enum meta_npm_place)j->place[j->depth - 1]) {
	case ROOT:
		return open_in_root(m);
	case VERSIONS:
		begin_version(m);
		return VERSION;
	case VERSION:
		return open_in_version(m);
	case OTHER:
	case DIST:
	case SCRIPTS:
	case TIME:
	case TAGS:
		break;
	}
	return OTHER;
}

/* ---- members */

/* A digest in an unknown form leaves the version without one. */
static void read_dist(struct package_meta *m)
{
	struct meta_item *it = &m->item;
	const char *text;

	if (doc_json_key_is(&m->json, "integrity") && meta_once(m, &it->seen, SEEN_INTEGRITY)) {
		text = meta_text(m, META_URL_MAX);
		if (text != NULL)
			(void)digest_read_sri(text, strlen(text), &it->digest);
	} else if (doc_json_key_is(&m->json, "shasum") && meta_once(m, &it->seen, SEEN_SHASUM)) {
		text = meta_text(m, META_URL_MAX);
		if (text != NULL)
			(void)digest_read_hex(DIGEST_SHA1, text, strlen(text), &it->weak);
	} else if (doc_json_key_is(&m->json, "tarball") && meta_once(m, &it->seen, SEEN_TARBALL)) {
		text = meta_text(m, META_URL_MAX);
		if (text != NULL)
			meta_item_url(m, it, text);
	}
}

/* Times of versions, and of the document itself ("modified", "created"). */
static void read_time(struct package_meta *m)
{
	struct doc_json *j = &m->json;
	uint64_t ms;
	uint32_t fact;

	if (j->key_odd || j->nkey >= PACKAGE_VERSION_MAX || j->odd ||
	    !package_time_read(j->text, &ms))
		return;
	if (doc_json_key_is(j, "modified") && j->ntext < sizeof(m->modified))
		memcpy(m->modified, j->text, j->ntext + 1);
	if (!package_version_ok(ECO_NPM, j->key, j->nkey) || doc_json_key_is(j, "modified") ||
	    doc_json_key_is(j, "created"))
		return;
	fact = facts_find_version(&m->table, j->key);
	if (fact == FACTS_NONE && (facts_add(&m->table, &fact, &m->err) < 0 ||
				   facts_set_version(&m->table, fact, j->key, &m->err) < 0)) {
		meta_check(m, -1);
		return;
	}
	if (m->table.facts[fact].timed)
		doc_json_refuse(j, ERR_INVALID, "the metadata has the time of a version twice");
	m->table.facts[fact].timed = m->table.facts[fact].has_time = true;
	m->table.facts[fact].time_ms = ms;
}

/* Tags with texts that are too long lead nowhere, and are left out. */
static void read_tag(struct package_meta *m)
{
	struct doc_json *j = &m->json;

	if (!j->key_odd && j->nkey < PACKAGE_VERSION_MAX && !j->odd &&
	    j->ntext < PACKAGE_VERSION_MAX)
		meta_check(m, facts_add_tag(&m->table, j->key, j->text, &m->err));
}

/* A document for another name would give its facts to this one. */
static void read_name(struct package_meta *m)
{
	const char *text;

	if (!meta_once(m, &m->seen_root, SEEN_NAME))
		return;
	text = meta_text(m, PACKAGE_NAME_MAX);
	if (text != NULL && m->name[0] != '\0' && strcmp(text, m->name) != 0)
		doc_json_refuse(&m->json, ERR_INVALID, "the metadata is of another name");
}

static void on_text(struct package_meta *m)
{
	switch ((enum meta_npm_place)m->json.place[m->json.depth]) {
	case ROOT:
		if (doc_json_key_is(&m->json, "name"))
			read_name(m);
		break;
	case DIST:
		read_dist(m);
		break;
	case TIME:
		read_time(m);
		break;
	case TAGS:
		read_tag(m);
		break;
	case OTHER:
	case VERSION:
	case VERSIONS:
	case SCRIPTS:
		break;
	}
}

/* Either member makes the version one with install code. */
static void on_word(struct package_meta *m, const char *word)
{
	struct meta_item *it = &m->item;

	if (m->json.place[m->json.depth] != VERSION)
		return;
	if ((doc_json_key_is(&m->json, "hasInstallScript") &&
	     meta_once(m, &it->seen, SEEN_HAS_SCRIPT)) ||
	    (doc_json_key_is(&m->json, "gypfile") && meta_once(m, &it->seen, SEEN_GYP)))
		it->code = it->code || strcmp(word, "true") == 0;
}

/* A script is install code by its name, whatever value it has. */
static void on_key(struct package_meta *m)
{
	if (m->json.place[m->json.depth] == SCRIPTS &&
	    (doc_json_key_is(&m->json, "preinstall") || doc_json_key_is(&m->json, "install") ||
	     doc_json_key_is(&m->json, "postinstall")))
		m->item.code = true;
}

/* Is the text read? Most texts of a version are descriptions. */
static bool is_read(const struct package_meta *m)
{
	enum meta_npm_place p = m->json.place[m->json.depth];

	return p != OTHER && p != SCRIPTS && p != VERSIONS && p != VERSION;
}

void meta_npm_on(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n)
{
	struct package_meta *m = j->arg;

	switch (ev) {
	case DOC_OPEN:
		j->place[j->depth] = (uint8_t)on_open(m);
		break;
	case DOC_CLOSE:
		if (j->place[j->depth] == VERSION)
			end_version(m);
		break;
	case DOC_KEY:
		on_key(m);
		break;
	case DOC_STRING:
		j->want = is_read(m);
		break;
	case DOC_STRING_END:
		if (j->want)
			on_text(m);
		break;
	case DOC_WORD:
		on_word(m, bytes);
		break;
	case DOC_RAW:
		break;
	}
}
