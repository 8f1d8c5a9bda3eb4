/* masked.h - content of files for a key of scope read: values of the session's secrets are masked,
 * as in the session's output. Lengths stay the same. */
#pragma once

#include "front/web/request.h"
#include "lib/mask/mask.h"

struct masked {
	bool on; /* else bytes pass unchanged */
	struct mask_stream stream;
	uint8_t *out; /* owned: masked, and not yet written */
	size_t at, len;
	bool ended;
};

/* Decide whether content is masked for this request. */
void masked_begin(struct masked *k, const struct request *r, const struct session *s);
/* Take up to len bytes and return how many. Fewer: on_writable follows. Abort the answer if the
 * session or its mask does not exist any more. */
size_t masked_write(struct masked *k, struct request *r, const uint8_t *data, size_t len);
/* The content is complete. True: all of it is written. False: call again when there is room. */
bool masked_end(struct masked *k, struct request *r);
void masked_release(struct masked *k); /* wipes it */
