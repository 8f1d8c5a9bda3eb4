/* meta_pypi.c - PyPI's documents: the simple page as JSON (PEP 691, 700) and the older JSON of a
 * project. Facts are files.
 *
 * The older one lists the files of its version a second time, below `urls`: a file that is known
 * already must have the same digest. table.order says for each object of a file which fact it is.
 */
#include <string.h>

#include "package_meta_private.h"
#include "package_time.h"
#include "pypi_file.h"

enum place { OTHER, ROOT, META, FILES, FILE_, HASHES, STATUS, RELEASES };

enum {
	SEEN_FILENAME = 1,
	SEEN_URL = 2,
	SEEN_HASHES = 4,
	SEEN_SIZE = 8,
	SEEN_TIME = 16,
	SEEN_YANKED = 32,
};
enum { SEEN_NAME = 1, SEEN_FILES = 2, SEEN_STATUS = 4, SEEN_RELEASES = 8 };

/* ---- one file */

static void add_file(struct package_meta *m, struct meta_item *it)
{
	uint32_t known = facts_find_file(&m->table, it->file);
	struct digest before = { .alg = DIGEST_NONE };

	if (known == FACTS_NONE) {
		pypi_file_version(it->file, m->name, it->version);
		meta_item_end(m, it);
		if (m->json.fault == NULL)
			m->table.facts[it->fact].code = (uint8_t)pypi_file_code(it->file);
		return;
	}
	it->fact = known;
	before.alg = m->table.facts[known].alg;
	memcpy(before.bytes, m->table.facts[known].digest, sizeof(before.bytes));
	if (m->doc == DOC_PYPI_SIMPLE || before.alg != it->digest.alg ||
	    memcmp(before.bytes, it->digest.bytes, digest_size(before.alg)) != 0)
		doc_json_refuse(&m->json, ERR_INVALID, "the metadata has a file twice");
	m->table.facts[known].foreign = m->table.facts[known].foreign || it->foreign;
}

static void end_file(struct package_meta *m)
{
	struct meta_item *it = &m->item;

	if (it->file[0] == '\0' || (it->seen & SEEN_URL) == 0 || strcmp(it->path, it->file) != 0)
		it->foreign = true;
	if (it->file[0] != '\0')
		add_file(m, it);
	if (m->json.fault == NULL)
		meta_check(m, facts_add_order(&m->table, it->fact, &m->err));
}

/* ---- structure */

static enum place open_in_root(struct package_meta *m)
{
	struct doc_json *j = &m->json;
	bool simple = m->doc == DOC_PYPI_SIMPLE;

	if (j->array && doc_json_key_is(j, simple ? "files" : "urls"))
		return meta_once(m, &m->seen_root, SEEN_FILES) ? FILES : OTHER;
	if (!j->array && !simple && doc_json_key_is(j, "releases"))
		return meta_once(m, &m->seen_root, SEEN_RELEASES) ? RELEASES : OTHER;
	if (!j->array && doc_json_key_is(j, "project-status"))
		return meta_once(m, &m->seen_root, SEEN_STATUS) ? STATUS : OTHER;
	return !j->array && doc_json_key_is(j, "meta") ? META : OTHER;
}

static enum place on_open(struct package_meta *m)
{
	struct doc_json *j = &m->json;
	enum place in = j->place[j->depth - 1];

	if (j->depth == 1) {
		if (j->array)
			doc_json_refuse(j, ERR_INVALID, "the metadata is not an object");
		return ROOT;
	}
	if (in == ROOT)
		return open_in_root(m);
	if (in == META && !j->array && doc_json_key_is(j, "project-status"))
		return meta_once(m, &m->seen_root, SEEN_STATUS) ? STATUS : OTHER;
	if (in == RELEASES && j->array)
		return FILES;
	if (in == FILES && !j->array) {
		meta_item_begin(&m->item);
		return FILE_;
	}
	if (in == FILE_ && !j->array &&
	    (doc_json_key_is(j, "hashes") || doc_json_key_is(j, "digests")))
		return meta_once(m, &m->item.seen, SEEN_HASHES) ? HASHES : OTHER;
	return OTHER;
}

/* ---- members */

static void read_time(struct package_meta *m)
{
	struct meta_item *it = &m->item;

	if (meta_once(m, &it->seen, SEEN_TIME) && !m->json.odd)
		it->has_time = package_time_read(m->json.text, &it->time_ms);
}

