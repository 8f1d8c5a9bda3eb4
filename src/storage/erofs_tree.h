/* erofs_tree.h - the files of an erofs image while it is being made: what their inodes will say, in
 * the order in which they were found. Content of files is in the image already (root_data.h).
 * Filled by root_walk.c, written by erofs_image.c; in a worker.
 *
 * What must not change: the first node is the root directory, because its number must be small; and
 * the same files give the same tree, so that the image is the same byte for byte. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "err.h"

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
	uint8_t *attrs;		     /* owned: as they are behind the inode; NULL: none */
	char *target;		     /* owned: of a link */
	struct erofs_entry *entries; /* owned: of a directory, "." and ".." included */
	uint32_t nentries, cap;
	uint64_t at; /* of the inode behind the start of all inodes: set by erofs_image.c */
};

struct erofs_same; /* a file with several names: erofs_tree.c */

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

/* Adds a name to a directory, and counts it in the node's links. */
int erofs_tree_name(struct erofs_node *dir, const char *name, struct erofs_node *node,
		    struct err *e) MUST_USE;

/* Sorts the names of a directory whose last one was added, as lookups need it. */
void erofs_tree_sort(struct erofs_node *dir);

/* The node of a file that has several names and was found before; NULL: it was not. */
struct erofs_node *erofs_tree_find_same(const struct erofs_tree *t, const struct stat *st);
int erofs_tree_keep_same(struct erofs_tree *t, const struct stat *st, struct erofs_node *node,
			 struct err *e) MUST_USE;
