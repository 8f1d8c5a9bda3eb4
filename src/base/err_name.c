/* err_name.c - the words of error codes for programs. Apart from err.c, because the keeper links
 * only what it needs. */
#include <assert.h>

#include "err.h"

static const char *const names[] = {
	[ERR_NONE] = "none",	       [ERR_INVALID] = "invalid",	  [ERR_DENIED] = "denied",
	[ERR_NOT_FOUND] = "not_found", [ERR_CONFLICT] = "conflict",	  [ERR_LIMIT] = "limit",
	[ERR_SYSTEM] = "system",       [ERR_UNSUPPORTED] = "unsupported",
};
static_assert(sizeof(names) / sizeof(names[0]) == ERR_CODES, "a name for every code");

const char *err_code_name(enum err_code code)
{
	return (unsigned)code < ERR_CODES ? names[code] : "unknown";
}
