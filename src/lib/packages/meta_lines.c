/* meta_lines.c - reads documents of text lines: Go's list of versions, apt's Release and Packages,
 * the compact index of gems. */
#include <stdio.h>

#include <string.h>

#include "lib/packages/package_meta_private.h"
#include "lib/packages/package_time.h"

/* ---- reads documents with the digest of one file or module: the checksum file beside a
 * file of a Maven repository, and an answer of Go's checksum database. Called by meta_lines.c.
 *
 * Strict: one digest, of the requested module. Missing or repeated digests are refused. The
 * signature in an answer of the database covers the head of the tree alone. Without the hashes
 * between both, it proves nothing about the record beside it. go checks these hashes, this reader
 * does not. */

#define MOD "/go.mod"

/* The first refusal stays. */
static void meta_sums_refuse(struct package_meta *m, const char *why)
{
	if (m->err.code == ERR_NONE)
		(void)err_set(&m->err, ERR_INVALID, "%s", why);
}

static void meta_sums_add_item(struct package_meta *m)
{
	meta_item_end(m, &m->item);
	meta_item_begin(&m->item);
}

/* ---- Maven: HEX, HEX FILE, or ALGORITHM(FILE)= HEX */

/* The length tells the algorithm. */
static bool meta_sums_read_hex(const char *p, size_t n, struct digest *ret)
{
	static const enum digest_alg algs[] = { DIGEST_SHA1, DIGEST_SHA256, DIGEST_SHA512 };

	for (size_t i = 0; i < sizeof(algs) / sizeof(algs[0]); i++)
		if (digest_read_hex(algs[i], p, n, ret))
			return true;
	return false;
}

static bool meta_sums_read_checksum(const char *line, struct digest *ret)
{
	const char *first = line + strspn(line, " \t"), *last = strrchr(line, '=');

	if (meta_sums_read_hex(first, strcspn(first, " \t"), ret))
		return true;
	if (last == NULL)
		return false;
	last += 1 + strspn(last + 1, " \t");
	return meta_sums_read_hex(last, strcspn(last, " \t"), ret);
}

/* Empty lines are allowed, a second checksum is not. */
void meta_sums_checksum(struct package_meta *m, const struct doc_lines *l)
{
	if (l->line[strspn(l->line, " \t")] == '\0' && !l->odd)
		return;
	if (l->cut || l->odd || m->table.n > 0 ||
	    !meta_sums_read_checksum(l->line, &m->item.digest)) {
		meta_sums_refuse(m, "this is no checksum file, or has more than one checksum");
		return;
	}
	meta_copy(m->item.file, sizeof(m->item.file), "checksum");
	meta_sums_add_item(m);
}

/* ---- Go: NUMBER, MODULE VERSION h1:..., MODULE VERSION/go.mod h1:..., "", the signed head */

