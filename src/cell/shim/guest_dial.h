/* guest_dial.h - connections to ports of the guest: DIAL. Called by requests.c and report.c.
 *
 * If the guest shares the cell's network, the shim connects itself (cell/init/pid1/dialer.h), but
 * not to the code interpreter (AGENT_CODE_PORT). Else it makes a pair of TCP sockets on the cell's
 * loopback, passes one end to the server and joins the other to a stream that the guest's agent
 * connects. The server gets TCP in both cases, as it expects. */
#pragma once

#include <stdbool.h>

#include "lib/wire/agent_msg.h"

/* That wait for the guest: as many as the server has at a time, and as many again that it has given
 * up before the guest answered. */
#define GUEST_DIALS_MAX ((size_t)2 * AGENT_DIALS_MAX)

/* Begin. The answer comes by guest_dial_next_done(). directly: the shim connects, in the cell's
 * network. */
void guest_dial_begin(uint32_t handle, uint16_t port, bool directly);

/* An ended dial: its event, and the socket if sys is 0 (borrowed). Return the same one until
 * guest_dial_on_sent(). */
bool guest_dial_next_done(struct agent_event *ret, int *ret_fd);
void guest_dial_on_sent(const struct agent_event *v);

/* The server has gone, and with it the requests. */
void guest_dial_drop_all(void);
