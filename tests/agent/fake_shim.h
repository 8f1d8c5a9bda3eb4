/* fake_shim.h - the other end of a real cordon-init that runs as PID 1 of a guest, without any
 * engine: in namespaces of its own (processes, mounts, network), connected by a socket pair. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/wire/guest_msg.h"
#include "lib/wire/mux.h"

#define WAIT_MS 30000

/* What the shim knows of a stream. */
struct seen_stream {
	bool used, eof, over, opened, clean;
	bool hold; /* bytes are counted, but not consumed: no credit is given back */
	int sys;   /* of RESET */
	uint64_t total;
	uint64_t next; /* of a counting program: the number that must come */
	bool wrong;
	uint8_t part[8];
	char text[4096]; /* the first bytes */
	const char *send;
	size_t send_len;
	bool send_eof;
	struct mux_open open; /* of a stream that the guest opened */
};

extern struct seen_stream streams[MUX_NUMBERS];
extern const struct seen_stream *inherited; /* what the first stream of the next HELD continues */
extern pid_t guest_pid;
extern struct guest_ready last_ready;
extern unsigned npongs, nquiesced;
extern uint16_t last_opened; /* by the guest; 0: none since it was set to 0 */

/* Starts the guest; skips the test without root. */
void shim_start(void);

/* Sends HELLO, and waits for READY. */
void shim_hello(uint64_t generation);
void shim_send(uint16_t type, const void *body, size_t len);
/* An order of channel B. */
void shim_order(enum agent_type type, struct agent_order o);

/* Starts `bash -c script` as root. */
void shim_spawn(uint32_t handle, const char *script, uint32_t flags);
/* The next event, which must be of that type; its streams are accepted. */
struct guest_event shim_hear(enum agent_type type);
/* The same, skipping others. */
struct guest_event shim_hear_in_time(enum agent_type type);

/* Sends on a stream: text stays the caller's. */
void shim_type(uint16_t stream, const char *text, size_t len, bool eof);
void shim_reset(uint16_t stream);
/* Gives back all credit that was held. */
void shim_release(uint16_t stream);
uint16_t shim_dial(uint16_t port);
void shim_answer(uint16_t stream);

/* One step: waits up to ms for bytes, handles them. False if none came. */
bool shim_step(int ms);
/* Steps until the condition holds. */
#define shim_until(condition)                                            \
	do {                                                             \
		uint64_t end_ = clock_now_ns() + WAIT_MS * CLOCK_MS;     \
		while (!(condition)) {                                   \
			(void)shim_step(100);                            \
			if (clock_now_ns() > end_)                       \
				FAIL("did not come to be: " #condition); \
		}                                                        \
	} while (0)
