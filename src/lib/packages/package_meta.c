/* package_meta.c - the life of a table of facts, and the questions to it. This file chooses the
 * reader of a document. A document with one JSON object a line is first cut into lines. */
#include "lib/packages/package_meta.h"

#include <string.h>

#include "lib/base/str.h"
#include "lib/packages/gunzip.h"
#include "lib/packages/package_meta_private.h"

/* ---- see package_meta.h. */

/* Keep a piece of the line, as far as it fits. */
static void doc_lines_add(struct doc_lines *l, const char *p, size_t n)
{
	size_t room = sizeof(l->line) - 1 - l->n, take = n < room ? n : room;

	if (take < n)
		l->cut = true;
	if (take > 0 && memchr(p, '\0', take) != NULL)
		l->odd = true;
	memcpy(l->line + l->n, p, take);
	l->n += take;
}

static void doc_lines_end_one(struct doc_lines *l, void (*on_line)(struct doc_lines *l, void *arg),
			      void *arg)
{
	if (l->n > 0 && !l->cut && l->line[l->n - 1] == '\r')
		l->n--;
	l->line[l->n] = '\0';
	on_line(l, arg);
	l->n = 0;
	l->cut = l->odd = false;
}

void doc_lines_feed(struct doc_lines *l, const char *bytes, size_t n,
		    void (*on_line)(struct doc_lines *l, void *arg), void *arg)
{
	while (n > 0) {
		const char *nl = memchr(bytes, '\n', n);
		size_t len = nl == NULL ? n : (size_t)(nl - bytes);

		doc_lines_add(l, bytes, len);
		if (nl == NULL)
			return;
		doc_lines_end_one(l, on_line, arg);
		bytes += len + 1;
		n -= len + 1;
	}
}

void doc_lines_end(struct doc_lines *l, void (*on_line)(struct doc_lines *l, void *arg), void *arg)
{
	if (l->n > 0)
		doc_lines_end_one(l, on_line, arg);
}

#define END_FACTS 4096U /* in one call of package_meta_end() */

typedef void json_reader(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n);

/* NULL: the document consists of text lines. */
static json_reader *const readers[PACKAGE_DOCS] = {
	[DOC_NPM] = meta_npm_on,	  [DOC_PYPI_SIMPLE] = meta_pypi_on,
	[DOC_PYPI_LEGACY] = meta_pypi_on, [DOC_CARGO_INDEX] = meta_cargo_on,
	[DOC_GO_INFO] = meta_go_on,
};

struct package_meta *package_meta_new(const struct package_meta_spec *spec, struct err *e)
{
	struct package_meta *m;

	if (strlen(spec->name) >= PACKAGE_NAME_MAX) {
		(void)err_set(e, ERR_INVALID, "the name of the package is too long");
		return NULL;
	}
	m = calloc(1, sizeof(*m));
	if (m == NULL) {
		(void)err_sys(e, "metadata of packages");
		return NULL;
	}
	m->doc = spec->doc;
	m->url_allowed = spec->url_allowed;
	m->arg = spec->arg;
	str_copy(m->name, spec->name);
	if (facts_init(&m->table, e) < 0) {
		package_meta_free(m);
		return NULL;
	}
	meta_item_begin(&m->item);
	if (readers[m->doc] != NULL)
		doc_json_init(&m->json, readers[m->doc], m);
	return m;
}

void package_meta_free(struct package_meta *m)
{
	if (m == NULL)
		return;
	facts_release(&m->table);
	file_digests_release(&m->files);
	gunzip_free(m->gunzip);
	free(m);
}

/* Return the failure of the table (m->err), or else the failure of the document (e). */
static int package_meta_result(struct package_meta *m, int rc, struct err *e)
{
	if (m->err.code != ERR_NONE) {
		*e = m->err;
		return -1;
	}
	return rc;
}

/* Feed one JSON object a line, each a document of its own. Empty lines are skipped. */
static int package_meta_feed_object_lines(struct package_meta *m, const char *p, size_t n,
					  struct err *e)
{
	while (n > 0) {
		const char *nl = memchr(p, '\n', n);
		size_t len = nl == NULL ? n : (size_t)(nl - p);

		m->in_list = m->in_list || len > 0;
		if (doc_json_feed(&m->json, p, len, e) < 0)
			return -1;
		if (nl == NULL)
			return 0;
		if (m->in_list && doc_json_end(&m->json, e) < 0)
			return -1;
		m->in_list = false;
		doc_json_init(&m->json, readers[m->doc], m);
		p += len + 1;
		n -= len + 1;
	}
	return 0;
}

static int on_unpacked(void *arg, const void *bytes, size_t n, struct err *e)
{
	struct package_meta *m = arg;

	doc_lines_feed(&m->lines, bytes, n, meta_line_on, m);
	return package_meta_result(m, 0, e);
}

