/* erofs_image.c - see erofs_image.h. First every node gets its place, because directories name
 * nodes by their places; then all is written from front to back. */
#include "erofs_image.h"

#include <endian.h>
#include <string.h>
#include <unistd.h>

#include "erofs_disk.h"
#include "io.h"
#include "storage_ops.h"

#define FIRST_AT 64U /* of the root directory's inode: no inode has the number 0 */

int erofs_image_check(uint64_t blocks, uint64_t bytes_max, struct err *e)
{
	if (blocks <= bytes_max / EROFS_BLOCK && blocks < UINT32_MAX)
		return 0;
	return err_set_reason(e, REASON_TOO_LARGE,
			      "the root image would have over %llu MiB (guest_root_max)",
			      (unsigned long long)(bytes_max >> 20));
}

/* ---- directories */

/* How many entries from `from` on fit into one block, and the bytes that they take. */
static uint32_t fit(const struct erofs_node *dir, uint32_t from, uint32_t *ret_bytes)
{
	uint32_t i = from, bytes = 0;

	for (; i < dir->nentries; i++) {
		uint32_t more =
			(uint32_t)(sizeof(struct erofs_dirent) + strlen(dir->entries[i].name));

		if (bytes + more > EROFS_BLOCK)
			break;
		bytes += more;
	}
	*ret_bytes = bytes;
	return i - from;
}

/* All blocks but the last are counted as full. */
static uint64_t dir_size(const struct erofs_node *dir)
{
	uint64_t size = 0;
	uint32_t bytes = 0;

	for (uint32_t i = 0; i < dir->nentries;) {
		i += fit(dir, i, &bytes);
		size += i < dir->nentries ? EROFS_BLOCK : bytes;
	}
	return size;
}

static uint8_t type_of(uint32_t mode)
{
	static const struct {
		uint32_t format;
		uint8_t type;
	} types[] = {
		{ S_IFREG, EROFS_REGULAR }, { S_IFDIR, EROFS_DIR },
		{ S_IFCHR, EROFS_CHAR },    { S_IFBLK, EROFS_BLOCK_DEVICE },
		{ S_IFIFO, EROFS_FIFO },    { S_IFLNK, EROFS_SYMLINK },
	};

	for (size_t i = 0; i < COUNT(types); i++)
		if ((mode & S_IFMT) == types[i].format)
			return types[i].type;
	return EROFS_SOCKET;
}

/* Writes n entries into a block, which is zero behind them. */
static void fill_dir(const struct erofs_node *dir, uint32_t from, uint32_t n,
		     uint8_t block[EROFS_BLOCK])
{
	uint32_t name_at = n * (uint32_t)sizeof(struct erofs_dirent);

	memset(block, 0, EROFS_BLOCK);
	for (uint32_t i = 0; i < n; i++) {
		const struct erofs_entry *entry = &dir->entries[from + i];
		const struct erofs_dirent d = { .nid = htole64(entry->node->at / EROFS_SLOT),
						.name_at = htole16((uint16_t)name_at),
						.type = type_of(entry->node->mode) };
		size_t len = strlen(entry->name);

		memcpy(block + i * sizeof(d), &d, sizeof(d));
		memcpy(block + name_at, entry->name, len);
		name_at += (uint32_t)len;
	}
}

/* ---- places */

struct placing {
	uint64_t next_block; /* for content */
	uint64_t at;	     /* for inodes */
};

static bool has_content_here(const struct erofs_node *n)
{
	return S_ISDIR(n->mode) || S_ISLNK(n->mode);
}

static uint64_t head_size(const struct erofs_node *n)
{
	return sizeof(struct erofs_inode) + n->attrs_len;
}

/* What is written behind the inode: the kernel wants it in the same block as its beginning. */
static uint32_t inline_size(const struct erofs_node *n)
{
	uint32_t left = has_content_here(n) ? (uint32_t)(n->size % EROFS_BLOCK) : 0;

	return head_size(n) + left <= EROFS_BLOCK ? left : 0;
}

static uint64_t up(uint64_t n, uint64_t step)
{
	return (n + step - 1) / step * step;
}

/* An inode that fits into a block does not go over its end. */
static void place(struct placing *p, struct erofs_node *n)
{
	uint64_t size = head_size(n) + inline_size(n);
	uint64_t room = EROFS_BLOCK - p->at % EROFS_BLOCK;

	if (size > room)
		p->at = up(p->at, EROFS_BLOCK);
	n->at = p->at;
	p->at = up(p->at + size, EROFS_SLOT);
	if (!has_content_here(n))
		return;
	n->block = (uint32_t)p->next_block;
	p->next_block += up(n->size - inline_size(n), EROFS_BLOCK) / EROFS_BLOCK;
}

static void place_all(struct erofs_tree *t, struct placing *p)
{
	for (struct erofs_node *n = t->first; n != NULL; n = n->next) {
		if (S_ISDIR(n->mode))
			n->size = dir_size(n);
		place(p, n);
	}
}

/* ---- writing */

struct out {
	int fd;
	uint64_t at; /* of the file, where the buffer begins */
	size_t len;
	uint8_t bytes[1U << 20];
};

static int flush(struct out *o, struct err *e)
{
	for (size_t done = 0; done < o->len;) {
		ssize_t n = pwrite(o->fd, o->bytes + done, o->len - done, (off_t)(o->at + done));

		if (n <= 0)
			return storage_ops_fail(e, "write the root image");
		done += (size_t)n;
	}
	o->at += o->len;
	o->len = 0;
	return 0;
}

