/* bulk.h - how fast many bytes go through the server, in either direction. Each prints lines
 * "name TAB bytes TAB seconds"; a failure ends the program. */
#pragma once

#include <stdint.h>

/* bytes through the standard output of one execution: until it has ended and all is kept, then read
 * back with one GET; and the same again, read live through a WebSocket. */
void bulk_output(uint64_t bytes);

/* A file of that size into a session and out of it. */
void bulk_files(uint64_t bytes);
