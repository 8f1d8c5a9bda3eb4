/* guest_stream.h - what every owner of a stream of a guest has first: guest_pump.c (a descriptor)
 * and guest_dns.c (a query). The arg of a stream in the mux is this. */
#pragma once

#include "lib/wire/mux.h"

struct guest_stream {
	/* As mux_fill. */
	ssize_t (*fill)(struct guest_stream *s, uint8_t *to, size_t max);
	/* As mux_claim, into a pipe. NULL: never. */
	size_t (*claim)(struct guest_stream *s, int pipe, size_t max);
	/* Every event of the stream but ON_OPEN. */
	void (*on_event)(struct guest_stream *s, struct mux *m, const struct mux_event *v);
};
