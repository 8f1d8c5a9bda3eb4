/* channel.h - PID 1's end of channel B: receives whole requests, sends events, accepts the next
 * connection. Called by main.c and agentd.c, and by cordon-shim (cell/shim).
 *
 * Nothing here blocks. The kernel accepts an event as a whole or not at all. agentd.c keeps
 * those that it does not accept. When the other end closes, PID 1 exits, unless the cell lingers:
 * then channel_is_open() is false until the next connection. */
#pragma once

#include <poll.h>
#include <stdbool.h>

#include "lib/wire/agent_msg.h"
#include "lib/wire/boot_msg.h"

#define CHANNEL_FDS 2 /* entries of channel_poll_fds() */

/* In a guest the connection is another one (guest_link.h), which does the same. */
struct channel_carrier {
	bool (*is_broken)(void);
	bool (*send)(enum agent_type type, const struct agent_event *v, const int *fds,
		     size_t nfds);
	bool (*receive)(void);
	bool (*next)(struct frame *ret);
	bool (*is_drained)(uint32_t program);
};

void channel_use_carrier(const struct channel_carrier *carrier);
bool channel_has_carrier(void);

/* Take descriptor 3. */
int channel_init(void) MUST_USE;

bool channel_is_open(void);

/* Nothing can be written any more. Requests received before are still handled. */
bool channel_is_broken(void);

/* Write CHANNEL_FDS entries for poll(2): the connection, then the listener. Unused ones have fd
 * -1. */
void channel_poll_fds(struct pollfd *ret_fds);

/* Sending must be tried again after a short while: poll(2) will not report when it is possible. */
bool channel_needs_retry(void);

/* Send one event. False: there is no connection, or the kernel does not accept it now. */
bool channel_send(enum agent_type type, const struct agent_event *v, const int *fds, size_t nfds);

/* With a carrier: were all bytes sent that the program's output pipes held at the first call? The
 * server itself reads passed descriptors, but streams of a guest bring the output over the same
 * connection, and the output goes before EXITED. */
bool channel_is_drained(uint32_t program);

/* Receive once. False if there was nothing. At the end of the connection PID 1 exits, if the cell
 * does not linger. */
bool channel_receive(void);

/* The next whole request. Its body is valid until the next call. PID 1 exits if it is malformed. */
bool channel_next(struct frame *ret);

/* Listen on the socket that came with a LINGER. Return 0 or an errno. */
int channel_linger(void);

/* The descriptor that came with the request, if it was not taken. The caller owns it. -1: none. */
int channel_take_fd(void);
/* All that came with it. Return how many. */
size_t channel_take_fds(int ret_fds[BOOT_FDS_MAX]);

/* Accept a waiting connection. False if there is none. channel_replace() puts it in place of the
 * current one. The current one is broken from now on, and its requests can be received until then.
 */
bool channel_accept(void);
void channel_replace(void);
