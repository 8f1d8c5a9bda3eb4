/* requests.h - the server's requests (agent_msg.h): those about programs go on to the guest, the
 * others are the shim's own. Called by main.c.
 *
 * A request is handled in order, when no report is pending. One that is for the guest while the
 * guest is starting, being saved or not reading waits, and with it all that follow. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Handles requests as long as it is possible. */
void requests_handle(void);

/* A request waits for the guest: nothing more is to be received. */
bool requests_are_blocked(void);

/* The connection was replaced or lost: a request that waits is dropped with it. */
void requests_on_disconnect(void);

/* Kills programs that were not held and whose server is gone. */
void requests_kill_abandoned(void);

/* Kills programs whose deadline was over at now_ns. If the guest does not do that within some ticks,
 * the guest is ended. */
void requests_end_late(uint64_t now_ns);
