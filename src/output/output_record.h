/* output_record.h - the head of one record in an execution's log; see output.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define OUTPUT_RECORD_HEAD 24

struct output_record {
	uint32_t len;
	uint32_t stream; /* enum output_stream */
	uint64_t time_ms;
	uint64_t offset; /* in its stream */
};

/* 1 if a whole, sane head is at that place, 0 if there is none (*ret is then what is there, or
 * zeros), -1 if it cannot be read. */
int output_record_read(int fd, uint64_t at, struct output_record *ret);
/* Is what was read an open one, which readers do not see? Its stream is then without the mark. */
#define OUTPUT_RECORD_OPEN 0x80000000U
bool output_record_is_open(struct output_record *r);
int output_record_write(int fd, uint64_t at, const struct output_record *r);
