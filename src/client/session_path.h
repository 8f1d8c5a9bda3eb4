/* session_path.h - SESSION:PATH as people type it. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Is the word SESSION:PATH? Then the id, as typed, is copied, and *ret_path points after the
 * colon; "." (the home directory) if nothing is there. What has a slash before the colon is a local
 * name. */
bool session_path_split(const char *word, char *ret_id, size_t cap, const char **ret_path);

/* The last part of a path, without slashes at its end. False if that cannot be a name, as in "/",
 * ".", ".." and "". */
bool session_path_name(const char *path, char *ret, size_t cap);
