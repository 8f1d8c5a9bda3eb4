/* erofs_image.h - an erofs image of a tree of files. root_walk.c fills the tree, and writes the
 * content of files into the image. op_root.c then has the rest written: the blocks of directories,
 * all inodes, the super block. In a worker.
 *
 *   block 0       the super block
 *   from 1        content of files
 *   next          full blocks of directories, and links that do not fit behind their inode
 *   the rest      inodes, each with its attributes and the tail of its content
 *
 * No bytes but those of the tree come into it: no time of making, no random id. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "lib/base/err.h"
#include "storage/storage_jail.h"

/* ---- the tree: the data of the image's inodes, in the order in which files were found
 *
 * Invariants. The first node is the root directory, because its number must be small. Equal files
 * give equal trees, so that images are equal byte for byte. */

#define EROFS_TREE_MAX 2000000U /* files of an image */

struct erofs_node;

struct erofs_entry {
	char *name; /* owned */
	struct erofs_node *node;
};

struct erofs_node {
	struct erofs_node *next;
	uint64_t size; /* of a directory: set by erofs_image.c */
	int64_t mtime;
	uint32_t mtime_nsec;
	uint32_t mode, uid, gid, nlink;
	uint32_t number;
	uint32_t device; /* as the inode has it */
	uint32_t block;	 /* where its content is */
	uint32_t attrs_len;
	uint8_t *attrs;		     /* owned: as they are behind the inode. NULL: none */
	char *target;		     /* owned: of a link */
	struct erofs_entry *entries; /* owned: of a directory, "." and ".." included */
	uint32_t nentries, cap;
	uint64_t at; /* of the inode behind the start of all inodes: set by erofs_image.c */
};

struct erofs_same; /* a file with several names */

struct erofs_tree {
	struct erofs_node *first, **end;
	uint32_t n;
	struct erofs_same *same; /* owned */
	uint32_t nsame, cap_same;
};

void erofs_tree_init(struct erofs_tree *t);
void erofs_tree_release(struct erofs_tree *t);

/* A new node with what st says but owners, links and size of a directory. NULL: out of memory, or
 * ERR_LIMIT: too many. */
struct erofs_node *erofs_tree_add(struct erofs_tree *t, const struct stat *st, struct err *e);

/* Add a name to a directory, and count it in the node's links. */
int erofs_tree_name(struct erofs_node *dir, const char *name, struct erofs_node *node,
		    struct err *e) MUST_USE;

/* Sort the names of a directory whose last one was added, as lookups need it. */
void erofs_tree_sort(struct erofs_node *dir);

/* The node of a file with several names, found before. NULL: it was not. */
struct erofs_node *erofs_tree_find_same(const struct erofs_tree *t, const struct stat *st);
int erofs_tree_keep_same(struct erofs_tree *t, const struct stat *st, struct erofs_node *node,
			 struct err *e) MUST_USE;

/* ---- extended attributes, as an image has them behind the inode: user.*, file capabilities and
 * POSIX ACLs. Others are left out (member_may_set()). */

/* Read those of a file open for reading. ids: how owners in ACLs are stored. */
int erofs_attrs_read(int fd, const struct storage_ids *ids, struct erofs_node *ret,
		     struct err *e) MUST_USE;

/* ---- the image */

/* next_block: the first free one. bytes_max: of the image. REASON_TOO_LARGE: it would be larger.
 * The tree's sizes and places are set. The result is the size of the image, not yet on disk. */
int erofs_image_write(struct erofs_tree *t, int fd, uint64_t next_block, uint64_t bytes_max,
		      uint64_t *ret_bytes, struct err *e) MUST_USE;

/* For who writes content: is the image with so many blocks too large? */
int erofs_image_check(uint64_t blocks, uint64_t bytes_max, struct err *e) MUST_USE;