static bool meta_sums_is_number(const char *text)
{
	return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* Read MODULE VERSION HASH, with one space between them, into the item. */
static bool meta_sums_read_record(struct package_meta *m, const char *line)
{
	struct meta_item *it = &m->item;
	const char *version = strchr(line, ' '), *hash;
	size_t n = version == NULL ? 0 : (size_t)(version - line);

	if (n == 0 ||
	    (m->name[0] != '\0' && (strlen(m->name) != n || memcmp(line, m->name, n) != 0)))
		return false;
	hash = strchr(++version, ' ');
	if (hash == NULL || hash == version || (size_t)(hash - version) >= sizeof(it->version))
		return false;
	memcpy(it->version, version, (size_t)(hash - version));
	it->version[hash - version] = '\0';
	hash++;
	return digest_read(hash, strlen(hash), &it->digest) && it->digest.alg == DIGEST_H1;
}

static bool meta_sums_ends_with_mod(const char *version)
{
	size_t n = strlen(version);

	return n > sizeof(MOD) - 1 && strcmp(version + n - (sizeof(MOD) - 1), MOD) == 0;
}

/* The second record is the one for go.mod. */
static void meta_sums_take_record(struct package_meta *m, const struct doc_lines *l, bool is_mod)
{
	if (!meta_sums_read_record(m, l->line) ||
	    meta_sums_ends_with_mod(m->item.version) != is_mod) {
		meta_sums_refuse(m, "the checksum database answered with another record");
		return;
	}
	meta_sums_add_item(m);
}

void meta_sums_database(struct package_meta *m, const struct doc_lines *l)
{
	unsigned number = m->nlines < 6 ? m->nlines++ : 6;

	if (number > 4)
		return; /* the head of the tree */
	if (l->cut || l->odd)
		meta_sums_refuse(m, "the checksum database answered with a line that is too long");
	else if (number == 1 || number == 2)
		meta_sums_take_record(m, l, number == 2);
	else if ((number == 0 && !meta_sums_is_number(l->line)) || (number == 3 && l->n > 0) ||
		 (number == 4 && strcmp(l->line, "go.sum database tree") != 0))
		meta_sums_refuse(m, "this is no answer of a checksum database");
}

void meta_sums_end(struct package_meta *m)
{
	bool is_whole = m->doc == DOC_CHECKSUM	 ? m->table.n == 1
			: m->doc == DOC_GO_SUMDB ? m->nlines > 5
						 : true;

	if (!is_whole)
		meta_sums_refuse(m, "it has no checksum, or ends before it is complete");
}

/* ---- reads Go's answer about one version: {"Version":"v1.2.3","Time":"..."}. Called by
 * package_meta.c. */

enum { GO_VERSION = 1, GO_TIME = 2 };

static void meta_go_text(struct package_meta *m)
{
	struct doc_json *j = &m->json;
	struct meta_item *it = &m->item;

	if (doc_json_key_is(j, "Version") && meta_once(m, &it->seen, GO_VERSION)) {
		if (!j->odd && package_version_ok(ECO_GO, j->text, j->ntext))
			meta_copy(it->version, sizeof(it->version), j->text);
	} else if (doc_json_key_is(j, "Time") && meta_once(m, &it->seen, GO_TIME)) {
		it->has_time = !j->odd && package_time_read(j->text, &it->time_ms);
	}
}

static void meta_go_end(struct package_meta *m)
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

	if (ev == DOC_OPEN && j->depth == 1 && j->array)
		doc_json_refuse(j, ERR_INVALID, "the metadata is not an object");
	else if (ev == DOC_STRING)
		j->want = j->depth == 1;
	else if (ev == DOC_STRING_END && j->want)
		meta_go_text(m);
	else if (ev == DOC_CLOSE && j->depth == 1)
		meta_go_end(m);
}

/* ---- reads cargo's sparse index, one object a line. Called by package_meta.c.
 *
 * A line that cannot be understood is invisible (it is no fact). It does not make the document
 * invalid, because indexes have lines of newer formats. */

/* Places of doc_json.h, and bits of members seen. */
enum meta_lines_place { OTHER, ITEM };

enum {
	SEEN_NAME = 1,
	SEEN_VERSION = 2,
	SEEN_CHECKSUM = 4,
	SEEN_YANKED = 8,
	SEEN_TIME = 16,
};

/* The nth line has the nth entry of table.order, so that the shaper finds its fact. An invisible
 * line has none. */
static void meta_cargo_end_item(struct package_meta *m)
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

static enum meta_lines_place on_open(struct package_meta *m)
{
	struct doc_json *j = &m->json;

	if (j->depth != 1)
		return OTHER;
	if (j->array)
		doc_json_refuse(j, ERR_INVALID, "the metadata is not an object");
	meta_item_begin(&m->item);
	return ITEM;
}

/* A document about another package would answer with the wrong facts. */
static void meta_cargo_read_name(struct package_meta *m)
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

