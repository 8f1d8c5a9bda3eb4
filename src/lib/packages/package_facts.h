/* package_facts.h - the facts in a registry's metadata about one version or one file. Filled by
 * package_meta.h, read by the policy of packages. Texts are borrowed from the table of facts and
 * are never NULL. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/packages/digest.h"

enum install_code {
	INSTALL_CODE_UNKNOWN,
	INSTALL_CODE_NO,
	INSTALL_CODE_YES,
};

/* The facts of one version or file. */
struct package_facts {
	const char *version; /* "": the document does not say */
	const char *file;    /* the last segment of its address, "": unknown */
	bool has_time;
	uint64_t time_ms; /* since 1970: the time of publication according to the registry */
	uint64_t size;	  /* 0: unknown */
	struct digest digest;
	enum install_code install_code;
	bool yanked;  /* by its author */
	bool foreign; /* its address leaves the registry: never to be shown */
};

static inline const char *install_code_name(enum install_code c)
{
	return c == INSTALL_CODE_YES ? "yes" : c == INSTALL_CODE_NO ? "no" : "unknown";
}
