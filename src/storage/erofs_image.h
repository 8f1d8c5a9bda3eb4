/* erofs_image.h - writes an erofs image of a tree whose content of files is in the image already:
 * the blocks of directories, then all inodes, then the super block. Called by op_root.c, in a
 * worker.
 *
 *   block 0       the super block
 *   from 1        content of files
 *   next          full blocks of directories, and links that do not fit behind their inode
 *   the rest      inodes, each with its attributes and what is left over of its content
 *
 * No bytes but those of the tree come into it: no time of making, no random id. */
#pragma once

#include "erofs_tree.h"

/* next_block: the first one that is free. bytes_max: of the image; REASON_TOO_LARGE: it would be
 * larger. The tree's sizes and places are set. The result is the size of the image, not yet on
 * disk. */
int erofs_image_write(struct erofs_tree *t, int fd, uint64_t next_block, uint64_t bytes_max,
		      uint64_t *ret_bytes, struct err *e) MUST_USE;

/* For who writes content: is the image with so many blocks too large? */
int erofs_image_check(uint64_t blocks, uint64_t bytes_max, struct err *e) MUST_USE;
