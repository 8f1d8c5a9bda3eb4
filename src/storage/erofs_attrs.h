/* erofs_attrs.h - the extended attributes of a file as an erofs image has them behind the inode:
 * user.*, file capabilities and POSIX ACLs; others are left out (member_may_set()). Called by
 * root_walk.c, in a worker. */
#pragma once

#include "erofs_tree.h"
#include "storage_jail.h"

/* Reads those of a file that is open for reading. ids: how owners in ACLs are stored. */
int erofs_attrs_read(int fd, const struct storage_ids *ids, struct erofs_node *ret,
		     struct err *e) MUST_USE;