static void meta_cargo_read_version(struct package_meta *m)
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
			meta_cargo_read_name(m);
	} else if (doc_json_key_is(j, "vers")) {
		if (meta_once(m, &it->seen, SEEN_VERSION))
			meta_cargo_read_version(m);
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

	if (ev == DOC_OPEN)
		j->place[j->depth] = (uint8_t)on_open(m);
	else if (ev == DOC_CLOSE && j->place[j->depth] == ITEM)
		meta_cargo_end_item(m);
	else if (ev == DOC_STRING)
		j->want = j->place[j->depth] == ITEM;
	else if (ev == DOC_STRING_END && j->want)
		on_text(m);
	else if (ev == DOC_WORD && j->place[j->depth] == ITEM && doc_json_key_is(j, "yanked") &&
		 meta_once(m, &m->item.seen, SEEN_YANKED))
		m->item.yanked = strcmp(bytes, "true") == 0;
}

static void meta_lines_refuse(struct package_meta *m, const char *why)
{
	if (m->err.code == ERR_NONE)
		(void)err_set(&m->err, ERR_INVALID, "%s", why);
}

/* m->err has the reason of a failure. */
static void meta_lines_add_item(struct package_meta *m)
{
	meta_item_end(m, &m->item);
	meta_item_begin(&m->item);
}

/* ---- Go */

/* A malformed or repeated version is left out. */
static void meta_lines_go_line(struct package_meta *m, const struct doc_lines *l)
{
	struct meta_item *it = &m->item;

	if (l->cut || l->odd || l->n == 0 || !package_version_ok(ECO_GO, l->line, l->n) ||
	    facts_find_version(&m->table, l->line) != FACTS_NONE)
		return;
	memcpy(it->version, l->line, l->n + 1);
	if (strlen(it->version) + sizeof(".zip") <= sizeof(it->file))
		(void)snprintf(it->file, sizeof(it->file), "%s.zip", it->version);
	meta_lines_add_item(m);
}

/* ---- gems: VERSION[-PLATFORM] [dependencies]|checksum:HEX,ruby:... */

/* Attributes of a line, separated by commas. */
static void meta_lines_gem_attributes(struct meta_item *it, const char *p)
{
	static const char checksum[] = "checksum:", created[] = "created_at:";
	char text[40];

	for (; *p != '\0'; p += strcspn(p, ","), p += *p == ',') {
		size_t n = strcspn(p, ",");

		if (strncmp(p, checksum, sizeof(checksum) - 1) == 0)
			(void)digest_read_hex(DIGEST_SHA256, p + sizeof(checksum) - 1,
					      n - (sizeof(checksum) - 1), &it->digest);
		if (strncmp(p, created, sizeof(created) - 1) == 0 && n < sizeof(text) + 11) {
			(void)snprintf(text, sizeof(text), "%.*s", (int)(n - sizeof(created) + 1),
				       p + sizeof(created) - 1);
			it->has_time = package_time_read(text, &it->time_ms);
		}
	}
}

static void meta_lines_gem_line(struct package_meta *m, const struct doc_lines *l)
{
	struct meta_item *it = &m->item;
	size_t n = strcspn(l->line, " ");
	/* Dependencies have no '|'. A cut line lacks its attributes, so it has no digest. */
	const char *bar = strchr(l->line, '|');

	if (l->odd || n == 0 || n == l->n || strcmp(l->line, "---") == 0 ||
	    !package_version_ok(ECO_GEM, l->line, n))
		return;
	memcpy(it->version, l->line, n);
	it->version[n] = '\0';
	if (facts_find_version(&m->table, it->version) != FACTS_NONE) {
		meta_lines_refuse(m, "the metadata has a version twice");
		return;
	}
	if ((size_t)snprintf(it->file, sizeof(it->file), "%s-%s.gem", m->name, it->version) >=
	    sizeof(it->file))
		it->file[0] = '\0';
	if (bar != NULL && !l->cut)
		meta_lines_gem_attributes(it, bar + 1);
	meta_lines_add_item(m);
}

/* ---- apt */

