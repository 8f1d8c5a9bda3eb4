/* builtin_io.h - input and output of a built-in: records (file_msg.h) and bytes to standard output,
 * chunks from standard input, errors. Called by all built-ins. The state is static, as a process
 * runs one built-in. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "lib/wire/file_msg.h"

#define BUILTIN_IO_BUFFER 65536

/* Output is buffered until it is flushed. Each fails if the other end of the pipe is closed. */
int builtin_io_bytes(const void *bytes, size_t len, struct err *e) MUST_USE;
int builtin_io_flush(struct err *e) MUST_USE;

/* Write one record. ERR_LIMIT if a string is too long. */
int builtin_io_record(const struct file_msg *m, struct err *e) MUST_USE;

/* Read content from the chunks on standard input. Return the number of bytes, 0 after the last
 * chunk, -1 if the input ended before (ERR_CONFLICT) or is malformed. */
ssize_t builtin_io_read(void *ret, size_t cap, struct err *e) MUST_USE;

/* From now on content is read from this descriptor up to its end, not from chunks. -1: from chunks
 * again. Return the one before. */
int builtin_io_take_plain(int fd);

/* Read exactly len bytes. Return 0, or 1 if the content was at its end. */
int builtin_io_read_exactly(void *ret, size_t len, struct err *e) MUST_USE;

/* Set the error "step: strerror(errno): path" with the err_code of errno. Return -1. */
int builtin_io_fail(struct err *e, const char *step, const char *path);

/* Read an octal mode of at most 07777. "-" leaves *ret unchanged. */
int builtin_io_mode(const char *text, uint32_t *ret, struct err *e) MUST_USE;
