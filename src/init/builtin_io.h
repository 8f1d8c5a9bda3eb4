/* builtin_io.h - how a built-in talks: records and bytes out, chunks in, errors with their cause.
 * One process, one built-in: the state is the process's. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "file_msg.h"

#define BUILTIN_IO_BUFFER 65536

/* Output is buffered until flushed. Each fails if the other end is closed. */
int builtin_io_bytes(const void *bytes, size_t len, struct err *e) MUST_USE;
int builtin_io_flush(struct err *e) MUST_USE;

/* Says one record. A string that is too long fails (ERR_LIMIT). */
int builtin_io_record(const struct file_msg *m, struct err *e) MUST_USE;

/* Reads content out of the chunks on standard input. Returns bytes, 0 when it was said to be
 * complete, -1 if it broke off before (ERR_CONFLICT) or is malformed. */
ssize_t builtin_io_read(void *ret, size_t cap, struct err *e) MUST_USE;

/* Fills exactly len bytes from there. Returns 0, or 1 if the content ended at the first byte. */
int builtin_io_read_exactly(void *ret, size_t len, struct err *e) MUST_USE;

/* "step path: why" of errno, with the code that it means. Returns -1. */
int builtin_io_fail(struct err *e, const char *step, const char *path);

/* An octal mode of at most 07777, or "-": *ret stays as it is. */
int builtin_io_mode(const char *text, uint32_t *ret, struct err *e) MUST_USE;
