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

/* Reads the head at that place. 1: it is complete and valid; 0: it is not (*ret is what is there,
 * or zeros); -1: the file cannot be read. */
int output_record_read(int fd, uint64_t at, struct output_record *ret);
/* Is the head that was read that of an open record, which readers skip? Then the mark is taken off
 * its stream. */
#define OUTPUT_RECORD_OPEN 0x80000000U
bool output_record_is_open(struct output_record *r);
int output_record_write(int fd, uint64_t at, const struct output_record *r);
