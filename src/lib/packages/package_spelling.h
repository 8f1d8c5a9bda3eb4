/* package_spelling.h - recognises requests that resemble those of git, of an image registry or of a
 * Go proxy, in any spelling that a server may understand: with empty segments, escaped slashes,
 * parameters, or in another case. Such a request is refused unless its exact form is known
 * (package_request.h). These ecosystems also occur at hosts with pages, where rules decide about
 * all other requests. Pure, for untrusted bytes of any length. Private to src/lib/packages. */
#pragma once

#include "lib/packages/package.h"

/* Does the path resemble a request of the ecosystem? at_registry: the host belongs to the
 * ecosystem, so its archives and everything below /v2/ count, too. path: the normal form
 * (lib/policy/path.h). False for all other ecosystems. */
bool package_spelling_resembles(enum ecosystem eco, bool at_registry, const char *path);
