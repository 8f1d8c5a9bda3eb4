/* guest_pump.h - the descriptors behind the streams of a guest (lib/wire/mux.h): pipes of programs,
 * PTYs and sockets. A pump has one descriptor and moves bytes between it and its stream, with back
 * pressure in both directions. Called by guest_link.c, the owner of the mux, and guest_egress.c.
 *
 * A pump outlives its stream while it has undelivered input: after a HELLO of another generation,
 * or when the stream has ended. Then it is detached: it delivers, and ends, or gets the new stream
 * of the same pipe. */
#pragma once

#include <poll.h>
#include <stdbool.h>

#include "lib/wire/guest_msg.h"
#include "lib/wire/mux.h"

#define GUEST_PUMPS_MAX MUX_NUMBERS

/* Take no descriptor over: duplicate fd, and make it non-blocking. The pipe of a detached pump gets
 * that pump. program: the handle that its bytes belong to. Return the number of the new stream, or
 * 0: out of numbers, descriptors or memory. */
uint16_t guest_pump_announce(struct mux *m, int fd, enum mux_way way, uint32_t program);

/* A pump for a stream that this end opens. Take fd over. It waits for the answer. on_end may be
 * NULL. It is called when the pump is freed. False: fd is closed. */
bool guest_pump_open(struct mux *m, const struct mux_open *open, int fd, void (*on_end)(void));

/* Answer OPEN of a port (MUX_DIAL). */
void guest_pump_dial(struct mux *m, uint16_t number, uint16_t port);

/* Write entries for poll(2), GUEST_PUMPS_MAX at most. Return how many. reading: bytes may be read
 * from programs. */
nfds_t guest_pump_poll_fds(struct pollfd *ret_fds, bool reading);
/* After poll(2), with the same entries. */
void guest_pump_on_ready(struct mux *m, const struct pollfd *fds);

/* All streams have ended: the connection is another one. End the pumps that do not outlive their
 * stream. */
void guest_pump_detach_all(void);

/* Were all bytes sent that the program's output pipes held at the first call? */
bool guest_pump_is_drained(uint32_t program);
