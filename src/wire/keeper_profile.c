#include <assert.h>

#include "keeper_msg.h"

static const char *const names[] = {
	[KEEPER_STANDARD] = "standard",
	[KEEPER_LOCKED] = "locked",
};
static_assert(COUNT(names) == KEEPER_PROFILES, "a name for every profile");

const char *keeper_profile_name(enum keeper_profile profile)
{
	return (unsigned)profile < KEEPER_PROFILES ? names[profile] : "unknown";
}
