#include "tar_pax.h"

#include <stdlib.h>
#include <string.h>

#define XATTR_PREFIX "SCHILY.xattr."
#define SPARSE_PREFIX "GNU.sparse."
#define ACL_PREFIX "SCHILY.acl." /* as GNU tar --acls writes them, with names of users */
#define XATTR_NAME_MAX 255
#define NANO_DIGITS 9

void tar_pax_clear(struct tar_pax *p)
{
	struct tar_piece *pieces = p->pieces;
	size_t room = p->pieces_room;
	struct buf bytes = p->bytes;

	memset(p, 0, sizeof(*p));
	p->pieces = pieces;
	p->pieces_room = room;
	p->bytes = bytes;
	buf_clear(&p->bytes);
}

void tar_pax_release(struct tar_pax *p)
{
	free(p->pieces);
	p->pieces = NULL;
	p->pieces_room = p->npieces = 0;
	buf_release(&p->bytes);
}

bool tar_pax_decimal(const char *p, size_t n, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;

	if (n == 0 || n > 19)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (p[i] < '0' || p[i] > '9')
			return false;
		v = v * 10 + (uint64_t)(p[i] - '0');
	}
	*ret = v;
	return v <= max;
}

/* ---- sparse files */

int tar_pax_piece(struct tar_pax *p, uint64_t offset, uint64_t len, struct err *e)
{
	uint64_t end = 0; /* of the last one */

	if (p->npieces > 0)
		end = p->pieces[p->npieces - 1].offset + p->pieces[p->npieces - 1].len;
	if (offset > TAR_HEAD_SIZE_MAX || len > TAR_HEAD_SIZE_MAX || offset < end)
		return err_set(e, ERR_INVALID, "tar: pieces of a sparse file are not in order");
	if (p->npieces >= TAR_MEMBER_SPARSE_MAX)
		return err_set(e, ERR_LIMIT, "tar: a sparse file of more than %u pieces",
			       TAR_MEMBER_SPARSE_MAX);
	if (p->npieces == p->pieces_room) {
		size_t room = p->pieces_room == 0 ? 16 : 2 * p->pieces_room;
		struct tar_piece *more = realloc(p->pieces, room * sizeof(*more));

		if (more == NULL)
			return err_set(e, ERR_SYSTEM, "out of memory");
		p->pieces = more;
		p->pieces_room = room;
	}
	p->pieces[p->npieces++] = (struct tar_piece){ offset, len };
	return 0;
}

int tar_pax_check_pieces(const struct tar_pax *p, uint64_t body, struct err *e)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < p->npieces; i++) {
		sum += p->pieces[i].len;
		if (sum > body || p->pieces[i].offset + p->pieces[i].len > p->real_size)
			return err_set(e, ERR_INVALID, "tar: a sparse file ends before its pieces");
	}
	return sum != body ? err_set(e, ERR_INVALID,
				     "tar: the pieces of a sparse file are not its content")
			   : 0;
}

/* "offset,length,offset,length,..." */
static int take_map(struct tar_pax *p, const char *value, size_t len, struct err *e)
{
	uint64_t numbers[2];
	unsigned have = 0;

	for (size_t at = 0; at <= len;) {
		const char *comma = at < len ? memchr(value + at, ',', len - at) : NULL;
		size_t n = comma == NULL ? len - at : (size_t)(comma - value) - at;

		if (!tar_pax_decimal(value + at, n, TAR_HEAD_SIZE_MAX, &numbers[have]))
			return err_set(e, ERR_INVALID, "tar: malformed map of a sparse file");
		have++;
		if (have == 2) {
			have = 0;
			if (tar_pax_piece(p, numbers[0], numbers[1], e) < 0)
				return -1;
		}
		at += n + 1;
	}
	return have == 0 ? 0 : err_set(e, ERR_INVALID, "tar: malformed map of a sparse file");
}

static bool is(const char *key, size_t n, const char *word)
{
	return strlen(word) == n && memcmp(key, word, n) == 0;
}

static int take_name(char ret[TAR_HEAD_PATH_MAX], const char *value, size_t len, struct err *e)
{
	if (len >= TAR_HEAD_PATH_MAX || memchr(value, '\0', len) != NULL)
		return err_set(e, ERR_INVALID, "tar: a name of 4096 bytes or more, or with NUL");
	memcpy(ret, value, len);
	ret[len] = '\0';
	return 0;
}

static int take_sparse(struct tar_pax *p, const char *key, size_t n, const char *value, size_t len,
		       struct err *e)
{
	uint64_t number = 0;

	if (is(key, n, "name"))
		return take_name(p->sparse_name, value, len, e);
	p->is_sparse = true;
	if (is(key, n, "map"))
		return take_map(p, value, len, e);
	if (!tar_pax_decimal(value, len, TAR_HEAD_SIZE_MAX, &number))
		return err_set(e, ERR_INVALID, "tar: malformed number of a sparse file");
	if (is(key, n, "major")) {
		p->map_in_body = number == 1;
		if (number > 1)
			return err_set(e, ERR_UNSUPPORTED,
				       "tar: sparse files of this version are not supported");
	} else if (is(key, n, "realsize") || is(key, n, "size")) {
		p->has_real_size = true;
		p->real_size = number;
	} else if (is(key, n, "offset")) {
		return tar_pax_piece(p, number, 0, e);
	} else if (is(key, n, "numbytes")) {
		if (p->npieces == 0 || p->pieces[p->npieces - 1].len != 0)
			return err_set(e, ERR_INVALID, "tar: malformed map of a sparse file");
		p->pieces[p->npieces - 1].len = number;
	}
	return 0;
}

