/* package_spelling.h - requests that look like those of git, of a registry of images or of a Go
 * proxy, in whatever spelling a server may read as one: with empty segments, escaped slashes,
 * parameters, in another case. Such a request is refused if its exact form is not known
 * (package_request.h): these ecosystems are also met at hosts that have pages, where all other
 * requests are for the rules to decide. Pure; for untrusted bytes of any length. Private to
 * src/packages. */
#pragma once

#include "package.h"

/* at_registry: the host belongs to the ecosystem, so its archives and everything below /v2/ count,
 * too. path: the normal form (policy/path.h). False for all other ecosystems. */
bool package_spelling_resembles(enum ecosystem eco, bool at_registry, const char *path);
