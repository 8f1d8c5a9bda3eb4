/* cell_profile.c - the names of profiles. Apart from the checks in keeper_msg.c because the keeper,
 * whose lines are counted, knows profiles by number only. */
#include <string.h>

#include "cell_spec.h"

const char *const cell_profile_names[CELL_PROFILES] = {
	[CELL_STANDARD] = "standard",
	[CELL_LOCKED] = "locked",
};

const char *cell_profile_name(enum cell_profile profile)
{
	return (unsigned)profile < CELL_PROFILES ? cell_profile_names[profile] : "unknown";
}

enum cell_profile cell_profile_find(const char *name)
{
	unsigned i = 0;

	while (i < CELL_PROFILES && strcmp(cell_profile_names[i], name) != 0)
		i++;
	return (enum cell_profile)i;
}
