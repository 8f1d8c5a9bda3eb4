#include "console.h"

#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include "boot_msg.h"
#include "kernel.h"
#include "own.h"

#define READS 16 /* at a time: a guest that prints without end takes its turns */

static char last[BOOT_TEXT_MAX];
static size_t have;
static int from = -1, to = -1;
static struct loop_fd ready = { .fd = -1 };

static void keep(const char *bytes, size_t n)
{
	size_t over = have + n > sizeof(last) ? have + n - sizeof(last) : 0;

	memmove(last, last + over, have - over);
	have -= over;
	memcpy(last + have, bytes, n);
	have += n;
}

static void read_some(void)
{
	char bytes[2048];
	ssize_t n;

	for (int i = 0; i < READS && (n = read(from, bytes, sizeof(bytes))) > 0; i++)
		keep(bytes, (size_t)n);
}

static void on_ready(struct loop_fd *f, uint32_t events)
{
	(void)f;
	(void)events;
	read_some();
}

int console_open(struct loop *l, struct err *e)
{
	int pair[2];

	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_sys(e, "make the console's pipe");
	from = pair[0];
	to = pair[1];
	ready.on_ready = on_ready;
	if (fcntl(from, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "make the console's pipe");
	return loop_add(l, &ready, from, EPOLLIN, e) < 0 ? -1 : to;
}

/* Not by the pipe: it may be full, and this process is its reader. */
void console_note(const char *why)
{
	static const char before[] = "\ncordon-shim: ";

	if (from >= 0)
		read_some();
	keep(before, sizeof(before) - 1);
	keep(why, strnlen(why, sizeof(last) / 2));
}

bool console_has(const char *text)
{
	if (from >= 0)
		read_some();
	return memmem(last, have, text, strlen(text)) != NULL;
}

int console_file(void)
{
	OWN_FD fd = -1;

	if (from >= 0)
		read_some();
	if (have == 0)
		return -1;
	fd = memfd_create("console", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || write(fd, last, have) != (ssize_t)have ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -1;
	return TAKE_FD(fd);
}
