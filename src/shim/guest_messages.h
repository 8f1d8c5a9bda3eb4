/* guest_messages.h - stream 0: the messages between the shim and the guest's agent (guest_msg.h).
 * Checks that each fits what was asked; one that does not is a breach, and the guest is ended.
 * Called by guest_life.c and requests.c; the second part is implemented by guest_life.c. */
#pragma once

#include <stdbool.h>

#include "err.h"
#include "guest_msg.h"

/* For carrier.h. */
void guest_messages_on_frame(const struct frame *f);

/* HELLO; first: programs of a memory image are reported, then SYNCED. False: it cannot be sent. */
bool guest_messages_hello(const struct guest_hello *h, bool first);
void guest_messages_quiesce(void);
void guest_messages_go_on(void);

/* Requests that are answered once. */
void guest_messages_stat(void);
void guest_messages_kill_all(void);
/* The server is gone: answers to what it asked are not for the next one. */
void guest_messages_on_disconnect(void);

/* What guest_life.c does about them. */
void guest_life_on_ready(void);
/* e: what the guest's kernel did not allow. */
void guest_life_on_refused(const struct err *e, int sys);
void guest_life_on_quiesced(void);
bool guest_life_is_restored(void); /* from a memory image, which may have programs */
bool guest_life_must_obey(void);
void guest_life_breach(const struct err *e);
