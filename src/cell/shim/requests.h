/* requests.h - the server's requests (agent_msg.h): those about programs are passed on to the
 * guest, the others are the shim's own. Called by main.c.
 *
 * A request is handled in order, when no report is pending. A request for the guest waits while the
 * guest starts, is saved or does not read, and all later requests wait with it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/wire/frame.h"

/* Handle a request. False: it has to wait. */
bool requests_handle(const struct frame *f);

/* Kill programs without HOLD whose server is gone. */
void requests_kill_abandoned(void);

/* Kill programs whose deadline had passed at now_ns. If the guest does not do that within some
 * ticks, the guest is ended. */
void requests_end_late(uint64_t now_ns);
