/* erofs_image.c - see erofs_image.h. First every node gets its place, because directories name
 * nodes by their places. Then all is written from front to back. */
#include "storage/erofs_image.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "storage/erofs_disk.h"
#include "storage/member_make.h"
#include "storage/storage_ops.h"

/* ---- the tree */

/* A slot of the hash table tree.same. The key is the file's device and inode number. */
struct erofs_same {
	dev_t dev;
	ino_t ino;
	struct erofs_node *node; /* NULL: free */
};

void erofs_tree_init(struct erofs_tree *t)
{
	*t = (struct erofs_tree){ .first = NULL };
	t->end = &t->first;
}

static void erofs_node_free(struct erofs_node *n)
{
	for (uint32_t i = 0; i < n->nentries; i++)
		free(n->entries[i].name);
	free(n->entries);
	free(n->target);
	free(n->attrs);
	free(n);
}

void erofs_tree_release(struct erofs_tree *t)
{
	for (struct erofs_node *n = t->first, *next; n != NULL; n = next) {
		next = n->next; /* alone: all are freed */
		erofs_node_free(n);
	}
	free(t->same);
	erofs_tree_init(t);
}

/* As the kernel's new_encode_dev(). */
static uint32_t erofs_device_of(const struct stat *st)
{
	uint32_t major = major(st->st_rdev), minor = minor(st->st_rdev);

	if (!S_ISCHR(st->st_mode) && !S_ISBLK(st->st_mode))
		return 0;
	return (minor & 0xffU) | major << 8 | (minor & ~0xffU) << 12;
}

static int erofs_no_memory(struct err *e)
{
	return err_set(e, ERR_LIMIT, "the names of all files take too much memory");
}

/* The tree owns the node. The caller sets owners, attributes and content. */
struct erofs_node *erofs_tree_add(struct erofs_tree *t, const struct stat *st, struct err *e)
{
	struct erofs_node *n;

	if (t->n == EROFS_TREE_MAX) {
		(void)err_set_reason(e, REASON_TOO_LARGE, "more than %u files", EROFS_TREE_MAX);
		return NULL;
	}
	n = calloc(1, sizeof(*n));
	if (n == NULL) {
		(void)erofs_no_memory(e);
		return NULL;
	}
	n->size = S_ISDIR(st->st_mode) ? 0 : (uint64_t)st->st_size;
	n->mode = st->st_mode;
	n->mtime = st->st_mtim.tv_sec;
	n->mtime_nsec = (uint32_t)st->st_mtim.tv_nsec;
	n->device = erofs_device_of(st);
	n->number = ++t->n;
	*t->end = n;
	t->end = &n->next;
	return n;
}

/* The name is copied. The list of entries doubles when it is full. */
int erofs_tree_name(struct erofs_node *dir, const char *name, struct erofs_node *node,
		    struct err *e)
{
	if (dir->nentries == dir->cap) {
		uint32_t cap = dir->cap == 0 ? 4 : dir->cap * 2;
		struct erofs_entry *more = realloc(dir->entries, cap * sizeof(*more));

		if (more == NULL)
			return erofs_no_memory(e);
		dir->entries = more;
		dir->cap = cap;
	}
	dir->entries[dir->nentries] = (struct erofs_entry){ strdup(name), node };
	if (dir->entries[dir->nentries].name == NULL)
		return erofs_no_memory(e);
	dir->nentries++;
	node->nlink++;
	return 0;
}

/* Bytes are compared without a sign, as the kernel's lookup does. */
static int erofs_by_name(const void *a, const void *b)
{
	return strcmp(((const struct erofs_entry *)a)->name, ((const struct erofs_entry *)b)->name);
}

void erofs_tree_sort(struct erofs_node *dir)
{
	qsort(dir->entries, dir->nentries, sizeof(*dir->entries), erofs_by_name);
}

/* ---- files with several names
 *
 * A hash table with open addressing finds the node of a file by device and inode number. Only files
 * with more than one link come into it. At most half of the slots are taken, so every search ends
 * at a free one. */

