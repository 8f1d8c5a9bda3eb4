/* file_path.h - paths as text. Pure: what is on the disk plays no part. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The absolute path that `path` is seen from `base`, in its shortest form: no "." and "..", no
 * slash but the ones between names; a link is a name as any other. An absolute path leaves base
 * aside; what base lacks in front is "/". False if it does not fit into cap bytes. */
bool file_path_join(const char *base, const char *path, char *ret, size_t cap);
