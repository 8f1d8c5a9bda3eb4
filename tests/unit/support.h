/* support.h - what several unit tests need: named cases, exact buffers, a count of descriptors. */
#ifndef CORDON_TESTS_UNIT_SUPPORT_H
#define CORDON_TESTS_UNIT_SUPPORT_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>

#include "own.h"
#include "test.h"

/* A line of TAP is one line, whatever is in the text. */
static inline void print_text(const char *before, const char *text)
{
	printf("%s'", before);
	for (; *text != '\0'; text++)
		printf((unsigned char)*text < 0x20 || (unsigned char)*text > 0x7e ? "\\x%02x"
										  : "%c",
		       (unsigned)(unsigned char)*text);
	printf("'\n");
}

static inline NORETURN void fail_at(const char *file, int line, const char *what)
{
	printf("# %s:%d: %s\n", file, line, what);
	(void)fflush(stdout);
	_exit(1);
}

/* As CHECK, and says which line of the table it was. */
#define CHECK_CASE(name, cond)                              \
	do {                                                \
		if (!(cond)) {                              \
			print_text("# case: ", (name));     \
			fail_at(__FILE__, __LINE__, #cond); \
		}                                           \
	} while (0)

/* Ends the test if `text` does not contain `part`. */
#define CHECK_HAS(name, text, part)                         \
	do {                                                \
		if (strstr((text), (part)) == NULL) {       \
			print_text("# case: ", (name));     \
			print_text("# text: ", (text));     \
			print_text("# lacks: ", (part));    \
			fail_at(__FILE__, __LINE__, #text); \
		}                                           \
	} while (0)

/* How many descriptors this process has open. */
static inline int count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = -1; /* the directory's own */

	CHECK(d != NULL);
	for (struct dirent *entry; (entry = readdir(d)) != NULL;)
		n += entry->d_name[0] != '.';
	(void)closedir(d);
	return n;
}

/* A copy of exactly this size, so that a sanitizer sees one byte too far. The caller frees it. */
static inline void *exact_copy(const void *bytes, size_t len)
{
	void *copy = malloc(len + (len == 0));

	CHECK(copy != NULL);
	if (len > 0)
		memcpy(copy, bytes, len);
	return copy;
}

#endif