/* The place of a file in the table. The table has free places. */
static uint32_t erofs_place_of(const struct erofs_tree *t, dev_t dev, ino_t ino)
{
	uint64_t mixed = ((uint64_t)ino ^ (uint64_t)dev << 32) * 0x9e3779b97f4a7c15ULL;
	uint32_t at = (uint32_t)(mixed >> 32) & (t->cap_same - 1);

	while (t->same[at].node != NULL && (t->same[at].dev != dev || t->same[at].ino != ino))
		at = (at + 1) & (t->cap_same - 1);
	return at;
}

struct erofs_node *erofs_tree_find_same(const struct erofs_tree *t, const struct stat *st)
{
	return t->cap_same == 0 ? NULL : t->same[erofs_place_of(t, st->st_dev, st->st_ino)].node;
}

/* After an error the table is empty, and the walk ends. */
static int erofs_grow(struct erofs_tree *t, struct err *e)
{
	struct erofs_same *old = t->same;
	uint32_t n = t->cap_same;

	t->cap_same = n == 0 ? 256 : n * 2;
	t->same = calloc(t->cap_same, sizeof(*t->same));
	if (t->same == NULL) {
		free(old);
		t->cap_same = 0;
		return erofs_no_memory(e);
	}
	for (uint32_t i = 0; i < n; i++)
		if (old[i].node != NULL)
			t->same[erofs_place_of(t, old[i].dev, old[i].ino)] = old[i];
	free(old);
	return 0;
}

int erofs_tree_keep_same(struct erofs_tree *t, const struct stat *st, struct erofs_node *node,
			 struct err *e)
{
	if (t->nsame >= t->cap_same / 2 && erofs_grow(t, e) < 0)
		return -1;
	t->same[erofs_place_of(t, st->st_dev, st->st_ino)] =
		(struct erofs_same){ st->st_dev, st->st_ino, node };
	t->nsame++;
	return 0;
}

/* ---- attributes */

/* The kernel's own bounds for lists and values, and the largest total that an inode can describe:
 * its count has 16 bits and units of 4 bytes. */
#define LIST_MAX 65536U
#define VALUE_MAX 65535U
#define NAMES_MAX 512U
#define ALL_MAX (sizeof(struct erofs_attr_head) + (size_t)65534 * 4)

static const struct {
	const char *name; /* ends with a dot: all that begin with it */
	enum erofs_prefix prefix;
} prefixes[] = {
	{ "user.", EROFS_PREFIX_USER },
	{ "security.", EROFS_PREFIX_SECURITY },
	{ "system.posix_acl_access", EROFS_PREFIX_ACL_ACCESS },
	{ "system.posix_acl_default", EROFS_PREFIX_ACL_DEFAULT },
};

/* The attributes of one file, while they are collected. */
struct attrs {
	uint8_t bytes[ALL_MAX];
	size_t len;
};

/* Append one attribute in its form on disk. The padding is zeros, because erofs_attrs_read() has
 * cleared the bytes. Names without a known prefix are left out. */
static int erofs_attrs_add(struct attrs *a, const char *name, const void *value, size_t len,
			   struct err *e)
{
	size_t i = 0, skip, used;

	while (strncmp(name, prefixes[i].name, strlen(prefixes[i].name)) != 0)
		if (++i == COUNT(prefixes))
			return 0;
	skip = strlen(prefixes[i].name);
	used = sizeof(struct erofs_attr) + strlen(name + skip) + len;
	used = (used + 3) / 4 * 4;
	if (a->len + used > sizeof(a->bytes))
		return err_set(e, ERR_LIMIT, "over 256 KiB of attributes");
	const struct erofs_attr head = { .name_len = (uint8_t)strlen(name + skip),
					 .prefix = (uint8_t)prefixes[i].prefix,
					 .value_len = htole16((uint16_t)len) };
	memcpy(a->bytes + a->len, &head, sizeof(head));
	memcpy(a->bytes + a->len + sizeof(head), name + skip, head.name_len);
	memcpy(a->bytes + a->len + sizeof(head) + head.name_len, value, len);
	a->len += used;
	return 0;
}

