/* session_uses.c - see session_uses.h. A use is known by a part from its SHA-256: clients
 * and cells choose names, and must not find two that look the same. */
#include "daemon/session/session_uses.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/node/core_private.h"
#include "lib/base/clock.h"
#include "lib/base/sha256.h"

#define USES_HOUR_NS (3600ULL * 1000 * CLOCK_MS)

static void uses_hash(const char *const what[3], uint8_t ret[SHA256_SIZE])
{
	struct sha256 sum;

	sha256_init(&sum);
	for (size_t i = 0; i < 3; i++)
		sha256_add(&sum, what[i], strlen(what[i]) + 1);
	sha256_end(&sum, ret);
}

bool session_uses_first(struct session *s, enum session_uses_kind kind, const char *const what[3],
			uint64_t *ret_more)
{
	uint64_t now = clock_now_ns();
	uint8_t hash[SHA256_SIZE];
	struct session_uses *u;

	*ret_more = 0;
	uses_hash(what, hash);
	if (s->uses == NULL)
		s->uses = calloc(SESSION_USES_KINDS, sizeof(*s->uses));
	if (s->uses == NULL)
		return true; /* a record too many */
	u = &s->uses[kind];
	if (u->began_ns == 0 || now - u->began_ns >= USES_HOUR_NS) {
		u->began_ns = now;
		u->n = 0;
	}
	for (unsigned i = 0; i < u->n; i++)
		if (memcmp(u->seen[i], hash, SESSION_USES_HASH) == 0)
			return false;
	if (u->n == SESSION_USES_MAX) {
		u->more++;
		return false;
	}
	memcpy(u->seen[u->n++], hash, SESSION_USES_HASH);
	*ret_more = u->more;
	u->more = 0;
	return true;
}
