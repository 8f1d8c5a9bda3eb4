#include "oci_whiteout.h"

#include <string.h>

#define PREFIX ".wh."
#define PREFIX_LEN (sizeof(PREFIX) - 1)

enum oci_whiteout oci_whiteout_of(const char *name, const char **ret_name)
{
	const char *rest = name + PREFIX_LEN;

	if (strncmp(name, PREFIX, PREFIX_LEN) != 0)
		return OCI_WHITEOUT_NONE;
	if (strcmp(rest, PREFIX ".opq") == 0)
		return OCI_WHITEOUT_OPAQUE;
	if (strncmp(rest, PREFIX, PREFIX_LEN) == 0)
		return OCI_WHITEOUT_IGNORED;
	if (rest[0] == '\0' || strcmp(rest, ".") == 0 || strcmp(rest, "..") == 0 ||
	    strchr(rest, '/') != NULL)
		return OCI_WHITEOUT_BAD;
	*ret_name = rest;
	return OCI_WHITEOUT_ONE;
}
