/* streams.h - a stream of the guest (mux.h), joined to a pipe or a socket of the cell. Called by
 * carrier.c for what arrives. guest_programs.c, egress_open.c and guest_dial.c join them.
 *
 * Bytes for the guest are read when the guest has given credit, into the frame itself. Bytes of the
 * guest are written at once. Bytes that do not fit are kept here, at most the guest's credit
 * (MUX_WINDOW), until the reader makes room. So a reader that does not read stops its own stream
 * only, and memory is bounded. */
#pragma once

#include <stdbool.h>

#include "lib/loop/loop.h"
#include "lib/wire/mux.h"

/* All that may be there at a time (streams.c has the sum). One that ends is counted until its last
 * bytes are written. */
#define STREAMS_MAX 3136U

struct stream {
	uint16_t number;  /* 0: over for the mux, but bytes are still to be written */
	enum mux_way way; /* MUX_IN: bytes come from the guest */
	int fd;		  /* owned, non-blocking */
	bool is_socket;
	bool got_eof;  /* of the guest */
	bool sent_eof; /* to the guest */
	uint32_t watching;
	struct loop_fd ready;
	uint8_t *kept; /* what is still to be written, NULL if nothing */
	size_t at, have, size;
	uint64_t received, written;	     /* bytes of the guest */
	int sys;			     /* why the guest gave it up, if it did */
	void (*on_opened)(struct stream *s); /* the guest has accepted it, may be NULL */
	void (*on_end)(struct stream *s);    /* it is about to be freed, may be NULL */
	void *arg;			     /* the owner's */
};

/* Make one for a descriptor. Take fd over in any case. NULL: no memory, or too many. The caller
 * joins it to a number of the mux. */
struct stream *stream_new(int fd, enum mux_way way, bool is_socket);

/* The stream of that number has this stream as its argument now. Begin to move bytes. */
void stream_join(struct stream *s, uint16_t number);

/* The guest sends no more bytes. */
void stream_on_eof(struct stream *s);

/* Give it up: the guest gets a RESET. on_end is not called. */
void stream_free(struct stream *s, int sys);

/* For carrier.c. */
ssize_t streams_fill(uint16_t number, void *stream, uint8_t *to, size_t max);
void streams_on_event(const struct mux_event *v);
/* Look at all descriptors for bytes to the guest, without waiting to be told of them. */
void streams_want_all(void);
/* No frame will come any more: received bytes are still written. */
void streams_drop_all(void);
