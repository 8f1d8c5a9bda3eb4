/* meta_sums.c - documents that say the digest of one file or module: the checksum file beside a
 * file of a Maven repository, and an answer of Go's checksum database. Called by meta_lines.c.
 *
 * Strict: one digest, of the module that was asked for; what is left open, or said twice, is
 * refused. The signature in an answer of the database is of the tree's head alone, and says nothing
 * of the record beside it without the hashes between both: go checks these, this reader does not.
 */
#include <stdio.h>
#include <string.h>

#include "package_meta_private.h"

#define MOD "/go.mod"

static void refuse(struct package_meta *m, const char *why)
{
	if (m->err.code == ERR_NONE)
		(void)err_set(&m->err, ERR_INVALID, "%s", why);
}

static void add_item(struct package_meta *m)
{
	meta_item_end(m, &m->item);
	meta_item_begin(&m->item);
}

/* ---- Maven: HEX, HEX FILE, or ALGORITHM(FILE)= HEX */

static bool read_hex(const char *p, size_t n, struct digest *ret)
{
	static const enum digest_alg algs[] = { DIGEST_SHA1, DIGEST_SHA256, DIGEST_SHA512 };

	for (size_t i = 0; i < sizeof(algs) / sizeof(algs[0]); i++)
		if (digest_read_hex(algs[i], p, n, ret))
			return true;
	return false;
}

static bool read_checksum(const char *line, struct digest *ret)
{
	const char *first = line + strspn(line, " \t"), *last = strrchr(line, '=');

	if (read_hex(first, strcspn(first, " \t"), ret))
		return true;
	if (last == NULL)
		return false;
	last += 1 + strspn(last + 1, " \t");
	return read_hex(last, strcspn(last, " \t"), ret);
}

void meta_sums_checksum(struct package_meta *m, const struct doc_lines *l)
{
	if (l->line[strspn(l->line, " \t")] == '\0' && !l->odd)
		return;
	if (l->cut || l->odd || m->table.n > 0 || !read_checksum(l->line, &m->item.digest)) {
		refuse(m, "this is no checksum file, or has more than one checksum");
		return;
	}
	meta_copy(m->item.file, sizeof(m->item.file), "checksum");
	add_item(m);
}

/* ---- Go: NUMBER, MODULE VERSION h1:..., MODULE VERSION/go.mod h1:..., "", the signed head */

static bool is_number(const char *text)
{
	return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* MODULE VERSION HASH, with one space between them; each in the item. */
static bool read_record(struct package_meta *m, const char *line)
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

static bool ends_with_mod(const char *version)
{
	size_t n = strlen(version);

	return n > sizeof(MOD) - 1 && strcmp(version + n - (sizeof(MOD) - 1), MOD) == 0;
}

static void take_record(struct package_meta *m, const struct doc_lines *l, bool is_mod)
{
	if (!read_record(m, l->line) || ends_with_mod(m->item.version) != is_mod) {
		refuse(m, "the checksum database answered with another record");
		return;
	}
	add_item(m);
}

void meta_sums_database(struct package_meta *m, const struct doc_lines *l)
{
	unsigned number = m->nlines < 6 ? m->nlines++ : 6;

	if (number > 4)
		return; /* the head of the tree */
	if (l->cut || l->odd)
		refuse(m, "the checksum database answered with a line that is too long");
	else if (number == 1 || number == 2)
		take_record(m, l, number == 2);
	else if ((number == 0 && !is_number(l->line)) || (number == 3 && l->n > 0) ||
		 (number == 4 && strcmp(l->line, "go.sum database tree") != 0))
		refuse(m, "this is no answer of a checksum database");
}

void meta_sums_end(struct package_meta *m)
{
	bool is_whole = m->doc == DOC_CHECKSUM	 ? m->table.n == 1
			: m->doc == DOC_GO_SUMDB ? m->nlines > 5
						 : true;

	if (!is_whole)
		refuse(m, "it has no checksum, or ends before it is complete");
}
