/* output_record.h - the head of one record in an execution's log, see output.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OUTPUT_RECORD_HEAD 24

struct output_record {
	uint32_t len;
	uint32_t stream; /* enum output_stream */
	uint64_t time_ms;
	uint64_t offset; /* in its stream */
};

/* Read the head at that place. 1: it is complete and valid. 0: it is not (*ret is the partial head,
 * or zeros). -1: the file cannot be read. */
int output_record_read(int fd, uint64_t at, struct output_record *ret);
/* output_record_read() for many heads, one after the other: they are read some KiB at a time, since
 * a log may have a record for each byte. For a file without a writer. */
#define OUTPUT_HEADS_WINDOW 8192
struct output_heads {
	int fd; /* borrowed */
	uint64_t from;
	size_t n;	/* bytes from there on */
	uint64_t reads; /* for tests: system calls */
	uint8_t bytes[OUTPUT_HEADS_WINDOW];
};
void output_heads_begin(struct output_heads *h, int fd);
int output_heads_read(struct output_heads *h, uint64_t at, struct output_record *ret);

/* Does the head belong to an open record, which readers skip? Then the mark is taken off its
 * stream. */
#define OUTPUT_RECORD_OPEN 0x80000000U
bool output_record_is_open(struct output_record *r);
int output_record_write(int fd, uint64_t at, const struct output_record *r);
