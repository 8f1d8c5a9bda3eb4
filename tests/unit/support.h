/* support.h - what several unit tests need: named cases, exact buffers, a count of descriptors, a
 * socket that is slow to close. */
#ifndef CORDON_TESTS_UNIT_SUPPORT_H
#define CORDON_TESTS_UNIT_SUPPORT_H

#include <dirent.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "lib/base/own.h"
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

/* A TCP connection with bytes on their way to a peer that does not read: its last close(2) waits
 * so long. */
static inline int make_lingering(int seconds, int *ret_peer)
{
	static const char bytes[65536];
	const struct linger linger = { .l_onoff = 1, .l_linger = seconds };
	const struct sockaddr_in any = { .sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in at;
	socklen_t len = sizeof(at);

	CHECK(bind(listener, (const struct sockaddr *)&any, sizeof(any)) == 0);
	CHECK(listen(listener, 1) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&at, &len) == 0);
	CHECK(connect(fd, (const struct sockaddr *)&at, len) == 0);
	*ret_peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	CHECK(*ret_peer >= 0);
	(void)close(listener);
	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) == 0);
	return fd;
}

#endif
