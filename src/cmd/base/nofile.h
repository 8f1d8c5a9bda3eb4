/* nofile.h - how many descriptors the programs of a server need. For cordon serve, which warns, and
 * cordon doctor. */
#pragma once

#include <stdint.h>

#define NOFILE_EACH 64	      /* of a session: in cordond, or its connections in cordon-egress */
#define NOFILE_BASE 4096      /* clients, lookups, reserves */
#define NOFILE_SESSIONS 1000U /* what node_max_sessions is at least, if it is not set */

/* Each program has this limit of its own. */
static inline uint64_t nofile_wanted(uint64_t sessions)
{
	return NOFILE_BASE + NOFILE_EACH * sessions;
}

/* How many sessions that many descriptors are enough for. */
static inline uint64_t nofile_sessions(uint64_t files)
{
	return files < NOFILE_BASE ? 0 : (files - NOFILE_BASE) / NOFILE_EACH;
}