/* apt's Packages are gzip if the first byte is that of gzip. No text begins with it. */
static int package_meta_feed_packages(struct package_meta *m, const uint8_t *bytes, size_t n,
				      bool first, struct err *e)
{
	if (first && n > 0 && bytes[0] == 0x1F) {
		m->gunzip = gunzip_new(PACKAGE_META_UNPACKED, e);
		if (m->gunzip == NULL)
			return -1;
	}
	return m->gunzip != NULL ? gunzip_feed(m->gunzip, bytes, n, on_unpacked, m, e)
				 : on_unpacked(m, bytes, n, e);
}

int package_meta_feed(struct package_meta *m, const void *bytes, size_t n, struct err *e)
{
	bool first = m->bytes == 0;

	m->bytes += n;
	if (m->bytes > PACKAGE_META_BYTES)
		return err_set(e, ERR_LIMIT, "the metadata is larger than %u MiB",
			       PACKAGE_META_BYTES >> 20);
	if (m->doc == DOC_APT_PACKAGES)
		return package_meta_feed_packages(m, bytes, n, first, e);
	if (readers[m->doc] == NULL)
		doc_lines_feed(&m->lines, bytes, n, meta_line_on, m);
	else if (m->doc == DOC_CARGO_INDEX)
		return package_meta_result(m, package_meta_feed_object_lines(m, bytes, n, e), e);
	else
		return package_meta_result(m, doc_json_feed(&m->json, bytes, n, e), e);
	return package_meta_result(m, 0, e);
}

/* The last line may lack its end. An incomplete gzip or JSON document is refused. */
static int package_meta_end_reading(struct package_meta *m, struct err *e)
{
	int rc = 0;

	if (m->gunzip != NULL && gunzip_end(m->gunzip, e) < 0)
		return -1;
	gunzip_free(m->gunzip);
	m->gunzip = NULL;
	if (readers[m->doc] == NULL) {
		doc_lines_end(&m->lines, meta_line_on, m);
		meta_line_end(m);
	} else if (m->doc != DOC_CARGO_INDEX || m->in_list) {
		rc = doc_json_end(&m->json, e);
	}
	m->is_read = true;
	return package_meta_result(m, rc, e);
}

int package_meta_end(struct package_meta *m, struct err *e)
{
	int more = 0;

	if (!m->is_read && package_meta_end_reading(m, e) < 0)
		return -1;
	if (m->doc == DOC_NPM)
		more = facts_compact(&m->table, END_FACTS, e);
	m->ended = more == 0;
	return more;
}

/* ---- questions */

size_t package_meta_count(const struct package_meta *m)
{
	return m->table.n;
}

void package_meta_get(const struct package_meta *m, size_t i, struct package_facts *ret)
{
	const struct fact *f = &m->table.facts[i];

	*ret = (struct package_facts){ .version = facts_text(&m->table, f->version),
				       .file = facts_text(&m->table, f->file),
				       .has_time = f->has_time,
				       .time_ms = f->time_ms,
				       .size = f->size,
				       .digest.alg = f->alg,
				       .install_code = f->code,
				       .yanked = f->yanked,
				       .foreign = f->foreign };
	memcpy(ret->digest.bytes, f->digest, sizeof(f->digest));
}

bool package_meta_find_version(const struct package_meta *m, const char *version,
			       struct package_facts *ret)
{
	uint32_t i = facts_find_version(&m->table, version);

	if (i != FACTS_NONE)
		package_meta_get(m, i, ret);
	return i != FACTS_NONE;
}

bool package_meta_find_file(const struct package_meta *m, const char *file,
			    struct package_facts *ret)
{
	uint32_t i = facts_find_file(&m->table, file);

	if (m->doc == DOC_APT_PACKAGES) {
		*ret = (struct package_facts){ .version = "", .file = "" };
		return file_digests_find(&m->files, file, &ret->digest, &ret->size);
	}
	if (i == FACTS_NONE || m->table.facts[i].shared)
		return false;
	package_meta_get(m, i, ret);
	return true;
}

const char *package_meta_tag(const struct package_meta *m, const char *tag)
{
	for (size_t i = 0; i < m->table.ntags; i++) {
		if (strcmp(facts_text(&m->table, m->table.tags[i].name), tag) == 0)
			return facts_text(&m->table, m->table.tags[i].version);
	}
	return NULL;
}

bool package_meta_quarantined(const struct package_meta *m)
{
	return m->quarantined;
}

size_t package_meta_memory(const struct package_meta *m)
{
	return sizeof(*m) + facts_memory(&m->table) + file_digests_memory(&m->files);
}