/* bytes NULL: zeros. */
static int put(struct out *o, const void *bytes, size_t len, struct err *e)
{
	for (size_t done = 0; done < len;) {
		size_t n = sizeof(o->bytes) - o->len < len - done ? sizeof(o->bytes) - o->len
								  : len - done;

		if (bytes == NULL)
			memset(o->bytes + o->len, 0, n);
		else
			memcpy(o->bytes + o->len, (const uint8_t *)bytes + done, n);
		o->len += n;
		done += n;
		if (o->len == sizeof(o->bytes) && flush(o, e) < 0)
			return -1;
	}
	return 0;
}

/* Zeros up to a place. */
static int skip_to(struct out *o, uint64_t to, struct err *e)
{
	return put(o, NULL, (size_t)(to - (o->at + o->len)), e);
}

/* The content of a directory, block by block: those in blocks, or the one behind the inode. */
static int put_dir(struct out *o, const struct erofs_node *dir, bool behind, struct err *e)
{
	bool last_is_behind = inline_size(dir) > 0;
	uint8_t block[EROFS_BLOCK];
	uint32_t bytes = 0;

	for (uint32_t i = 0, n; i < dir->nentries; i += n) {
		bool last;

		n = fit(dir, i, &bytes);
		last = i + n == dir->nentries;
		if ((last && last_is_behind) != behind)
			continue;
		fill_dir(dir, i, n, block);
		if (put(o, block, behind ? bytes : EROFS_BLOCK, e) < 0)
			return -1;
	}
	return 0;
}

static int put_link(struct out *o, const struct erofs_node *n, bool behind, struct err *e)
{
	if ((inline_size(n) > 0) != behind)
		return 0;
	if (put(o, n->target, n->size, e) < 0)
		return -1;
	return behind ? 0 : skip_to(o, up(o->at + o->len, EROFS_BLOCK), e);
}

static int put_content(struct out *o, const struct erofs_node *n, bool behind, struct err *e)
{
	if (S_ISDIR(n->mode))
		return put_dir(o, n, behind, e);
	return S_ISLNK(n->mode) ? put_link(o, n, behind, e) : 0;
}

static int put_inode(struct out *o, const struct erofs_node *n, struct err *e)
{
	bool is_device = S_ISCHR(n->mode) || S_ISBLK(n->mode);
	const struct erofs_inode i = {
		.format = htole16(inline_size(n) > 0 ? EROFS_FORMAT_INLINE : EROFS_FORMAT_PLAIN),
		.attr_count = htole16(
			n->attrs_len == 0
				? 0
				: (uint16_t)((n->attrs_len - sizeof(struct erofs_attr_head)) / 4 +
					     1)),
		.mode = htole16((uint16_t)n->mode),
		.size = htole64(n->size),
		.data = htole32(is_device ? n->device : n->block),
		.number = htole32(n->number),
		.uid = htole32(n->uid),
		.gid = htole32(n->gid),
		.mtime = htole64((uint64_t)n->mtime),
		.mtime_nsec = htole32(n->mtime_nsec),
		.nlink = htole32(n->nlink),
	};

	if (put(o, &i, sizeof(i), e) < 0 ||
	    (n->attrs_len > 0 && put(o, n->attrs, n->attrs_len, e) < 0))
		return -1;
	return put_content(o, n, true, e);
}

static int put_super(int fd, const struct erofs_tree *t, uint64_t meta, uint64_t blocks,
		     struct err *e)
{
	const struct erofs_super s = { .magic = htole32(EROFS_MAGIC),
				       .compat = htole32(EROFS_COMPAT_MTIME),
				       .block_bits = EROFS_BLOCK_BITS,
				       .root_nid = htole16((uint16_t)(t->first->at / EROFS_SLOT)),
				       .inodes = htole64(t->n),
				       .blocks = htole32((uint32_t)blocks),
				       .meta_block = htole32((uint32_t)meta) };

	if (pwrite(fd, &s, sizeof(s), EROFS_SUPER_AT) != (ssize_t)sizeof(s))
		return storage_ops_fail(e, "write the root image");
	return 0;
}

static int put_all(const struct erofs_tree *t, struct out *o, uint64_t meta, struct err *e)
{
	for (const struct erofs_node *n = t->first; n != NULL; n = n->next)
		if (put_content(o, n, false, e) < 0)
			return -1;
	for (const struct erofs_node *n = t->first; n != NULL; n = n->next)
		if (skip_to(o, meta * EROFS_BLOCK + n->at, e) < 0 || put_inode(o, n, e) < 0)
			return -1;
	return flush(o, e);
}

int erofs_image_write(struct erofs_tree *t, int fd, uint64_t next_block, uint64_t bytes_max,
		      uint64_t *ret_bytes, struct err *e)
{
	static struct out o; /* large */
	struct placing p = { .next_block = next_block, .at = FIRST_AT };
	uint64_t meta, blocks;

	place_all(t, &p);
	meta = p.next_block;
	/* fsck.erofs reads behind the last inode even if it has no attributes. */
	blocks = meta + up(p.at + EROFS_SLOT, EROFS_BLOCK) / EROFS_BLOCK;
	if (erofs_image_check(blocks, bytes_max, e) < 0)
		return -1;
	o.fd = fd;
	o.at = next_block * EROFS_BLOCK;
	o.len = 0;
	if (put_all(t, &o, meta, e) < 0 || put_super(fd, t, meta, blocks, e) < 0)
		return -1;
	if (ftruncate(fd, (off_t)(blocks * EROFS_BLOCK)) < 0)
		return storage_ops_fail(e, "write the root image");
	*ret_bytes = blocks * EROFS_BLOCK;
	return 0;
}