/* ---- the other records */

/* Seconds, with a sign and a fraction of up to nine digits that count. */
static void take_mtime(struct tar_pax *p, const char *value, size_t len)
{
	bool negative = len > 0 && value[0] == '-';
	size_t start = negative, digits = start;
	uint64_t seconds, scale = 100000000;

	while (digits < len && value[digits] >= '0' && value[digits] <= '9')
		digits++;
	if (!tar_pax_decimal(value + start, digits - start, TAR_HEAD_SIZE_MAX, &seconds))
		return; /* a time is no reason to refuse a file */
	p->has_mtime = true;
	p->mtime = negative ? -(int64_t)seconds : (int64_t)seconds;
	p->mtime_ns = 0;
	if (digits == len || value[digits] != '.')
		return;
	for (size_t i = digits + 1; i < len && i <= digits + NANO_DIGITS; i++, scale /= 10)
		if (value[i] >= '0' && value[i] <= '9')
			p->mtime_ns += (uint32_t)((uint64_t)(value[i] - '0') * scale);
	if (negative && p->mtime_ns > 0) { /* -1.25 s are -2 s and 0.75 of a second */
		p->mtime--;
		p->mtime_ns = 1000000000 - p->mtime_ns;
	}
}

/* key ends in NUL here. The last of two with one name counts. */
static int take_xattr(struct tar_pax *p, const char *name, const char *value, size_t len,
		      struct err *e)
{
	size_t i = 0;

	if (name[0] == '\0' || strlen(name) > XATTR_NAME_MAX)
		return err_set(e, ERR_INVALID, "tar: malformed name of an attribute");
	while (i < p->nxattrs && strcmp(p->xattrs[i].name, name) != 0)
		i++;
	if (i == TAR_MEMBER_XATTRS_MAX)
		return err_set(e, ERR_LIMIT, "tar: a member with more than %d attributes",
			       TAR_MEMBER_XATTRS_MAX);
	p->xattrs[i] = (struct tar_xattr){ name, (const uint8_t *)value, len };
	if (i == p->nxattrs)
		p->nxattrs++;
	return 0;
}

static int take_number(const char *value, size_t len, uint64_t *ret, bool *ret_has, struct err *e)
{
	*ret_has = tar_pax_decimal(value, len, TAR_HEAD_SIZE_MAX, ret);
	return *ret_has ? 0 : err_set(e, ERR_INVALID, "tar: malformed number in a pax record");
}

static int take(struct tar_pax *p, char *key, size_t n, const char *value, size_t len,
		struct err *e)
{
	const size_t xattr = sizeof(XATTR_PREFIX) - 1, sparse = sizeof(SPARSE_PREFIX) - 1;

	if (is(key, n, "path"))
		return take_name(p->path, value, len, e);
	if (is(key, n, "linkpath"))
		return take_name(p->link, value, len, e);
	if (is(key, n, "size"))
		return take_number(value, len, &p->size, &p->has_size, e);
	if (is(key, n, "uid"))
		return take_number(value, len, &p->uid, &p->has_uid, e);
	if (is(key, n, "gid"))
		return take_number(value, len, &p->gid, &p->has_gid, e);
	if (is(key, n, "mtime"))
		take_mtime(p, value, len);
	if (n >= sizeof(ACL_PREFIX) - 1 && memcmp(key, ACL_PREFIX, sizeof(ACL_PREFIX) - 1) == 0)
		return err_set(e, ERR_UNSUPPORTED,
			       "tar: an ACL as text (" ACL_PREFIX "...) is not supported; as an "
			       "attribute (" XATTR_PREFIX "system.posix_acl_...) it is");
	if (n > sparse && memcmp(key, SPARSE_PREFIX, sparse) == 0)
		return take_sparse(p, key + sparse, n - sparse, value, len, e);
	if (n > xattr && memcmp(key, XATTR_PREFIX, xattr) == 0 && memchr(key, '\0', n) == NULL) {
		key[n] = '\0'; /* in place of '=' */
		return take_xattr(p, key + xattr, value, len, e);
	}
	return 0;
}

int tar_pax_read(struct tar_pax *p, char *body, size_t len, struct err *e)
{
	for (size_t at = 0; at < len;) {
		const char *space = memchr(body + at, ' ', len - at);
		size_t digits = space == NULL ? 0 : (size_t)(space - (body + at));
		char *key, *equals;
		uint64_t n;

		/* The number counts itself, the space, the keyword, the value and the newline. */
		if (!tar_pax_decimal(body + at, digits, len - at, &n) || n < digits + 2 ||
		    body[at + n - 1] != '\n')
			return err_set(e, ERR_INVALID, "tar: malformed pax record");
		key = body + at + digits + 1;
		equals = memchr(key, '=', (size_t)(body + at + n - 1 - key));
		if (equals == NULL || equals == key)
			return err_set(e, ERR_INVALID, "tar: pax record without a keyword");
		if (take(p, key, (size_t)(equals - key), equals + 1,
			 (size_t)(body + at + n - 1 - (equals + 1)), e) < 0)
			return -1;
		at += n;
	}
	return 0;
}
