/* erofs_disk.h - the structures of an erofs file system on disk, as far as erofs_image.c writes it:
 * without compression, blocks of 4 KiB, inodes of the long kind, attributes behind their inode. The
 * form is that of Linux's fs/erofs/erofs_fs.h. Every kernel since 5.4 reads it. All numbers are
 * little-endian. */
#pragma once

#include <assert.h>
#include <stdint.h>

#define EROFS_BLOCK_BITS 12
#define EROFS_BLOCK (1U << EROFS_BLOCK_BITS)
#define EROFS_SUPER_AT 1024
#define EROFS_MAGIC 0xe0f5e1e2U
#define EROFS_COMPAT_MTIME 2U /* inode times are those of the last content change */
#define EROFS_SLOT 32U	      /* an inode is named by its place in slots: its nid */
#define EROFS_NAME_MAX 255

/* i_format: the long kind, and where the content is. */
#define EROFS_FORMAT_PLAIN 1U		   /* in blocks */
#define EROFS_FORMAT_INLINE (1U | 2U << 1) /* what is left over full blocks is behind the inode */

enum erofs_type {
	EROFS_REGULAR = 1,
	EROFS_DIR,
	EROFS_CHAR,
	EROFS_BLOCK_DEVICE,
	EROFS_FIFO,
	EROFS_SOCKET,
	EROFS_SYMLINK,
};

struct erofs_super {
	uint32_t magic, checksum, compat;
	uint8_t block_bits, extra_slots;
	uint16_t root_nid;
	uint64_t inodes;
	uint64_t build_time;
	uint32_t build_nsec;
	uint32_t blocks;
	uint32_t meta_block; /* nids are counted from here */
	uint32_t attr_block;
	uint8_t uuid[16];
	char name[16];
	uint32_t incompat;
	uint8_t unused[44];
};
static_assert(sizeof(struct erofs_super) == 128, "the super block of Linux");

struct erofs_inode {
	uint16_t format;
	uint16_t attr_count; /* 0: none. Else units of 4 bytes behind the attributes' head, and 1 */
	uint16_t mode;
	uint16_t zero;
	uint64_t size;
	uint32_t data; /* first block, or the number of a device */
	uint32_t number;
	uint32_t uid, gid;
	uint64_t mtime;
	uint32_t mtime_nsec;
	uint32_t nlink;
	uint8_t unused[16];
};
static_assert(sizeof(struct erofs_inode) == 64, "the long inode of Linux");

struct erofs_dirent {
	uint64_t nid;
	uint16_t name_at; /* in the block. The first one tells how many entries the block has */
	uint8_t type;
	uint8_t zero;
} __attribute__((packed));
static_assert(sizeof(struct erofs_dirent) == 12, "an entry of Linux");

/* Before the attributes of an inode. */
struct erofs_attr_head {
	uint8_t zero[12]; /* no filter of names, no shared attributes */
};

struct erofs_attr {
	uint8_t name_len; /* without the prefix */
	uint8_t prefix;	  /* enum erofs_prefix */
	uint16_t value_len;
}; /* then the name, the value, and zeros up to a multiple of 4 */

enum erofs_prefix {
	EROFS_PREFIX_USER = 1,
	EROFS_PREFIX_ACL_ACCESS,
	EROFS_PREFIX_ACL_DEFAULT,
	EROFS_PREFIX_SECURITY = 6,
};
