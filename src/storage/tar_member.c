#include "storage/tar_member.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"

struct tar_pax {
	struct buf bytes; /* of all records. Xattrs and names point into copies of it */
	char path[TAR_HEAD_PATH_MAX], link[TAR_HEAD_PATH_MAX], sparse_name[TAR_HEAD_PATH_MAX];
	bool has_size, has_uid, has_gid, has_mtime;
	uint64_t size, uid, gid;
	int64_t mtime;
	uint32_t mtime_ns;
	/* GNU's sparse files of three versions: a map in the body (1.0), in one record (0.1), in
	 * records of their own (0.0) */
	bool is_sparse, map_in_body, has_real_size;
	uint64_t real_size;
	struct tar_piece *pieces; /* owned */
	size_t npieces, pieces_room;
	struct tar_xattr xattrs[TAR_MEMBER_XATTRS_MAX];
	size_t nxattrs;
};

/* ---- records of pax extensions, collected for one member. Pure */

#define XATTR_PREFIX "SCHILY.xattr."
#define SPARSE_PREFIX "GNU.sparse."
#define ACL_PREFIX "SCHILY.acl." /* as GNU tar --acls writes them, with names of users */
#define XATTR_NAME_MAX 255
#define NANO_DIGITS 9

/* Empty again. Memory is kept. */
static void tar_pax_clear(struct tar_pax *p)
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

static void tar_pax_release(struct tar_pax *p)
{
	free(p->pieces);
	p->pieces = NULL;
	p->pieces_room = p->npieces = 0;
	buf_release(&p->bytes);
}

/* A decimal number of n digits, nothing else. */
static bool tar_pax_decimal(const char *p, size_t n, uint64_t max, uint64_t *ret)
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

/* Append a piece. Pieces ascend and do not overlap, so no byte is written twice. */
static int tar_pax_piece(struct tar_pax *p, uint64_t offset, uint64_t len, struct err *e)
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

/* Do the pieces lie within the file, and are they as many bytes as the body has? */
static int tar_pax_check_pieces(const struct tar_pax *p, uint64_t body, struct err *e)
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
static int tar_pax_take_map(struct tar_pax *p, const char *value, size_t len, struct err *e)
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

static bool tar_pax_is(const char *key, size_t n, const char *word)
{
	return strlen(word) == n && memcmp(key, word, n) == 0;
}

static int tar_pax_take_name(char ret[TAR_HEAD_PATH_MAX], const char *value, size_t len,
			     struct err *e)
{
	if (len >= TAR_HEAD_PATH_MAX || memchr(value, '\0', len) != NULL)
		return err_set(e, ERR_INVALID, "tar: a name of 4096 bytes or more, or with NUL");
	memcpy(ret, value, len);
	ret[len] = '\0';
	return 0;
}

/* One record of a sparse file. key is the part behind "GNU.sparse.". */
static int tar_pax_take_sparse(struct tar_pax *p, const char *key, size_t n, const char *value,
			       size_t len, struct err *e)
{
	uint64_t number = 0;

	if (tar_pax_is(key, n, "name"))
		return tar_pax_take_name(p->sparse_name, value, len, e);
	p->is_sparse = true;
	if (tar_pax_is(key, n, "map"))
		return tar_pax_take_map(p, value, len, e);
	if (!tar_pax_decimal(value, len, TAR_HEAD_SIZE_MAX, &number))
		return err_set(e, ERR_INVALID, "tar: malformed number of a sparse file");
	if (tar_pax_is(key, n, "major")) {
		p->map_in_body = number == 1;
		if (number > 1)
			return err_set(e, ERR_UNSUPPORTED,
				       "tar: sparse files of this version are not supported");
	} else if (tar_pax_is(key, n, "realsize") || tar_pax_is(key, n, "size")) {
		p->has_real_size = true;
		p->real_size = number;
	} else if (tar_pax_is(key, n, "offset")) {
		return tar_pax_piece(p, number, 0, e);
	} else if (tar_pax_is(key, n, "numbytes")) {
		if (p->npieces == 0 || p->pieces[p->npieces - 1].len != 0)
			return err_set(e, ERR_INVALID, "tar: malformed map of a sparse file");
		p->pieces[p->npieces - 1].len = number;
	}
	return 0;
}

