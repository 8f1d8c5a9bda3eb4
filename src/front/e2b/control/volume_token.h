/* volume_token.h - access to the content of a volume: a token of the volume's id, the id of the key
 * that asked for it, the time of its end and an HMAC over these and the generation in the volume's
 * row. It needs no storage, is worth nothing for another volume, and ends with its key: the caller
 * checks that. Pure. */
#pragma once

#include "daemon/store/store_volume.h"
#include "front/e2b/base/token.h"

#define VOLUME_TOKEN_MAX (2 * STORE_ID_MAX + 32 + 64)
#define VOLUME_TOKEN_MS (24ULL * 3600 * 1000) /* how long one is valid */

void volume_token_make(const struct token_key *k, const struct store_volume *v, const char *key_id,
		       uint64_t until_ms, char ret[VOLUME_TOKEN_MAX]);
/* Is it a token of this volume, and not expired? ret_key: the id of its key. */
bool volume_token_check(const struct token_key *k, const struct store_volume *v, uint64_t now_ms,
			struct http1_span given, char ret_key[STORE_ID_MAX]);
