/* meta_lines.c - documents that are lines of text: Go's list of versions, apt's Release and
 * Packages, the compact index of gems. */
#include <stdio.h>
#include <string.h>

#include "package_meta_private.h"
#include "package_time.h"

static void refuse(struct package_meta *m, const char *why)
{
	if (m->err.code == ERR_NONE)
		(void)err_set(&m->err, ERR_INVALID, "%s", why);
}

/* m->err has the reason if it fails. */
static void add_item(struct package_meta *m)
{
	meta_item_end(m, &m->item);
	meta_item_begin(&m->item);
}

/* ---- Go */

static void go_line(struct package_meta *m, const struct doc_lines *l)
{
	struct meta_item *it = &m->item;

	if (l->cut || l->odd || l->n == 0 || !package_version_ok(ECO_GO, l->line, l->n) ||
	    facts_find_version(&m->table, l->line) != FACTS_NONE)
		return;
	memcpy(it->version, l->line, l->n + 1);
	if (strlen(it->version) + sizeof(".zip") <= sizeof(it->file))
		(void)snprintf(it->file, sizeof(it->file), "%s.zip", it->version);
	add_item(m);
}

/* ---- gems: VERSION[-PLATFORM] [dependencies]|checksum:HEX,ruby:... */

static void gem_attributes(struct meta_item *it, const char *p)
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

static void gem_line(struct package_meta *m, const struct doc_lines *l)
{
	struct meta_item *it = &m->item;
	size_t n = strcspn(l->line, " ");
	/* Dependencies have no '|'. The attributes of a line that was cut are not there: no digest.
	 */
	const char *bar = strchr(l->line, '|');

	if (l->odd || n == 0 || n == l->n || strcmp(l->line, "---") == 0 ||
	    !package_version_ok(ECO_GEM, l->line, n))
		return;
	memcpy(it->version, l->line, n);
	it->version[n] = '\0';
	if (facts_find_version(&m->table, it->version) != FACTS_NONE) {
		refuse(m, "the metadata has a version twice");
		return;
	}
	if ((size_t)snprintf(it->file, sizeof(it->file), "%s-%s.gem", m->name, it->version) >=
	    sizeof(it->file))
		it->file[0] = '\0';
	if (bar != NULL && !l->cut)
		gem_attributes(it, bar + 1);
	add_item(m);
}

/* ---- apt */

/* " HEX  SIZE PATH" */
static void release_line(struct package_meta *m, const struct doc_lines *l)
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
		add_item(m);
	else if (memcmp(m->table.facts[known].digest, it->digest.bytes, 32) != 0)
		refuse(m, "the release lists a file with two digests");
	meta_item_begin(it);
}

static void release_on(struct package_meta *m, const struct doc_lines *l)
{
	bool indented = l->line[0] == ' ' || l->line[0] == '\t';

	if (indented && m->in_list)
		release_line(m, l);
	else if (!indented)
		m->in_list = strncmp(l->line, "SHA256:", 7) == 0;
	if (m->table.ntags == 0 && strcmp(l->line, "Acquire-By-Hash: yes") == 0)
		meta_check(m, facts_add_tag(&m->table, "by-hash", "yes", &m->err));
}

/* The value of a field of a stanza, or NULL. */
static const char *field(const struct doc_lines *l, const char *name)
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

static void packages_on(struct package_meta *m, const struct doc_lines *l)
{
	struct meta_item *it = &m->item;
	const char *v;

	if (l->n == 0)
		meta_line_end(m);
	else if ((v = field(l, "Filename")) != NULL)
		meta_copy(it->file, sizeof(it->file), strncmp(v, "./", 2) == 0 ? v + 2 : v);
	else if ((v = field(l, "Size")) != NULL)
		it->size = strtoull(v, NULL, 10);
	else if ((v = field(l, "SHA256")) != NULL)
		(void)digest_read_hex(DIGEST_SHA256, v, strlen(v), &it->digest);
}

void meta_line_on(struct doc_lines *l, void *arg)
{
	struct package_meta *m = arg;

	if (m->err.code != ERR_NONE)
		return;
	if (m->doc == DOC_GO_LIST)
		go_line(m, l);
	else if (m->doc == DOC_GEM_INFO)
		gem_line(m, l);
	else if (m->doc == DOC_APT_RELEASE)
		release_on(m, l);
	else if (m->doc == DOC_CHECKSUM)
		meta_sums_checksum(m, l);
	else if (m->doc == DOC_GO_SUMDB)
		meta_sums_database(m, l);
	else
		packages_on(m, l);
}
