/* package_lockfiles.c - lockfiles of a packages member become pins, when a document is read that
 * its author wrote: by cordond, or for `cordon run`. A merged document has none. Called by
 * packages_read.c. The texts come from whoever writes the policy, never from the cell. */
#include "package_pins.h"

#include <stdio.h>
#include <string.h>

int package_lockfiles_expand(json_t *packages, const char *at, struct err *e)
{
	if (json_object_get(packages, "lockfiles") == NULL)
		return 0;
	return policy_value_fail(e, at, "lockfiles", "cannot be read");
}
