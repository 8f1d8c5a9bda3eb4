/* purl.h - package URLs, the names of packages in bills of materials: pkg:npm/%40scope/name@1.0.0.
 * Pure. Used by `cordon packages --sbom`. */
#pragma once

#include <stddef.h>

#include "lib/packages/package.h"

/* The longest name and version, every byte escaped, and the words around them. */
#define PURL_MAX (3 * (PACKAGE_NAME_MAX + PACKAGE_VERSION_MAX) + 32)

/* Write a package URL. version "": none. The text is always terminated. */
void purl_write(enum ecosystem eco, const char *name, const char *version, char ret[PURL_MAX]);
