/* package_pins.h - the pin table of a layer: fixed versions and digests of packages. Private to
 * src/lib/policy. */
#pragma once

#include "lib/packages/digest.h"
#include "lib/policy/package_patterns.h"

#define PACKAGE_PINS_MAX 20000	 /* of a layer: versions and digests */
#define PACKAGE_GO_MOD "/go.mod" /* behind a version: the pin is for that file alone */

/* One pinned version of a package. */
struct package_pin {
	enum ecosystem ecosystem;
	const char *name, *version; /* name in normal form, version as written */
	uint32_t first, n;	    /* its digests, n 0: only the version is fixed */
};

/* Sorted by ecosystem, name and version, so that bisection finds a pin. */
struct package_pin_table {
	struct package_pin *pins;
	size_t npins;
	struct digest *digests;
	bool given;
};

/* Read {"pypi:requests": ["2.32.3 sha256:...", ...]}. v NULL: no pins. */
int package_pins_read(struct policy *p, struct package_arena *a, const json_t *v, const char *at,
		      struct package_pin_table *ret, struct err *e) MUST_USE;

/* Is any version of the name pinned? */
bool package_pins_name(const struct package_pin_table *t, enum ecosystem eco, const char *name);
/* Find the pin of a version. NULL: none. */
const struct package_pin *package_pins_find(const struct package_pin_table *t, enum ecosystem eco,
					    const char *name, const char *version);

/* ---- lockfiles */

#define LOCKFILES_MAX 16
#define LOCKFILES_TEXT_MAX (4U << 20) /* of all files together */

/* Check one file before it is read. *left: the bytes still allowed for texts. */
int package_lockfile_check(const char *name, size_t n, const char *at, size_t *left,
			   struct err *e) MUST_USE;
/* The error of a reader, with the place of the file. */
int package_lockfile_fail(const char *name, const char *at, struct err *e);
/* Turn the "lockfiles" of a packages member into "pins", and remove them. */
int package_lockfiles_expand(json_t *packages, const char *at, struct err *e) MUST_USE;
