/* meta_pypi.h - reads the names of files on PyPI. Pure. */
#pragma once

#include "lib/packages/package.h"
#include "lib/packages/package_facts.h"

/* Has the name only letters, digits and "._+!-"? No address or page gives these a meaning. */
bool pypi_file_ok(const char *file);
/* Read the version, "" if the name does not tell. `name`, in normal form, tells where the name of
 * an sdist ends. "": at the last '-'. */
void pypi_file_version(const char *file, const char *name, char ret[PACKAGE_VERSION_MAX]);
/* A wheel runs nothing when it is installed, an sdist does. */
enum install_code pypi_file_code(const char *file);
