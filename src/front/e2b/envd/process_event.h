/* process_event.h - the messages of a process' stream: ProcessEvent in the contract. Pure. */
#pragma once

#include "daemon/output/output.h"
#include "daemon/store/store_execution.h"
#include "lib/json/json.h"

#define PROCESS_EVENT_KEEPALIVE "{\"event\":{\"keepalive\":{}}}"
#define PROCESS_EVENT_PIECE 32768U     /* bytes of a pipe's data in one message */
#define PROCESS_EVENT_PTY_PIECE 16384U /* and of a terminal's */
/* Characters of a message with that many bytes of data, with its NUL. */
#define PROCESS_EVENT_DATA_MAX (((PROCESS_EVENT_PIECE + 2) / 3) * 4 + 64)
#define PROCESS_EVENT_MAX 512 /* of any other message */

void process_event_start(struct json *j, uint32_t pid);
/* Return its length. n is at most PROCESS_EVENT_PIECE. */
size_t process_event_data(char ret[PROCESS_EVENT_DATA_MAX], enum output_stream stream, bool pty,
			  const uint8_t *bytes, size_t n);
/* The end of a started process. */
void process_event_end(struct json *j, const struct store_execution *row);
