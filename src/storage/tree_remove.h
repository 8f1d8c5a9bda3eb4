/* tree_remove.h - removes a directory tree whose names and depth others chose. */
#pragma once

#include "lib/base/err.h"

/* Remove dir_fd/name and everything below it. One that does not exist is no error. Links are not
 * followed. Depth is bounded by the file system alone. */
int tree_remove(int dir_fd, const char *name, struct err *e) MUST_USE;