/* An attribute that was removed since it was listed is left out. */
static int erofs_attrs_add_one(int fd, const char *name, const struct storage_ids *ids,
			       struct attrs *a, struct err *e)
{
	static uint8_t value[VALUE_MAX];
	ssize_t n;

	if (!member_may_set(name) || (member_acl_is(name) && ids->single))
		return 0;
	n = fgetxattr(fd, name, value, sizeof(value));
	if (n < 0)
		return errno == ENODATA ? 0 : member_fail(e, "read", name);
	if (member_acl_is(name))
		member_acl_unmap(value, (size_t)n, ids);
	return erofs_attrs_add(a, name, value, (size_t)n, e);
}

static int erofs_attrs_by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names, sorted: file systems list them in any order. */
static int erofs_attrs_list(int fd, char text[LIST_MAX], const char *ret[NAMES_MAX], size_t *ret_n,
			    struct err *e)
{
	ssize_t len = flistxattr(fd, text, LIST_MAX);

	*ret_n = 0;
	if (len < 0)
		return errno == EOPNOTSUPP ? 0 : err_sys(e, "list attributes");
	for (const char *at = text; at < text + len; at += strlen(at) + 1) {
		if (*ret_n == NAMES_MAX)
			return err_set(e, ERR_LIMIT, "over %u attributes", NAMES_MAX);
		ret[(*ret_n)++] = at;
	}
	qsort(ret, *ret_n, sizeof(ret[0]), erofs_attrs_by_text);
	return 0;
}

/* A file without attributes gets no head for them either. */
int erofs_attrs_read(int fd, const struct storage_ids *ids, struct erofs_node *ret, struct err *e)
{
	static struct attrs a; /* large, as the next two */
	static char text[LIST_MAX];
	static const char *names[NAMES_MAX];
	size_t n;

	if (erofs_attrs_list(fd, text, names, &n, e) < 0)
		return -1;
	if (n == 0)
		return 0;
	memset(a.bytes, 0, a.len);
	a.len = sizeof(struct erofs_attr_head);
	for (size_t i = 0; i < n; i++)
		if (erofs_attrs_add_one(fd, names[i], ids, &a, e) < 0)
			return -1;
	if (a.len == sizeof(struct erofs_attr_head))
		return 0;
	ret->attrs = malloc(a.len);
	if (ret->attrs == NULL)
		return err_set(e, ERR_LIMIT, "attributes take too much memory");
	memcpy(ret->attrs, a.bytes, a.len);
	ret->attrs_len = (uint32_t)a.len;
	return 0;
}

#define FIRST_AT 64U /* of the root directory's inode: no inode has the number 0 */

/* Block numbers have 32 bits in an inode. */
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
static uint32_t erofs_fit(const struct erofs_node *dir, uint32_t from, uint32_t *ret_bytes)
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
static uint64_t erofs_dir_size(const struct erofs_node *dir)
{
	uint64_t size = 0;
	uint32_t bytes = 0;

	for (uint32_t i = 0; i < dir->nentries;) {
		i += erofs_fit(dir, i, &bytes);
		size += i < dir->nentries ? EROFS_BLOCK : bytes;
	}
	return size;
}

/* The kind of a file as a directory's entry has it. */
static uint8_t erofs_type_of(uint32_t mode)
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

