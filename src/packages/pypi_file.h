/* pypi_file.h - what the name of a file on PyPI says. Pure. */
#pragma once

#include "package.h"
#include "package_facts.h"

/* Letters, digits and "._+!-"; nothing that an address or a page gives a meaning. */
bool pypi_file_ok(const char *file);
/* The version; "" if the name does not say it. `name`, in normal form, tells where the name of an
 * sdist ends; "": it ends at the last '-'. */
void pypi_file_version(const char *file, const char *name, char ret[PACKAGE_VERSION_MAX]);
/* A wheel runs nothing when it is installed, an sdist does. */
enum install_code pypi_file_code(const char *file);
