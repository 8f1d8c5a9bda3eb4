/* carrier.h - the one byte stream to the guest: reads frames, writes messages and the streams'
 * frames (mux.h). Called by guest_life.c, guest_programs.c, streams.c. One for each process.
 *
 * Memory is bounded with any guest: one buffer for received bytes, one for bytes to be sent. When
 * the guest does not read, messages do not fit any more (carrier_can_send()), and the server's
 * requests wait. */
#pragma once

#include <stdbool.h>

#include "lib/wire/mux.h"

extern struct mux carrier_mux;

/* Take the socket. on_message: a message of stream 0. on_broken: the guest broke the protocol, or
 * the stream ended (e says so). The carrier is closed then. Stream events go to streams.h. */
typedef void carrier_message_fn(const struct frame *f);
typedef void carrier_broken_fn(const struct err *e);
int carrier_open(int fd, carrier_message_fn *on_message, carrier_broken_fn *on_broken,
		 struct err *e) MUST_USE;
void carrier_close(void);

/* A request can be sent: there is room, and no earlier one is still being copied. */
bool carrier_can_send(void);

/* Send a message of at most CARRIER_MESSAGE_MAX bytes. There is always room for one if
 * carrier_can_send(), and for a few more of the shim's own. False: there was no room. */
#define CARRIER_MESSAGE_MAX 1024U
bool carrier_send(uint16_t type, const void *body, size_t len);

/* Send a request of any size: head, then rest. rest is borrowed until carrier_can_send() is true
 * again. */
void carrier_send_large(uint16_t type, const void *head, size_t head_len, const uint8_t *rest,
			size_t rest_len);

/* A large request is being copied. Its rest is still borrowed. */
bool carrier_is_sending_large(void);
/* Its owner goes away: the rest is copied. */
void carrier_keep_large(void);

/* While held, no frame of a stream is written. Messages are. */
void carrier_hold(bool held);

/* All that could be sent was written to the socket. */
bool carrier_is_drained(void);

/* The guest begins again with the streams: earlier ones are gone. */
void carrier_restart(void);

/* Write as much as the socket takes. */
void carrier_pump(void);
