/* spawn_shared.c - see spawn_shared.h. */
#include "spawn_shared.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest_gvisor.h"

#define STACK_BYTES 32768 /* most of it for a path */
#define SHORT_STRINGS 16384

struct block {
	struct child_process process; /* first: it is what others know */
	struct agent_spawn request;
	pid_t pid;
	struct block *next;
	_Alignas(16) char stack[STACK_BYTES];
	char strings[]; /* user, cwd, and the strings of the request */
};

static struct block *blocks; /* of processes that may use them */

/* Enough for most cells: PID 1 allocates nothing. Pages that were never used take no memory. */
static union {
	struct block block;
	char bytes[sizeof(struct block) + SHORT_STRINGS];
} first;
static bool first_is_used;

/* A process that changes its user makes the memory that it uses dumpable if fs.suid_dumpable is 1:
 * programs of the new user could then trace it, and write to the memory of PID 1. Read each time:
 * the operator may change it. */
static bool memory_stays_closed(void)
{
	static int fd = -1;
	char value;

	if (fd < 0)
		fd = open("/proc/sys/fs/suid_dumpable", O_RDONLY | O_CLOEXEC);
	return fd >= 0 && pread(fd, &value, 1, 0) == 1 && value != '1';
}

bool spawn_shared_is_used(const struct agent_spawn *request)
{
	if ((request->flags & AGENT_BUILTIN) != 0 || spawn_on_child != NULL)
		return false;
	return guest_gvisor_is_used || memory_stays_closed();
}

static struct block *take_block(size_t strings)
{
	if (first_is_used || strings > SHORT_STRINGS)
		return malloc(sizeof(struct block) + strings);
	first_is_used = true;
	return &first.block;
}

static void give_back(struct block *b)
{
	if (b == &first.block)
		first_is_used = false;
	else
		free(b);
}

static const char *add(char **at, const char *from, size_t n)
{
	char *to = memcpy(*at, from, n);

	*at += n;
	return to;
}

struct child_process *spawn_shared_new(const struct agent_spawn *request)
{
	size_t user = strlen(request->user) + 1, cwd = strlen(request->cwd) + 1;
	struct block *b = take_block(user + cwd + request->strings_len);
	char *at;

	if (b == NULL)
		return NULL;
	memset(&b->process, 0, sizeof(b->process));
	at = b->strings;
	b->request = *request;
	b->request.user = add(&at, request->user, user);
	b->request.cwd = add(&at, request->cwd, cwd);
	b->request.strings = add(&at, request->strings, request->strings_len);
	b->process.request = &b->request;
	return &b->process;
}

static int run(void *arg)
{
	spawn_child_run(arg);
}

pid_t spawn_shared_start(struct child_process *c)
{
	struct block *b = (struct block *)c;

	b->pid = clone(run, b->stack + STACK_BYTES, CLONE_VM | SIGCHLD, c);
	if (b->pid < 0)
		return -1;
	b->next = blocks;
	blocks = b;
	return b->pid;
}

static void release(struct block *b)
{
	if (b->process.on_heap)
		free(b->process.argv);
	give_back(b);
}

void spawn_shared_free(struct child_process *c)
{
	release((struct block *)c);
}

void spawn_shared_end(pid_t pid)
{
	for (struct block **at = &blocks; *at != NULL; at = &(*at)->next)
		if ((*at)->pid == pid) {
			struct block *b = *at;

			*at = b->next;
			release(b);
			return;
		}
}