/* Write n entries into a block, with zeros behind them. */
static void erofs_fill_dir(const struct erofs_node *dir, uint32_t from, uint32_t n,
			   uint8_t block[EROFS_BLOCK])
{
	uint32_t name_at = n * (uint32_t)sizeof(struct erofs_dirent);

	memset(block, 0, EROFS_BLOCK);
	for (uint32_t i = 0; i < n; i++) {
		const struct erofs_entry *entry = &dir->entries[from + i];
		const struct erofs_dirent d = { .nid = htole64(entry->node->at / EROFS_SLOT),
						.name_at = htole16((uint16_t)name_at),
						.type = erofs_type_of(entry->node->mode) };
		size_t len = strlen(entry->name);

		memcpy(block + i * sizeof(d), &d, sizeof(d));
		memcpy(block + name_at, entry->name, len);
		name_at += (uint32_t)len;
	}
}

/* ---- places */

/* The next free place of each part. `at` counts from the start of all inodes. */
struct placing {
	uint64_t next_block; /* for content */
	uint64_t at;	     /* for inodes */
};

/* True if erofs_image.c writes the content. root_walk.c has written that of files. */
static bool erofs_has_content_here(const struct erofs_node *n)
{
	return S_ISDIR(n->mode) || S_ISLNK(n->mode);
}

/* The inode and its attributes, without the content behind them. */
static uint64_t erofs_head_size(const struct erofs_node *n)
{
	return sizeof(struct erofs_inode) + n->attrs_len;
}

/* The data behind the inode: the kernel wants it in the same block as its beginning. */
static uint32_t erofs_inline_size(const struct erofs_node *n)
{
	uint32_t left = erofs_has_content_here(n) ? (uint32_t)(n->size % EROFS_BLOCK) : 0;

	return erofs_head_size(n) + left <= EROFS_BLOCK ? left : 0;
}

static uint64_t erofs_up(uint64_t n, uint64_t step)
{
	return (n + step - 1) / step * step;
}

/* An inode that fits into a block does not go over its end. */
static void erofs_place(struct placing *p, struct erofs_node *n)
{
	uint64_t size = erofs_head_size(n) + erofs_inline_size(n);
	uint64_t room = EROFS_BLOCK - p->at % EROFS_BLOCK;

	if (size > room)
		p->at = erofs_up(p->at, EROFS_BLOCK);
	n->at = p->at;
	p->at = erofs_up(p->at + size, EROFS_SLOT);
	if (!erofs_has_content_here(n))
		return;
	n->block = (uint32_t)p->next_block;
	p->next_block += erofs_up(n->size - erofs_inline_size(n), EROFS_BLOCK) / EROFS_BLOCK;
}

/* Sizes of directories come first, because the place of a node depends on its size. */
static void erofs_place_all(struct erofs_tree *t, struct placing *p)
{
	for (struct erofs_node *n = t->first; n != NULL; n = n->next) {
		if (S_ISDIR(n->mode))
			n->size = erofs_dir_size(n);
		erofs_place(p, n);
	}
}

/* ---- writing */

/* Output is collected in one large buffer, because most pieces are small. */
struct erofs_image_out {
	int fd;
	uint64_t at; /* of the file, where the buffer begins */
	size_t len;
	uint8_t bytes[1U << 20];
};

static int erofs_flush(struct erofs_image_out *o, struct err *e)
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
static int erofs_put(struct erofs_image_out *o, const void *bytes, size_t len, struct err *e)
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
		if (o->len == sizeof(o->bytes) && erofs_flush(o, e) < 0)
			return -1;
	}
	return 0;
}

/* Zeros up to a place. */
static int erofs_skip_to(struct erofs_image_out *o, uint64_t to, struct err *e)
{
	return erofs_put(o, NULL, (size_t)(to - (o->at + o->len)), e);
}

/* The content of a directory, block by block: those in blocks, or the one behind the inode. */
static int erofs_put_dir(struct erofs_image_out *o, const struct erofs_node *dir, bool behind,
			 struct err *e)
{
	bool last_is_behind = erofs_inline_size(dir) > 0;
	uint8_t block[EROFS_BLOCK];
	uint32_t bytes = 0;

