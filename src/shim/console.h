/* console.h - the end of what the engine and the guest's console print, for errors. The shim always
 * empties the pipe, so that no writer waits. Called by guest_life.c. */
#pragma once

#include <stdbool.h>

#include "loop.h"

/* Makes the pipe. Returns its write end, which stays open for as long as the process runs, or -1.
 */
int console_open(struct loop *l, struct err *e) MUST_USE;

/* Adds a line of the shim's own, behind what was printed so far. */
void console_note(const char *why);

/* Whether this is in it. */
bool console_has(const char *text);

/* A sealed memory file with the last bytes, at most BOOT_TEXT_MAX; -1 if there is nothing, or no
 * file can be made. Reads what is still in the pipe first. */
int console_file(void);
