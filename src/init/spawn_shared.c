/* spawn_shared.c - see spawn_shared.h. */
#include "spawn_shared.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "guest_gvisor.h"

#define STACK_BYTES 32768 /* most of it for a path */

struct block {
	struct child_process process; /* first: it is what others know */
	struct agent_spawn request;
	pid_t pid;
	struct block *next;
	_Alignas(16) char stack[STACK_BYTES];
	char strings[]; /* user, cwd, and the strings of the request */
};

static struct block *blocks; /* of processes that may use them */

bool spawn_shared_is_used(const struct agent_spawn *request)
{
	return guest_gvisor_is_used && (request->flags & AGENT_BUILTIN) == 0;
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
	struct block *b = malloc(sizeof(*b) + user + cwd + request->strings_len);
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
	free(b);
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
