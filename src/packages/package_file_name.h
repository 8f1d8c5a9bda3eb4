/* package_file_name.h - names and versions in the names of package files. Pure; private to
 * src/packages. Each reads ret->file, which is plain (package_take_file()), and fills in name,
 * version and source; false: not a file of this ecosystem, or one that can be read in two ways. */
#pragma once

#include "package_row.h"

bool package_file_pypi(struct package_request *ret);
bool package_file_apt(struct package_request *ret);
bool package_file_gem(struct package_request *ret);

/* NAME-VERSION, where the version begins with a digit: the place of the version, or 0 if there is
 * none or more than one. */
size_t package_file_cut(const char *p, size_t n);

/* Directories that say nothing: no segment is strange. True if there are none. */
bool package_rest_ok(struct package_span rest);
