/* meta_item.c - shared by the readers of metadata: members that may occur once, texts that must be
 * readable, addresses of files, and the fact made from an item. */
#include <string.h>

#include "lib/packages/package_meta_private.h"

/* m->err has the failure, and package_meta_result() gives it to the caller. */
void meta_check(struct package_meta *m, int rc)
{
	if (rc < 0)
		doc_json_refuse(&m->json, m->err.code, "see the error of the table");
}

bool meta_once(struct package_meta *m, unsigned *seen, unsigned bit)
{
	if ((*seen & bit) != 0) {
		doc_json_refuse(&m->json, ERR_INVALID, "the metadata has a member twice");
		return false;
	}
	*seen |= bit;
	return true;
}

const char *meta_text(struct package_meta *m, size_t cap)
{
	struct doc_json *j = &m->json;

	if (!j->odd && j->ntext < cap)
		return j->text;
	doc_json_refuse(j, ERR_INVALID, "the metadata has a text that is too long or not UTF-8");
	return NULL;
}

void meta_copy(char *to, size_t cap, const char *from)
{
	size_t n = strlen(from);

	if (n < cap)
		memcpy(to, from, n + 1);
}

void meta_item_begin(struct meta_item *it)
{
	*it = (struct meta_item){ .fact = FACTS_NONE };
}

static int meta_item_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decode the escapes of a file name. False: no file name (a slash, control bytes, other scripts).
 * Decoded once: a '%25' becomes a '%', and is no escape any more. */
static bool file_name(const char *p, size_t n, char ret[PACKAGE_FILE_MAX])
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		int c = (unsigned char)p[i];

		if (c == '%') {
			int high = i + 2 < n ? meta_item_digit(p[i + 1]) : -1;
			int low = high < 0 ? -1 : meta_item_digit(p[i + 2]);

			if (low < 0)
				return false;
			c = high * 16 + low;
			i += 2;
		}
		if (c <= ' ' || c >= 0x7f || c == '/' || c == '\\' || len == PACKAGE_FILE_MAX - 1)
			return false;
		ret[len++] = (char)c;
	}
	ret[len] = '\0';
	return len > 0 && strcmp(ret, ".") != 0 && strcmp(ret, "..") != 0;
}

/* A file outside of the registry is never shown. */
void meta_item_url(struct package_meta *m, struct meta_item *it, const char *url)
{
	size_t n = strcspn(url, "?#"), begin = n;

	while (begin > 0 && url[begin - 1] != '/')
		begin--;
	if (!file_name(url + begin, n - begin, it->path)) {
		it->path[0] = '\0';
		it->foreign = true;
	}
	if (m->url_allowed != NULL && !m->url_allowed(url, m->arg))
		it->foreign = true;
}

/* npm's times may have made the fact already. The strong digest counts, the weak one only without
 * it. */
void meta_item_end(struct package_meta *m, struct meta_item *it)
{
	struct fact *f;

	if (it->fact == FACTS_NONE) {
		if (facts_add(&m->table, &it->fact, &m->err) < 0 ||
		    facts_set_version(&m->table, it->fact, it->version, &m->err) < 0) {
			meta_check(m, -1);
			return;
		}
	}
	if (facts_set_file(&m->table, it->fact, it->file, &m->err) < 0) {
		meta_check(m, -1);
		return;
	}
	f = &m->table.facts[it->fact];
	f->listed = true;
	f->yanked = it->yanked;
	f->foreign = it->foreign;
	f->size = it->size;
	f->has_time = f->has_time || it->has_time;
	if (it->has_time)
		f->time_ms = it->time_ms;
	facts_set_digest(f, it->digest.alg != DIGEST_NONE ? &it->digest : &it->weak);
}