/* Read " HEX SIZE PATH". */
static void meta_lines_release_line(struct package_meta *m, const struct doc_lines *l)
{
	struct meta_item *it = &m->item;
	const char *hex = l->line + strspn(l->line, " \t"), *size, *path;
	uint32_t known;

	size = hex + strcspn(hex, " \t");
	path = size + strspn(size, " \t");
	path += strspn(path, "0123456789");
	path += strspn(path, " \t");
	if (l->cut || l->odd || strlen(path) >= sizeof(it->file) ||
	    !digest_read_hex(DIGEST_SHA256, hex, (size_t)(size - hex), &it->digest))
		return;
	it->size = strtoull(size, NULL, 10);
	meta_copy(it->file, sizeof(it->file), path);
	known = facts_find_file(&m->table, path);
	if (known == FACTS_NONE)
		meta_lines_add_item(m);
	else if (memcmp(m->table.facts[known].digest, it->digest.bytes, 32) != 0)
		meta_lines_refuse(m, "the release lists a file with two digests");
	meta_item_begin(it);
}

/* Only the list of SHA-256 counts. Lists of weaker digests are skipped. */
static void meta_lines_release_on(struct package_meta *m, const struct doc_lines *l)
{
	bool indented = l->line[0] == ' ' || l->line[0] == '\t';

	if (indented && m->in_list)
		meta_lines_release_line(m, l);
	else if (!indented)
		m->in_list = strncmp(l->line, "SHA256:", 7) == 0;
	if (m->table.ntags == 0 && strcmp(l->line, "Acquire-By-Hash: yes") == 0)
		meta_check(m, facts_add_tag(&m->table, "by-hash", "yes", &m->err));
}

/* The value of a field of a stanza, or NULL. Names of fields do not depend on case. A cut line has
 * no value. */
static const char *meta_lines_field(const struct doc_lines *l, const char *name)
{
	size_t n = strlen(name);

	if (strncasecmp(l->line, name, n) != 0 || l->line[n] != ':' || l->cut || l->odd)
		return NULL;
	return l->line + n + 1 + strspn(l->line + n + 1, " \t");
}

void meta_line_end(struct package_meta *m)
{
	struct meta_item *it = &m->item;

	if (m->doc != DOC_APT_PACKAGES) {
		meta_sums_end(m);
		return;
	}
	if (it->file[0] != '\0' && it->digest.alg == DIGEST_SHA256 && m->err.code == ERR_NONE)
		meta_check(m,
			   file_digests_add(&m->files, it->file, &it->digest, it->size, &m->err));
	meta_item_begin(it);
}

/* An empty line ends a stanza. */
static void meta_lines_packages_on(struct package_meta *m, const struct doc_lines *l)
{
	struct meta_item *it = &m->item;
	const char *v;

	if (l->n == 0)
		meta_line_end(m);
	else if ((v = meta_lines_field(l, "Filename")) != NULL)
		meta_copy(it->file, sizeof(it->file), strncmp(v, "./", 2) == 0 ? v + 2 : v);
	else if ((v = meta_lines_field(l, "Size")) != NULL)
		it->size = strtoull(v, NULL, 10);
	else if ((v = meta_lines_field(l, "SHA256")) != NULL)
		(void)digest_read_hex(DIGEST_SHA256, v, strlen(v), &it->digest);
}

void meta_line_on(struct doc_lines *l, void *arg)
{
	struct package_meta *m = arg;

	if (m->err.code != ERR_NONE)
		return;
	if (m->doc == DOC_GO_LIST)
		meta_lines_go_line(m, l);
	else if (m->doc == DOC_GEM_INFO)
		meta_lines_gem_line(m, l);
	else if (m->doc == DOC_APT_RELEASE)
		meta_lines_release_on(m, l);
	else if (m->doc == DOC_CHECKSUM)
		meta_sums_checksum(m, l);
	else if (m->doc == DOC_GO_SUMDB)
		meta_sums_database(m, l);
	else
		meta_lines_packages_on(m, l);
}