	for (uint32_t i = 0, n; i < dir->nentries; i += n) {
		bool last;

		n = erofs_fit(dir, i, &bytes);
		last = i + n == dir->nentries;
		if ((last && last_is_behind) != behind)
			continue;
		erofs_fill_dir(dir, i, n, block);
		if (erofs_put(o, block, behind ? bytes : EROFS_BLOCK, e) < 0)
			return -1;
	}
	return 0;
}

/* In blocks the target is filled up with zeros. */
static int erofs_put_link(struct erofs_image_out *o, const struct erofs_node *n, bool behind,
			  struct err *e)
{
	if ((erofs_inline_size(n) > 0) != behind)
		return 0;
	if (erofs_put(o, n->target, n->size, e) < 0)
		return -1;
	return behind ? 0 : erofs_skip_to(o, erofs_up(o->at + o->len, EROFS_BLOCK), e);
}

/* behind: the part after the inode is due. Otherwise the part in blocks is. */
static int erofs_put_content(struct erofs_image_out *o, const struct erofs_node *n, bool behind,
			     struct err *e)
{
	if (S_ISDIR(n->mode))
		return erofs_put_dir(o, n, behind, e);
	return S_ISLNK(n->mode) ? erofs_put_link(o, n, behind, e) : 0;
}

/* The inode, its attributes, and its tail of content. The order is fixed by the format. */
static int erofs_put_inode(struct erofs_image_out *o, const struct erofs_node *n, struct err *e)
{
	bool is_device = S_ISCHR(n->mode) || S_ISBLK(n->mode);
	const struct erofs_inode i = {
		.format = htole16(erofs_inline_size(n) > 0 ? EROFS_FORMAT_INLINE
							   : EROFS_FORMAT_PLAIN),
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

	if (erofs_put(o, &i, sizeof(i), e) < 0 ||
	    (n->attrs_len > 0 && erofs_put(o, n->attrs, n->attrs_len, e) < 0))
		return -1;
	return erofs_put_content(o, n, true, e);
}

/* No checksum and no UUID: equal trees give equal images. */
static int erofs_put_super(int fd, const struct erofs_tree *t, uint64_t meta, uint64_t blocks,
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

/* Two passes over the tree: the blocks of content, then all inodes at their places. */
static int erofs_put_all(const struct erofs_tree *t, struct erofs_image_out *o, uint64_t meta,
			 struct err *e)
{
	for (const struct erofs_node *n = t->first; n != NULL; n = n->next)
		if (erofs_put_content(o, n, false, e) < 0)
			return -1;
	for (const struct erofs_node *n = t->first; n != NULL; n = n->next)
		if (erofs_skip_to(o, meta * EROFS_BLOCK + n->at, e) < 0 ||
		    erofs_put_inode(o, n, e) < 0)
			return -1;
	return erofs_flush(o, e);
}

/* The super block is written after all inodes, so an image cut off before is no file system. */
int erofs_image_write(struct erofs_tree *t, int fd, uint64_t next_block, uint64_t bytes_max,
		      uint64_t *ret_bytes, struct err *e)
{
	static struct erofs_image_out o; /* large */
	struct placing p = { .next_block = next_block, .at = FIRST_AT };
	uint64_t meta, blocks;

	erofs_place_all(t, &p);
	meta = p.next_block;
	/* fsck.erofs reads behind the last inode even if it has no attributes. */
	blocks = meta + erofs_up(p.at + EROFS_SLOT, EROFS_BLOCK) / EROFS_BLOCK;
	if (erofs_image_check(blocks, bytes_max, e) < 0)
		return -1;
	o.fd = fd;
	o.at = next_block * EROFS_BLOCK;
	o.len = 0;
	if (erofs_put_all(t, &o, meta, e) < 0 || erofs_put_super(fd, t, meta, blocks, e) < 0)
		return -1;
	if (ftruncate(fd, (off_t)(blocks * EROFS_BLOCK)) < 0)
		return storage_ops_fail(e, "write the root image");
	*ret_bytes = blocks * EROFS_BLOCK;
	return 0;
}
