/* package_facts.h - what a registry's metadata says of one version or one file. Filled by
 * package_meta.h, read by the policy of packages. Texts are borrowed from the table of facts and
 * are never NULL. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "digest.h"

enum install_code {
	INSTALL_CODE_UNKNOWN,
	INSTALL_CODE_NO,
	INSTALL_CODE_YES,
};

struct package_facts {
	const char *version; /* "": the document does not say */
	const char *file;    /* the last segment of its address; "": not known */
	bool has_time;
	uint64_t time_ms; /* since 1970: when the registry says it was published */
	uint64_t size;	  /* 0: not known */
	struct digest digest;
	enum install_code install_code;
	bool yanked;  /* by its author */
	bool foreign; /* its address leaves the registry: never to be shown */
};

static inline const char *install_code_name(enum install_code c)
{
	return c == INSTALL_CODE_YES ? "yes" : c == INSTALL_CODE_NO ? "no" : "unknown";
}