/* ---- the other records */

/* Seconds, with a sign and a fraction of up to nine digits that count. */
static void tar_pax_take_mtime(struct tar_pax *p, const char *value, size_t len)
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
static int tar_pax_take_xattr(struct tar_pax *p, const char *name, const char *value, size_t len,
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

static int tar_pax_take_number(const char *value, size_t len, uint64_t *ret, bool *ret_has,
			       struct err *e)
{
	*ret_has = tar_pax_decimal(value, len, TAR_HEAD_SIZE_MAX, ret);
	return *ret_has ? 0 : err_set(e, ERR_INVALID, "tar: malformed number in a pax record");
}

/* One record. Unknown keywords are passed over. */
static int tar_pax_take(struct tar_pax *p, char *key, size_t n, const char *value, size_t len,
			struct err *e)
{
	const size_t xattr = sizeof(XATTR_PREFIX) - 1, sparse = sizeof(SPARSE_PREFIX) - 1;

	if (tar_pax_is(key, n, "path"))
		return tar_pax_take_name(p->path, value, len, e);
	if (tar_pax_is(key, n, "linkpath"))
		return tar_pax_take_name(p->link, value, len, e);
	if (tar_pax_is(key, n, "size"))
		return tar_pax_take_number(value, len, &p->size, &p->has_size, e);
	if (tar_pax_is(key, n, "uid"))
		return tar_pax_take_number(value, len, &p->uid, &p->has_uid, e);
	if (tar_pax_is(key, n, "gid"))
		return tar_pax_take_number(value, len, &p->gid, &p->has_gid, e);
	if (tar_pax_is(key, n, "mtime"))
		tar_pax_take_mtime(p, value, len);
	if (n >= sizeof(ACL_PREFIX) - 1 && memcmp(key, ACL_PREFIX, sizeof(ACL_PREFIX) - 1) == 0)
		return err_set(e, ERR_UNSUPPORTED,
			       "tar: an ACL as text (" ACL_PREFIX "...) is not supported; as an "
			       "attribute (" XATTR_PREFIX "system.posix_acl_...) it is");
	if (n > sparse && memcmp(key, SPARSE_PREFIX, sparse) == 0)
		return tar_pax_take_sparse(p, key + sparse, n - sparse, value, len, e);
	if (n > xattr && memcmp(key, XATTR_PREFIX, xattr) == 0 && memchr(key, '\0', n) == NULL) {
		key[n] = '\0'; /* in place of '=' */
		return tar_pax_take_xattr(p, key + xattr, value, len, e);
	}
	return 0;
}

/* Read the body of an extension: whole records. Values stay in body, which must not change while
 * the member is used. */
static int tar_pax_read(struct tar_pax *p, char *body, size_t len, struct err *e)
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
		if (tar_pax_take(p, key, (size_t)(equals - key), equals + 1,
				 (size_t)(body + at + n - 1 - (equals + 1)), e) < 0)
			return -1;
		at += n;
	}
	return 0;
}

#define EXTENSIONS_MAX 16 /* in front of one member */
#define LONG_NAME_MAX (TAR_HEAD_PATH_MAX + TAR_HEAD_BLOCK)
#define SKIP_SIZE 65536U
#define TYPE_OLD_SPARSE 'S'

struct tar_reader {
	struct stream_in *in; /* borrowed */
	uint64_t left;	      /* of the body */
	size_t padding;	      /* behind it */
	uint64_t at;
	struct tar_pax pax;
	char long_name[TAR_HEAD_PATH_MAX], long_link[TAR_HEAD_PATH_MAX];
	uint8_t skip[SKIP_SIZE];
};

struct tar_reader *tar_reader_new(struct stream_in *in, struct err *e)
{
	struct tar_reader *r = calloc(1, sizeof(*r));

