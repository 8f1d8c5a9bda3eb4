/* shim_bed.h - a real cordon-shim with a fake engine, as PID 1 of a pid namespace, without a cell.
 * The test has both of its ends: it is the server, at channel B, and the guest, at the byte stream.
 * One test, one process, one shim. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "cell/cellctl/agent_client.h"
#include "lib/wire/guest_msg.h"
#include "test.h"

#define WAIT_MS 20000
/* Of a held program with input. */
#define BED_PIPES (AGENT_IS_HELD | AGENT_HAS_STDIN)

extern struct agent agent; /* the server's end */
extern pid_t bed_shim;	   /* outside */
extern int bed_guest;	   /* the guest's end of the stream */
extern struct boot_request bed_request;
extern const struct agent_event bed_nothing;

/* Starts the shim, hears READY, lets it linger. Skips without root. program: of argv. */
void bed_start(void);
/* BOOT; text: in the place of the root image, see fake_engine.c. */
void bed_boot(const char *text);
/* BOOT, and a guest that answers HELLO with READY and SYNCED; then BOOTED. */
void bed_boot_ready(void);
/* Both: a shim whose guest runs. */
void bed_begin(void);

/* Ends the shim and checks that it did so in time. */
void bed_end(void);
bool bed_is_over(int ms);

/* The server: the next event, which must be of that type. */
struct agent_event bed_hear(enum agent_type type);
bool bed_is_silent(int ms);
void bed_take_fds(int *fds, size_t n);
void bed_spawn(uint32_t handle, const char *script, uint32_t flags, uint64_t timeout_ms);
/* A held program that has started; first: its stdin's stream, the next odd two are its outputs'. */
void bed_start_program(uint32_t handle, uint16_t first, int fds[3]);
/* Another connection, as another server makes it; READY has been heard. */
void bed_reconnect(void);
/* Reads until that many bytes came or the end; returns how many. */
size_t bed_read(int fd, void *to, size_t n);
void bed_write(int fd, const void *from, size_t n);

/* The guest: raw frames. */
void guest_say(uint16_t type, uint16_t stream, const void *body, size_t len);
void guest_say_data(uint16_t stream, const void *bytes, size_t n);
void guest_say_event(uint16_t type, const struct agent_event *v, const uint16_t *streams, size_t n);
/* The next frame, which must be of that type; its body is valid until the next call. */
struct frame guest_hear(uint16_t type);
/* The same, after any others. */
struct frame guest_find(uint16_t type);
bool guest_is_silent(int ms);
/* Hears HELLO and says READY; returns its generation. */
uint64_t guest_greet(void);
/* Hears a SPAWN and says STARTED with streams from first on; returns the handle. */
uint32_t guest_start_program(uint16_t first, uint32_t flags);
