/* package_file_name.h - reads names and versions from the names of package files. Pure. Private to
 * src/lib/packages. Each function reads the plain text ret->file (package_take_file()), and fills
 * in name, version and source. False: not a file of this ecosystem, or ambiguous. */
#pragma once

#include "lib/packages/package_row.h"

bool package_file_pypi(struct package_request *ret);
bool package_file_apt(struct package_request *ret);
bool package_file_gem(struct package_request *ret);

/* The place of the version in NAME-VERSION, where the version begins with a digit. 0: no place, or
 * more than one. */
size_t package_file_cut(const char *p, size_t n);

/* Are the directories harmless: is no segment strange? True if there are none. */
bool package_rest_ok(struct package_span rest);
