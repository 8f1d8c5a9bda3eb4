/* guest_link.h - the guest's end of the connection to its shim: one byte stream that carries
 * requests, events and streams (lib/wire/mux.h, lib/wire/guest_msg.h), in place of channel B. It is
 * the carrier of channel.h. main.c's loop calls the rest.
 *
 * The other end, the shim, is trusted: a frame that breaks the protocol ends PID 1. Nothing blocks.
 * Until the first HELLO, and between QUIESCED and the next HELLO or GO_ON, nothing is sent, and no
 * byte is read from programs. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "cell/init/base/channel.h"
#include "cell/init/guest/guest_egress.h"
#include "cell/init/guest/guest_pump.h"

#define GUEST_LINK_FDS (1 + GUEST_PUMPS_MAX + GUEST_EGRESS_FDS)

/* Apply the settings of HELLO: time, entropy, names, limits. Return which parts were refused (set
 * of GUEST_NO_*), and why the first of them in *ret_sys. */
typedef uint32_t (*guest_apply)(const struct guest_hello *h, int *ret_sys);

/* Take fd over: a stream socket, or the port of a virtual machine, whose end of file says only
 * that the host is not connected. */
int guest_link_begin(int fd, guest_apply apply) MUST_USE;

/* Is PID 1 in a guest? If not, nothing else here is called. */
bool guest_link_is_used(void);

/* A HELLO, from channel_next(). True if another shim has connected: all streams are dropped, READY
 * and HELD are to be sent. False: READY was sent. */
bool guest_link_on_hello(const struct frame *f);

/* Write entries for poll(2), at most GUEST_LINK_FDS. Return how many. */
nfds_t guest_link_poll_fds(struct pollfd *ret_fds);

/* After poll(2), first of all, with the same entries: moves bytes. True if messages can be read. */
bool guest_link_on_ready(const struct pollfd *fds);

/* Write waiting bytes to the shim, as many as it takes now. Called at the end of each turn. */
void guest_link_flush(void);

/* When the port should be looked at again though poll(2) would not report it. 0: never. */
uint64_t guest_link_wake_ns(uint64_t now_ns);
