/* policy_allow.h - the part of a policy that would allow a refused host, for people and programs
 * that see a refusal. Called by cordond's answers and by the command line. Pure, but for an index
 * of the presets that the first call makes and keeps. */
#pragma once

#include <stdbool.h>

struct json;

/* The first preset with a rule that allows something at this host, by its exact name. NULL: none.
 * Presets that allow every host do not count. */
const char *policy_allow_preset(const char *host);

/* Can the name be the host or the address of a rule, as it is? Names come from cells. */
bool policy_allow_is_host(const char *name);

/* The member allow: {"extends": ["pypi"]}, {"rules": [{"host": "a.example"}]} or {"rules":
 * [{"cidr": "192.0.2.1"}]}, for the policy of a session. null: the name can be in no rule. */
void policy_allow_write(struct json *j, const char *name);
