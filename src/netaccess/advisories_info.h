/* advisories_info.h - how long and how old the list of advisories in the state directory is, for
 * metrics. cordon-egress gets the list itself from the supervisor. */
#pragma once

#include <stdint.h>

/* Both 0: there is no list. */
void advisories_info(const char *state_dir, uint64_t *ret_lines, uint64_t *ret_age_s);
