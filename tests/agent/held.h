/* held.h - a real cell for the tests of PID 1: makes it, talks to it, loses it, finds it again. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "cell/cellctl/agent_client.h"

#define WAIT_MS 30000

/* The cell of this test, and the connection to its PID 1. One test, one process, one cell. */
extern struct agent agent;
extern pid_t pid1; /* its number outside */
extern int pid1_fd;

extern bool held_locked; /* make it with the locked profile: PID 1 is not even root of the cell */

extern const char *held_cwd; /* of what is started; /tmp */

/* Skips the test if it cannot be had: no root. pids: how many processes it may have. */
void held_make_cell(unsigned pids);
void held_end_cell(void);

/* Asks PID 1 to linger; from then on connections can be lost and made. */
void held_linger(void);
void held_disconnect(void);
/* Another connection, without greeting yet. The old one is left open in *ret_old if not NULL. */
void held_connect(int *ret_old);
/* Disconnects, connects, and checks READY; HELD and SYNCED are still to come. */
void held_reconnect(void);

/* Starts `bash -c script` (or, for a built-in, the words in script) with flags; checks STARTED and
 * returns its pid. fds, if not NULL, gets what came along, else that is closed. */
pid_t held_spawn(uint32_t handle, const char *script, uint32_t flags, uint64_t timeout_ms,
		 int *fds);
void held_ask_spawn(uint32_t handle, const char *script, uint32_t flags, uint64_t timeout_ms);

/* The next message, which must come and be of that type. */
struct agent_event held_hear(enum agent_type type);
/* Skips messages of other types until this one comes. */
struct agent_event held_hear_in_time(enum agent_type type);
bool held_is_silent(int ms);
/* Takes the descriptors of the last message. */
void held_take_fds(int *fds, size_t n);

/* Reads until the text has come, or all there is until the end if text is NULL. */
void held_expect(int fd, const char *text);
void held_type(int fd, const char *text);

/* How many processes the cell has, by asking PID 1. */
unsigned held_processes(void);
/* Waits until that is so many. */
void held_wait_processes(unsigned n);
bool held_is_over(int ms);
void held_sleep(int ms);
