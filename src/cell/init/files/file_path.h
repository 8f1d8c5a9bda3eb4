/* file_path.h - joins paths as text, without reading the file system. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The absolute path of `path` relative to `base`, without ".", ".." and repeated slashes. Links are
 * not resolved. If path is absolute, base is ignored. False if it does not fit into cap bytes. */
bool file_path_join(const char *base, const char *path, char *ret, size_t cap);
