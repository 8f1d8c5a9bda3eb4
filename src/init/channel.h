/* channel.h - channel B, PID 1's end: whole requests in, events out, and the next connection.
 *
 * Nothing here blocks. An event is taken by the kernel whole or not at all; what it does not take
 * is owed, and event_out.c remembers it. When the other end is gone, the cell is over, unless it
 * lingers: then channel_is_open() is false until the next connection. */
#pragma once

#include <poll.h>
#include <stdbool.h>

#include "agent_msg.h"

#define CHANNEL_FDS 2 /* descriptors it may want to wait for at once */

/* Takes descriptor 3. */
int channel_init(void) MUST_USE;

bool channel_is_open(void);

/* Writing fails for good. Requests may still be there, and count. */
bool channel_is_broken(void);

/* Writes CHANNEL_FDS entries for poll(2), the connection first. Entries without use have fd -1. */
void channel_poll_fds(struct pollfd *ret_fds);

/* Must be tried again after a short while, though nothing will show in poll(2). */
bool channel_needs_retry(void);

/* Sends one event. False: there is no connection, or the kernel takes no more now. */
bool channel_send(enum agent_type type, const struct agent_event *v, const int *fds, size_t nfds);

/* Reads what there is, at most once. False if there was nothing. Ends the cell if the connection is
 * at its end and the cell does not linger. */
bool channel_receive(void);

/* The next whole request; its body is valid until the next call. Ends the cell if it is none. */
bool channel_next(struct frame *ret);

/* Listens on the socket that came along with a LINGER; returns 0 or errno. */
int channel_linger(void);

/* Accepts a connection that waits: true. It will replace the one there is, which is mute from now
 * on; what is left of its requests can be read until channel_replace(). */
bool channel_accept(void);
void channel_replace(void);