	if (r == NULL) {
		(void)err_set(e, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	r->in = in;
	buf_init(&r->pax.bytes, TAR_MEMBER_PAX_MAX);
	return r;
}

void tar_reader_free(struct tar_reader *r)
{
	if (r != NULL)
		tar_pax_release(&r->pax);
	free(r);
}

uint64_t tar_reader_at(const struct tar_reader *r)
{
	return r->at;
}

/* ---- bytes */

static int tar_read_exactly(struct tar_reader *r, void *ret, size_t n, const char *where,
			    struct err *e)
{
	for (size_t got = 0; got < n;) {
		ssize_t more = stream_in_read(r->in, (uint8_t *)ret + got, n - got, e);

		if (more < 0)
			return -1;
		if (more == 0)
			return err_set(e, ERR_INVALID, "tar: ends %s", where);
		got += (size_t)more;
	}
	return 0;
}

static int tar_read_block(struct tar_reader *r, uint8_t ret[TAR_HEAD_BLOCK], struct err *e)
{
	return tar_read_exactly(r, ret, TAR_HEAD_BLOCK, "without its end marker", e);
}

static int tar_skip_body(struct tar_reader *r, struct err *e)
{
	while (r->left > 0 || r->padding > 0) {
		uint64_t n = r->left > 0 ? r->left : r->padding;

		if (n > SKIP_SIZE)
			n = SKIP_SIZE;
		if (tar_read_exactly(r, r->skip, (size_t)n, "in the middle of a member", e) < 0)
			return -1;
		if (r->left > 0)
			r->left -= n;
		else
			r->padding -= (size_t)n;
	}
	return 0;
}

ssize_t tar_reader_body(struct tar_reader *r, void *ret, size_t cap, struct err *e)
{
	ssize_t n;

	if (r->left == 0)
		return 0;
	n = stream_in_read(r->in, ret, r->left < cap ? (size_t)r->left : cap, e);
	if (n == 0)
		return err_set(e, ERR_INVALID, "tar: ends in the middle of a member");
	if (n > 0)
		r->left -= (uint64_t)n;
	return n;
}

ssize_t tar_reader_splice(struct tar_reader *r, int to, uint64_t n, struct err *e)
{
	ssize_t moved = r->left < n ? 0 : stream_in_splice(r->in, to, n, e);

	if (moved > 0)
		r->left -= (uint64_t)moved;
	return moved;
}

/* ---- extensions */

/* Append the body of an extension to the records. Where they are does not change while the member
 * is used: room for all is reserved at first. */
static int tar_read_pax(struct tar_reader *r, const struct tar_head *h, struct err *e)
{
	size_t n = (size_t)h->size + tar_head_padding(h->size);
	size_t at = r->pax.bytes.len;

	if (h->size > TAR_MEMBER_PAX_MAX || at + n > TAR_MEMBER_PAX_MAX ||
	    (at == 0 && buf_reserve(&r->pax.bytes, TAR_MEMBER_PAX_MAX, e) == NULL))
		return err_set(e, ERR_LIMIT, "tar: pax records of more than 1 MiB");
	if (tar_read_exactly(r, r->pax.bytes.data + at, n, "in the middle of a pax record", e) < 0)
		return -1;
	buf_commit(&r->pax.bytes, n);
	return tar_pax_read(&r->pax, (char *)r->pax.bytes.data + at, (size_t)h->size, e);
}

/* The body of a GNU header with a long name. ret has room for TAR_HEAD_PATH_MAX bytes. */
static int tar_read_long(struct tar_reader *r, const struct tar_head *h, char *ret, struct err *e)
{
	char body[LONG_NAME_MAX];
	size_t n = (size_t)h->size + tar_head_padding(h->size);
	const char *end;

	if (h->size > TAR_HEAD_PATH_MAX)
		return err_set(e, ERR_INVALID, "tar: long name of 4096 bytes or more");
	if (tar_read_exactly(r, body, n, "in the middle of a long name", e) < 0)
		return -1;
	end = memchr(body, '\0', (size_t)h->size);
	n = end == NULL ? (size_t)h->size : (size_t)(end - body);
	if (n >= TAR_HEAD_PATH_MAX)
		return err_set(e, ERR_INVALID, "tar: long name of 4096 bytes or more");
	memcpy(ret, body, n);
	ret[n] = '\0';
	return 0;
}

/* 1: it was an extension. 0: a member. */
static int tar_take_extension(struct tar_reader *r, const struct tar_head *h, struct err *e)
{
	int rc;

	if (h->type == TAR_HEAD_PAX || h->type == 'X')
		rc = tar_read_pax(r, h, e);
	else if (h->type == TAR_HEAD_LONG_NAME)
		rc = tar_read_long(r, h, r->long_name, e);
	else if (h->type == TAR_HEAD_LONG_LINK)
		rc = tar_read_long(r, h, r->long_link, e);
	else if (h->type == TAR_HEAD_PAX_GLOBAL) {
		r->left = h->size; /* comments. Nothing in it counts here */
		r->padding = tar_head_padding(h->size);
		rc = tar_skip_body(r, e);
	} else
		return 0;
	return rc < 0 ? -1 : 1;
}

/* Put the extensions in place of the header's fields. Pax records win over GNU's long names. */
static void tar_apply(const struct tar_reader *r, struct tar_member *m)
{
	const struct tar_pax *p = &r->pax;
	const char *path = p->sparse_name[0] != '\0' ? p->sparse_name
			   : p->path[0] != '\0'	     ? p->path
						     : r->long_name;
	const char *link = p->link[0] != '\0' ? p->link : r->long_link;

	if (path[0] != '\0')
		memcpy(m->head.path, path, strlen(path) + 1);
	if (link[0] != '\0')
		memcpy(m->head.link, link, strlen(link) + 1);
	if (p->has_size)
		m->head.size = p->size;
	if (p->has_uid)
		m->head.uid = p->uid;
	if (p->has_gid)
		m->head.gid = p->gid;
	if (p->has_mtime) {
		m->head.mtime = p->mtime;
		m->mtime_ns = p->mtime_ns;
	}
	memcpy(m->xattrs, p->xattrs, p->nxattrs * sizeof(m->xattrs[0]));
	m->nxattrs = p->nxattrs;
	/* Some programs write a size for these types, but no content. */
	if (strchr("123456", m->head.type) != NULL && m->head.type != '\0')
		m->head.size = 0;
}

/* ---- sparse files */

/* Of GNU's old format: n entries of two numbers with 12 bytes each. */
static int tar_take_old_entries(struct tar_reader *r, const uint8_t *at, unsigned n, struct err *e)
{
	for (unsigned i = 0; i < n; i++, at += 24) {
		uint64_t offset, len;

		if (at[0] == 0)
			return 0;
		if (!tar_head_number(at, 12, &offset) || !tar_head_number(at + 12, 12, &len))
			return err_set(e, ERR_INVALID, "tar: malformed map of a sparse file");
		if (tar_pax_piece(&r->pax, offset, len, e) < 0)
			return -1;
	}
	return 0;
}

/* The header has four pieces, and each further block has 21. */
static int tar_read_old_sparse(struct tar_reader *r, const uint8_t *block, struct err *e)
{
	enum { ENTRIES = 386, MORE = 482, REAL_SIZE = 483, MORE_IN_BLOCK = 504 };
	uint8_t next[TAR_HEAD_BLOCK];
	bool more = block[MORE] != 0;

	r->pax.is_sparse = r->pax.has_real_size = true;
	if (!tar_head_number(block + REAL_SIZE, 12, &r->pax.real_size))
		return err_set(e, ERR_INVALID, "tar: malformed size of a sparse file");
	if (tar_take_old_entries(r, block + ENTRIES, 4, e) < 0)
		return -1;
	while (more) {
		if (tar_read_block(r, next, e) < 0 || tar_take_old_entries(r, next, 21, e) < 0)
			return -1;
		more = next[MORE_IN_BLOCK] != 0;
	}
	return 0;
}

/* One decimal number and a newline of a map in the body. */
static int tar_read_map_number(struct tar_reader *r, uint8_t *block, size_t *at, uint64_t *ret,
			       struct err *e)
{
	char digits[20];
	size_t n = 0;

	for (;;) {
		if (*at == TAR_HEAD_BLOCK) {
			if (r->left < TAR_HEAD_BLOCK)
				return err_set(e, ERR_INVALID,
					       "tar: the map of a sparse file is too long");
			if (tar_read_block(r, block, e) < 0)
				return -1;
			r->left -= TAR_HEAD_BLOCK;
			*at = 0;
		}
		if (block[*at] == '\n')
			break;
		if (n == sizeof(digits))
			return err_set(e, ERR_INVALID, "tar: malformed map of a sparse file");
		digits[n++] = (char)block[(*at)++];
	}
	(*at)++;
	return tar_pax_decimal(digits, n, TAR_HEAD_SIZE_MAX, ret)
		       ? 0
		       : err_set(e, ERR_INVALID, "tar: malformed map of a sparse file");
}

/* Version 1.0: the body begins with the map, filled up to whole blocks. */
static int tar_read_map(struct tar_reader *r, struct err *e)
{
	uint8_t block[TAR_HEAD_BLOCK] = { 0 };
	size_t at = TAR_HEAD_BLOCK;
	uint64_t n, offset, len;

	if (tar_read_map_number(r, block, &at, &n, e) < 0)
		return -1;
	if (n > TAR_MEMBER_SPARSE_MAX)
		return err_set(e, ERR_LIMIT, "tar: a sparse file of more than %u pieces",
			       TAR_MEMBER_SPARSE_MAX);
	for (; n > 0; n--)
		if (tar_read_map_number(r, block, &at, &offset, e) < 0 ||
		    tar_read_map_number(r, block, &at, &len, e) < 0 ||
		    tar_pax_piece(&r->pax, offset, len, e) < 0)
			return -1;
	return 0;
}

/* head.size becomes the bytes of the body without its map. */
static int tar_finish_sparse(struct tar_reader *r, struct tar_member *m, struct err *e)
{
	if (m->head.type != TAR_HEAD_FILE || !r->pax.has_real_size)
		return err_set(e, ERR_INVALID, "tar: malformed sparse file");
	if (r->pax.map_in_body) {
		r->pax.npieces = 0;
		if (tar_read_map(r, e) < 0)
			return -1;
		m->head.size = r->left;
	}
	if (tar_pax_check_pieces(&r->pax, m->head.size, e) < 0)
		return -1;
	m->is_sparse = true;
	m->real_size = r->pax.real_size;
	m->pieces = r->pax.pieces;
	m->npieces = r->pax.npieces;
	return 0;
}

/* ---- members */

static int tar_take_member(struct tar_reader *r, struct tar_member *m, const uint8_t *block,
			   struct err *e)
{
	if (m->head.type == TYPE_OLD_SPARSE) {
		if (tar_read_old_sparse(r, block, e) < 0)
			return -1;
		m->head.type = TAR_HEAD_FILE;
	}
	tar_apply(r, m);
	r->left = m->head.size;
	r->padding = tar_head_padding(m->head.size);
	m->real_size = m->head.size;
	if (r->pax.is_sparse && tar_finish_sparse(r, m, e) < 0)
		return -1;
	r->at = stream_in_total(r->in);
	return 0;
}

int tar_reader_next(struct tar_reader *r, struct tar_member *ret, struct err *e)
{
	uint8_t block[TAR_HEAD_BLOCK];
	int rc;

	if (tar_skip_body(r, e) < 0)
		return -1;
	tar_pax_clear(&r->pax);
	r->long_name[0] = r->long_link[0] = '\0';
	ret->is_sparse = false;
	ret->mtime_ns = 0;
	ret->npieces = ret->nxattrs = 0;
	for (unsigned i = 0; i <= EXTENSIONS_MAX; i++) {
		if (tar_read_block(r, block, e) < 0)
			return -1;
		rc = tar_head_read(block, &ret->head, e);
		if (rc != 0)
			return rc;
		rc = tar_take_extension(r, &ret->head, e);
		if (rc < 0)
			return -1;
		if (rc == 0)
			return tar_take_member(r, ret, block, e);
	}
	return err_set(e, ERR_LIMIT, "tar: too many extensions for one member");
}
