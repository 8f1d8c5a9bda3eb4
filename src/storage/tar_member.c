#include "tar_member.h"

#include <stdlib.h>
#include <string.h>

#include "tar_pax.h"

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

static int read_exactly(struct tar_reader *r, void *ret, size_t n, const char *where, struct err *e)
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

static int read_block(struct tar_reader *r, uint8_t ret[TAR_HEAD_BLOCK], struct err *e)
{
	return read_exactly(r, ret, TAR_HEAD_BLOCK, "without its end marker", e);
}

static int skip_body(struct tar_reader *r, struct err *e)
{
	while (r->left > 0 || r->padding > 0) {
		uint64_t n = r->left > 0 ? r->left : r->padding;

		if (n > SKIP_SIZE)
			n = SKIP_SIZE;
		if (read_exactly(r, r->skip, (size_t)n, "in the middle of a member", e) < 0)
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

/* Appends the body of an extension to the records. Where they are does not change while the member
 * is used: room for all is reserved at first. */
static int read_pax(struct tar_reader *r, const struct tar_head *h, struct err *e)
{
	size_t n = (size_t)h->size + tar_head_padding(h->size);
	size_t at = r->pax.bytes.len;

	if (h->size > TAR_MEMBER_PAX_MAX || at + n > TAR_MEMBER_PAX_MAX ||
	    (at == 0 && buf_reserve(&r->pax.bytes, TAR_MEMBER_PAX_MAX, e) == NULL))
		return err_set(e, ERR_LIMIT, "tar: pax records of more than 1 MiB");
	if (read_exactly(r, r->pax.bytes.data + at, n, "in the middle of a pax record", e) < 0)
		return -1;
	buf_commit(&r->pax.bytes, n);
	return tar_pax_read(&r->pax, (char *)r->pax.bytes.data + at, (size_t)h->size, e);
}

static int read_long(struct tar_reader *r, const struct tar_head *h, char *ret, struct err *e)
{
	char body[LONG_NAME_MAX];
	size_t n = (size_t)h->size + tar_head_padding(h->size);
	const char *end;

	if (h->size > TAR_HEAD_PATH_MAX)
		return err_set(e, ERR_INVALID, "tar: long name of 4096 bytes or more");
	if (read_exactly(r, body, n, "in the middle of a long name", e) < 0)
		return -1;
	end = memchr(body, '\0', (size_t)h->size);
	n = end == NULL ? (size_t)h->size : (size_t)(end - body);
	if (n >= TAR_HEAD_PATH_MAX)
		return err_set(e, ERR_INVALID, "tar: long name of 4096 bytes or more");
	memcpy(ret, body, n);
	ret[n] = '\0';
	return 0;
}

/* 1: it was an extension; 0: a member. */
static int take_extension(struct tar_reader *r, const struct tar_head *h, struct err *e)
{
	int rc;

	if (h->type == TAR_HEAD_PAX || h->type == 'X')
		rc = read_pax(r, h, e);
	else if (h->type == TAR_HEAD_LONG_NAME)
		rc = read_long(r, h, r->long_name, e);
	else if (h->type == TAR_HEAD_LONG_LINK)
		rc = read_long(r, h, r->long_link, e);
	else if (h->type == TAR_HEAD_PAX_GLOBAL) {
		r->left = h->size; /* comments; nothing in it counts here */
		r->padding = tar_head_padding(h->size);
		rc = skip_body(r, e);
	} else
		return 0;
	return rc < 0 ? -1 : 1;
}

static void apply(const struct tar_reader *r, struct tar_member *m)
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
static int take_old_entries(struct tar_reader *r, const uint8_t *at, unsigned n, struct err *e)
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

static int read_old_sparse(struct tar_reader *r, const uint8_t *block, struct err *e)
{
	enum { ENTRIES = 386, MORE = 482, REAL_SIZE = 483, MORE_IN_BLOCK = 504 };
	uint8_t next[TAR_HEAD_BLOCK];
	bool more = block[MORE] != 0;

	r->pax.is_sparse = r->pax.has_real_size = true;
	if (!tar_head_number(block + REAL_SIZE, 12, &r->pax.real_size))
		return err_set(e, ERR_INVALID, "tar: malformed size of a sparse file");
	if (take_old_entries(r, block + ENTRIES, 4, e) < 0)
		return -1;
	while (more) {
		if (read_block(r, next, e) < 0 || take_old_entries(r, next, 21, e) < 0)
			return -1;
		more = next[MORE_IN_BLOCK] != 0;
	}
	return 0;
}

/* One decimal number and a newline of a map in the body. */
static int read_map_number(struct tar_reader *r, uint8_t *block, size_t *at, uint64_t *ret,
			   struct err *e)
{
	char digits[20];
	size_t n = 0;

	for (;;) {
		if (*at == TAR_HEAD_BLOCK) {
			if (r->left < TAR_HEAD_BLOCK)
				return err_set(e, ERR_INVALID,
					       "tar: the map of a sparse file is too long");
			if (read_block(r, block, e) < 0)
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
static int read_map(struct tar_reader *r, struct err *e)
{
	uint8_t block[TAR_HEAD_BLOCK] = { 0 };
	size_t at = TAR_HEAD_BLOCK;
	uint64_t n, offset, len;

	if (read_map_number(r, block, &at, &n, e) < 0)
		return -1;
	if (n > TAR_MEMBER_SPARSE_MAX)
		return err_set(e, ERR_LIMIT, "tar: a sparse file of more than %u pieces",
			       TAR_MEMBER_SPARSE_MAX);
	for (; n > 0; n--)
		if (read_map_number(r, block, &at, &offset, e) < 0 ||
		    read_map_number(r, block, &at, &len, e) < 0 ||
		    tar_pax_piece(&r->pax, offset, len, e) < 0)
			return -1;
	return 0;
}

static int finish_sparse(struct tar_reader *r, struct tar_member *m, struct err *e)
{
	if (m->head.type != TAR_HEAD_FILE || !r->pax.has_real_size)
		return err_set(e, ERR_INVALID, "tar: malformed sparse file");
	if (r->pax.map_in_body) {
		r->pax.npieces = 0;
		if (read_map(r, e) < 0)
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

static int take_member(struct tar_reader *r, struct tar_member *m, const uint8_t *block,
		       struct err *e)
{
	if (m->head.type == TYPE_OLD_SPARSE) {
		if (read_old_sparse(r, block, e) < 0)
			return -1;
		m->head.type = TAR_HEAD_FILE;
	}
	apply(r, m);
	r->left = m->head.size;
	r->padding = tar_head_padding(m->head.size);
	m->real_size = m->head.size;
	if (r->pax.is_sparse && finish_sparse(r, m, e) < 0)
		return -1;
	r->at = stream_in_total(r->in);
	return 0;
}

int tar_reader_next(struct tar_reader *r, struct tar_member *ret, struct err *e)
{
	uint8_t block[TAR_HEAD_BLOCK];
	int rc;

	if (skip_body(r, e) < 0)
		return -1;
	tar_pax_clear(&r->pax);
	r->long_name[0] = r->long_link[0] = '\0';
	ret->is_sparse = false;
	ret->mtime_ns = 0;
	ret->npieces = ret->nxattrs = 0;
	for (unsigned i = 0; i <= EXTENSIONS_MAX; i++) {
		if (read_block(r, block, e) < 0)
			return -1;
		rc = tar_head_read(block, &ret->head, e);
		if (rc != 0)
			return rc;
		rc = take_extension(r, &ret->head, e);
		if (rc < 0)
			return -1;
		if (rc == 0)
			return take_member(r, ret, block, e);
	}
	return err_set(e, ERR_LIMIT, "tar: too many extensions for one member");
}
