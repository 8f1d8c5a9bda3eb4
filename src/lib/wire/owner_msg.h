/* owner_msg.h - questions of cordon-egress to a cell: which program made this connection?
 * (doc/decisions/018-execution-of-network-records.md)
 *
 * One question, and one answer, for each datagram of a Unix socket (SOCK_SEQPACKET). cordond makes
 * the pair and passes one end to cordon-egress and the other to PID 1, so neither shares its end.
 * Both sides read data that the other may have forged: a message has one exact size and bounded
 * values. Answers come in any order, late, or not at all. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

enum owner_result {
	OWNER_FOUND,	   /* the answer has a mark (cell/init/base/tree_mark.h) */
	OWNER_GONE,	   /* no process has the connection open */
	OWNER_TOO_MANY,	   /* more processes or descriptors than are looked at */
	OWNER_UNREADABLE,  /* none was found, but there are processes that could not be looked at */
	OWNER_UNSUPPORTED, /* the kernel does not say it, or this cell has no way to ask */
	OWNER_ON_WIRE,	   /* those above may be in an answer */
	OWNER_LATE = OWNER_ON_WIRE, /* there was no answer in time */
	OWNER_RESULTS
};

/* Addresses as in ip.h: 16 bytes, IPv4 is mapped. */
struct owner_question {
	uint64_t id;
	uint8_t from[16], to[16]; /* as the program's socket has them: its own address is from */
	uint16_t from_port, to_port;
	uint32_t zero;
};

struct owner_answer {
	uint64_t id;
	uint64_t mark; /* 0 unless result is OWNER_FOUND */
	uint32_t result;
	uint32_t zero;
};

/* A mark is a positive number of 63 bits, so that it fits in JSON and in the store. */
#define OWNER_MARK_MAX ((uint64_t)INT64_MAX)

int owner_question_read(const void *bytes, size_t len, struct owner_question *ret,
			struct err *e) MUST_USE;
int owner_answer_read(const void *bytes, size_t len, struct owner_answer *ret,
		      struct err *e) MUST_USE;
/* The word for records: "gone", "too_many", .... NULL for OWNER_FOUND. */
const char *owner_result_word(enum owner_result result);
