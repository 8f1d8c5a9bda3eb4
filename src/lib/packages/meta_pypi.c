/* meta_pypi.c - reads PyPI's documents: the simple page as JSON (PEP 691, 700) and the older JSON
 * of a project. Facts are files.
 *
 * The older document lists the files of its version a second time, below `urls`. A known file must
 * have the same digest there. table.order has the fact of each file object. */
#include <string.h>

#include "lib/packages/package_meta_private.h"
#include "lib/packages/package_time.h"
#include "lib/packages/meta_pypi.h"

/* ---- see meta_pypi.h. Wheels are NAME-VERSION[-BUILD]-PYTHON-ABI-PLATFORM.whl, with no
 * '-' in NAME. Sdists are NAME-VERSION.tar.gz, with any '-' in NAME. */

static const char *const sdists[] = { ".tar.gz", ".zip", ".tar.bz2", ".tgz", ".tar.xz", ".tar" };

bool pypi_file_ok(const char *file)
{
	static const char ok[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+!-";

	return file[0] != '\0' && file[0] != '.' && file[strspn(file, ok)] == '\0';
}

static bool pypi_file_ends(const char *file, const char *end)
{
	size_t n = strlen(file), m = strlen(end);

	return n > m && strcmp(file + n - m, end) == 0;
}

/* The length of the name without the ending of an sdist. 0: no sdist. */
static size_t pypi_file_sdist_stem(const char *file)
{
	for (size_t i = 0; i < COUNT(sdists); i++) {
		if (pypi_file_ends(file, sdists[i]))
			return strlen(file) - strlen(sdists[i]);
	}
	return 0;
}

/* A wheel is unpacked only, an sdist is built. */
enum install_code pypi_file_code(const char *file)
{
	if (pypi_file_ends(file, ".whl"))
		return INSTALL_CODE_NO;
	return pypi_file_sdist_stem(file) > 0 ? INSTALL_CODE_YES : INSTALL_CODE_UNKNOWN;
}

static void pypi_file_take(const char *p, size_t n, char ret[PACKAGE_VERSION_MAX])
{
	if (n == 0 || n >= PACKAGE_VERSION_MAX)
		return;
	memcpy(ret, p, n);
	ret[n] = '\0';
}

/* Are these bytes a spelling of the name in normal form? */
static bool pypi_file_is_name(const char *p, size_t n, const char *name)
{
	char normal[PACKAGE_NAME_MAX];

	return package_name_normal(ECO_PYPI, p, n, normal) && strcmp(normal, name) == 0;
}

/* Without a name, the version of an sdist begins at the last dash. */
void pypi_file_version(const char *file, const char *name, char ret[PACKAGE_VERSION_MAX])
{
	size_t stem = pypi_file_sdist_stem(file);
	const char *dash = strchr(file, '-');

	ret[0] = '\0';
	if (dash == NULL)
		return;
	if (pypi_file_ends(file, ".whl")) {
		pypi_file_take(dash + 1, strcspn(dash + 1, "-"), ret);
		return;
	}
	for (; dash != NULL && dash < file + stem; dash = strchr(dash + 1, '-')) {
		bool last = memchr(dash + 1, '-', (size_t)(file + stem - dash - 1)) == NULL;

		if (name[0] == '\0' ? last : pypi_file_is_name(file, (size_t)(dash - file), name)) {
			pypi_file_take(dash + 1, (size_t)(file + stem - dash - 1), ret);
			return;
		}
	}
}

/* Places of doc_json.h, and bits for members seen, of a file and the root. */
enum meta_pypi_place { OTHER, ROOT, META, FILES, FILE_, HASHES, STATUS, RELEASES };

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

/* A file of the simple page must not occur twice. In the older document it may, with the same
 * digest. */
static void meta_pypi_add_file(struct package_meta *m, struct meta_item *it)
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

/* A file without an address, or with an address of another name, is never shown. */
static void meta_pypi_end_file(struct package_meta *m)
{
	struct meta_item *it = &m->item;

	if (it->file[0] == '\0' || (it->seen & SEEN_URL) == 0 || strcmp(it->path, it->file) != 0)
		it->foreign = true;
	if (it->file[0] != '\0')
		meta_pypi_add_file(m, it);
	if (m->json.fault == NULL)
		meta_check(m, facts_add_order(&m->table, it->fact, &m->err));
}

/* ---- structure */

/* Members of another kind than expected are not read. */
static enum meta_pypi_place meta_pypi_open_in_root(struct package_meta *m)
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

static enum meta_pypi_place on_open(struct package_meta *m)
{
	struct doc_json *j = &m->json;
	enum meta_pypi_place in = j->place[j->depth - 1];

	if (j->depth == 1) {
		if (j->array)
			doc_json_refuse(j, ERR_INVALID, "the metadata is not an object");
		return ROOT;
	}
	if (in == ROOT)
		return meta_pypi_open_in_root(m);
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

/* A time that cannot be read counts as none. */
static void meta_pypi_read_time(struct package_meta *m)
{
	struct meta_item *it = &m->item;

	if (meta_once(m, &it->seen, SEEN_TIME) && !m->json.odd)
		it->has_time = package_time_read(m->json.text, &it->time_ms);
}

static void meta_pypi_read_file_name(struct package_meta *m)
{
	struct meta_item *it = &m->item;
	const char *text;

	if (!meta_once(m, &it->seen, SEEN_FILENAME))
		return;
	text = meta_text(m, PACKAGE_FILE_MAX);
	if (text != NULL && pypi_file_ok(text))
		meta_copy(it->file, sizeof(it->file), text);
}

static void meta_pypi_read_file(struct package_meta *m)
{
	struct doc_json *j = &m->json;
	const char *text;

	if (doc_json_key_is(j, "filename")) {
		meta_pypi_read_file_name(m);
	} else if (doc_json_key_is(j, "url") && meta_once(m, &m->item.seen, SEEN_URL)) {
		text = meta_text(m, META_URL_MAX);
		if (text != NULL)
			meta_item_url(m, &m->item, text);
	} else if (doc_json_key_is(j, m->doc == DOC_PYPI_SIMPLE ? "upload-time"
								: "upload_time_iso_8601")) {
		meta_pypi_read_time(m);
	} else if (doc_json_key_is(j, "yanked") && meta_once(m, &m->item.seen, SEEN_YANKED)) {
		m->item.yanked = j->ntext > 0;
	}
}

/* Keep the strongest digest of the file. */
static void meta_pypi_read_hash(struct package_meta *m)
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

static void meta_pypi_read_name(struct package_meta *m)
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

/* A project in quarantine may say so in several places of the document. */
static void on_text(struct package_meta *m)
{
	struct doc_json *j = &m->json;

	if (j->place[j->depth] == FILE_)
		meta_pypi_read_file(m);
	else if (j->place[j->depth] == HASHES)
		meta_pypi_read_hash(m);
	else if (j->place[j->depth] == ROOT && m->doc == DOC_PYPI_SIMPLE &&
		 doc_json_key_is(j, "name"))
		meta_pypi_read_name(m);
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

	switch (ev) {
	case DOC_OPEN:
		j->place[j->depth] = (uint8_t)on_open(m);
		break;
	case DOC_CLOSE:
		if (j->place[j->depth] == FILE_)
			meta_pypi_end_file(m);
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
