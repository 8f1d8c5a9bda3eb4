#include "egress/flow/upstream.h"

#include <stdlib.h>

struct upstream *upstream_new(struct loop *l, const struct upstream_key *key, int fd,
			      const struct ip *at, struct err *e)
{
	struct upstream *up = calloc(1, sizeof(*up));

	if (!up) {
		fd_close(fd);
		(void)err_set(e, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	up->key = *key;
	up->at = *at;
	if (gateway_stream_open(&up->stream, l, fd, e) == 0)
		return up;
	free(up);
	return NULL;
}

void upstream_free(struct upstream *up)
{
	if (!up)
		return;
	gateway_stream_close(&up->stream, up->stream.out.len > 0);
	free(up);
}
