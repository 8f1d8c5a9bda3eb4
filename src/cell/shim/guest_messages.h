/* guest_messages.h - stream 0: the messages between the shim and the guest's agent (guest_msg.h).
 * Checks that each fits a request. One that does not is a breach, and the guest is ended. Called by
 * guest_life.c and requests.c. The second part is implemented by guest_life.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/wire/guest_msg.h"

/* For carrier.h. */
void guest_messages_on_frame(const struct frame *f);

/* HELLO. first: programs of a memory image are reported, then SYNCED. False: it cannot be sent. */
bool guest_messages_hello(const struct guest_hello *h, bool first);
void guest_messages_quiesce(void);
void guest_messages_go_on(void);

/* Requests with one answer each. */
void guest_messages_stat(void);
void guest_messages_kill_all(void);
/* The server is gone: answers to its requests are not for the next one. */
void guest_messages_on_disconnect(void);

/* guest_life.c acts on them. */
void guest_life_on_ready(void);
/* e: the settings that the guest's kernel did not allow. */
void guest_life_on_refused(const struct err *e, int sys);
void guest_life_on_quiesced(void);
bool guest_life_is_restored(void); /* from a memory image, which may have programs */
bool guest_life_must_obey(void);
void guest_life_breach(const struct err *e);

extern unsigned
	guest_messages_ping_ms; /* between two calls of guest_messages_watch_ping(), tests set it */

/* Send a PING. Return its number. The guest answers them in order (guest_programs.h). */
uint64_t guest_messages_ping(void);

/* So much time has passed while the guest ran. */
void guest_messages_watch_ping(void);

/* Earlier unanswered PINGs do not count: the guest was stopped. */
void guest_messages_forgive(void);
