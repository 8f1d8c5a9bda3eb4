/* package.h - shared by everything about packages: ecosystems, bounds of names, and the normal form
 * of names. Pure, for untrusted bytes. Used by policies, by cordon-egress and by cordond.
 *
 * Two names are the same package if their normal forms are equal. Names are compared in no other
 * way. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum ecosystem {
	ECO_PYPI,
	ECO_NPM,
	ECO_APT,
	ECO_CARGO,
	ECO_GO,
	ECO_GIT,
	ECO_OCI,
	ECO_MAVEN,
	ECO_GEM,
	ECOSYSTEMS
};

/* Sizes with NUL. A longer text is no name, no version or no file. */
#define PACKAGE_NAME_MAX 256
#define PACKAGE_VERSION_MAX 160
#define PACKAGE_FILE_MAX 320

/* The word of an ecosystem: "pypi", "npm", ... */
const char *ecosystem_name(enum ecosystem eco);
bool ecosystem_read(const char *text, size_t n, enum ecosystem *ret);

/* Write the normal form:
 *   pypi	lower-case, runs of '-', '_' and '.' are one '-'
 *   npm	unchanged: name or @scope/name
 *   apt	unchanged
 *   cargo	lower-case, '_' is '-'
 *   go		the path of the module as go.mod has it (no '!'). Case matters
 *   git	the path of the repository, lower-case, without ".git"
 *   oci	the path of the repository
 *   maven	group:artifact, case matters
 *   gem	unchanged, case matters
 * False: not a name of this ecosystem, and ret is "". */
bool package_name_normal(enum ecosystem eco, const char *p, size_t n, char ret[PACKAGE_NAME_MAX]);

/* Is it a version in the spelling of the ecosystem: letters, digits and a few signs? Versions are
 * compared as text. */
bool package_version_ok(enum ecosystem eco, const char *p, size_t n);