static void read_file_name(struct package_meta *m)
{
	struct meta_item *it = &m->item;
	const char *text;

	if (!meta_once(m, &it->seen, SEEN_FILENAME))
		return;
	text = meta_text(m, PACKAGE_FILE_MAX);
	if (text != NULL && pypi_file_ok(text))
		meta_copy(it->file, sizeof(it->file), text);
}

static void read_file(struct package_meta *m)
{
	struct doc_json *j = &m->json;
	const char *text;

	if (doc_json_key_is(j, "filename")) {
		read_file_name(m);
	} else if (doc_json_key_is(j, "url") && meta_once(m, &m->item.seen, SEEN_URL)) {
		text = meta_text(m, META_URL_MAX);
		if (text != NULL)
			meta_item_url(m, &m->item, text);
	} else if (doc_json_key_is(j, m->doc == DOC_PYPI_SIMPLE ? "upload-time"
								: "upload_time_iso_8601")) {
		read_time(m);
	} else if (doc_json_key_is(j, "yanked") && meta_once(m, &m->item.seen, SEEN_YANKED)) {
		m->item.yanked = j->ntext > 0;
	}
}

/* The strongest that is there. */
static void read_hash(struct package_meta *m)
{
	static const enum digest_alg algs[] = { DIGEST_SHA256, DIGEST_SHA384, DIGEST_SHA512 };
	struct digest d;

	for (size_t i = 0; i < COUNT(algs); i++) {
		if (doc_json_key_is(&m->json, digest_alg_name(algs[i])) &&
		    digest_read_hex(algs[i], m->json.text, m->json.ntext, &d) &&
		    d.alg > m->item.digest.alg)
			m->item.digest = d;
	}
}

static void read_name(struct package_meta *m)
{
	char normal[PACKAGE_NAME_MAX];
	const char *text;

	if (!meta_once(m, &m->seen_root, SEEN_NAME))
		return;
	text = meta_text(m, PACKAGE_NAME_MAX);
	if (text != NULL && m->name[0] != '\0' &&
	    (!package_name_normal(ECO_PYPI, text, strlen(text), normal) ||
	     strcmp(normal, m->name) != 0))
		doc_json_refuse(&m->json, ERR_INVALID, "the metadata is of another name");
}

static void on_text(struct package_meta *m)
{
	struct doc_json *j = &m->json;

	if (j->place[j->depth] == FILE_)
		read_file(m);
	else if (j->place[j->depth] == HASHES)
		read_hash(m);
	else if (j->place[j->depth] == ROOT && m->doc == DOC_PYPI_SIMPLE &&
		 doc_json_key_is(j, "name"))
		read_name(m);
	else if ((j->place[j->depth] == STATUS && doc_json_key_is(j, "status")) ||
		 (j->place[j->depth] != STATUS && doc_json_key_is(j, "project-status")))
		m->quarantined = m->quarantined || strcmp(j->text, "quarantined") == 0;
}

static void on_word(struct package_meta *m, const char *word)
{
	struct doc_json *j = &m->json;

	if (j->place[j->depth] != FILE_)
		return;
	if (doc_json_key_is(j, "size") && meta_once(m, &m->item.seen, SEEN_SIZE))
		m->item.size =
			strspn(word, "0123456789") == strlen(word) ? strtoull(word, NULL, 10) : 0;
	else if (doc_json_key_is(j, "yanked") && meta_once(m, &m->item.seen, SEEN_YANKED))
		m->item.yanked = strcmp(word, "true") == 0;
}

void meta_pypi_on(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n)
{
	struct package_meta *m = j->arg;

	(void)n;
	switch (ev) {
	case DOC_OPEN:
		j->place[j->depth] = (uint8_t)on_open(m);
		break;
	case DOC_CLOSE:
		if (j->place[j->depth] == FILE_)
			end_file(m);
		break;
	case DOC_STRING:
		j->want = j->place[j->depth] != OTHER && !doc_json_in_array(j);
		break;
	case DOC_STRING_END:
		if (j->want)
			on_text(m);
		break;
	case DOC_WORD:
		on_word(m, bytes);
		break;
	case DOC_KEY:
	case DOC_RAW:
		break;
	}
}
