/* package_pins.h - the table of pins of a layer: which versions and digests of packages are fixed.
 * Private to src/policy. */
#pragma once

#include "digest.h"
#include "package_patterns.h"

#define PACKAGE_PINS_MAX 20000	 /* of a layer: versions and digests */
#define PACKAGE_GO_MOD "/go.mod" /* behind a version: of that file alone */

struct package_pin {
	enum ecosystem ecosystem;
	const char *name, *version; /* normal; as it stands */
	uint32_t first, n;	    /* its digests; n 0: only the version is fixed */
};

/* Sorted by ecosystem, name and version. */
struct package_pin_table {
	struct package_pin *pins;
	size_t npins;
	struct digest *digests;
	bool given;
};

/* {"pypi:requests": ["2.32.3 sha256:...", ...]}. v NULL: none. */
int package_pins_read(struct policy *p, struct package_arena *a, const json_t *v, const char *at,
		      struct package_pin_table *ret, struct err *e) MUST_USE;

/* Is some version of the name pinned? */
bool package_pins_name(const struct package_pin_table *t, enum ecosystem eco, const char *name);
/* The pin of a version; NULL: none. */
const struct package_pin *package_pins_find(const struct package_pin_table *t, enum ecosystem eco,
					    const char *name, const char *version);

/* ---- lockfiles */

#define LOCKFILES_MAX 16
#define LOCKFILES_TEXT_MAX (4U << 20) /* of all */

/* Adds the pins of one file. *left: bytes that are left for texts. */
int package_lockfile_take(json_t *pins, const char *name, const char *text, size_t n,
			  const char *at, size_t *left, struct err *e) MUST_USE;
/* Turns "lockfiles" of a packages member into "pins", and removes it. */
int package_lockfiles_expand(json_t *packages, const char *at, struct err *e) MUST_USE;
