/* kernel_process.h - the process of a context, and the channels to it (kernel_protocol.h). Called
 * by context.c. python_parent.c gives it its process if the language is forked.
 *
 * Invariants: a kernel is read no faster than its owner takes (kernel_pause()), so its output waits
 * in pipes and stops it. Nothing that it writes can fail the server. Its end is reported once,
 * after its earlier output. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "incell/interpreter/kernel_protocol.h"
#include "lib/base/err.h"
#include "lib/loop/loop.h"

/* The table of languages: names, kernels, and their needs. */
struct language {
	const char *name;
	const char *short_name; /* or NULL */
	const char *program;	/* looked for in PATH */
	const char *package;	/* of Debian: where it is from */
	const char *script;	/* below the folder of kernels */
	const char *argument;	/* behind the script, or NULL */
	const char *file;	/* begins messages of the kernel about code, or NULL. */
	const char *shown;	/* not longer: the text shown in its place */
	bool forked;		/* kernels are forked by a parent: python_parent.h */
	bool at_start;		/* its default context is in the list from the start */
};

/* By its name, in small letters. "" is Python. NULL: there is none. */
const struct language *language_find(const char *name);
const struct language *language_at(size_t i); /* NULL behind the last */

/* Find its program in PATH. ERR_NOT_FOUND says which package has it. */
int language_program(const struct language *l, char *ret_path, size_t cap, struct err *e) MUST_USE;

struct kernel;

struct kernel_calls {
	void (*on_message)(struct kernel *k, const struct kernel_message *m);
	/* stream: 0 stdout, 1 stderr. */
	void (*on_output)(struct kernel *k, int stream, uint8_t *bytes, size_t n);
	/* It has ended, or could not start. why says more. The kernel is KERNEL_NONE again. */
	void (*on_end)(struct kernel *k, const char *why);
	/* It is not ready after slow_ms, and works. May be NULL. */
	void (*on_slow)(struct kernel *k);
};

enum kernel_state { KERNEL_NONE, KERNEL_STARTING, KERNEL_READY };

struct kernel {
	const struct kernel_calls *calls;
	struct loop *loop;
	enum kernel_state state;
	pid_t pid;	      /* 0: not known yet */
	int pidfd;	      /* owned. -1 */
	bool ends_by_channel; /* there is no pidfd: the end of the channel is its end */
	int channel;	      /* owned. -1: descriptor 3 of the process */
	int out[2];	      /* owned. -1: pipes 1 and 2 */
	struct loop_fd pid_io, channel_io, out_io[2];
	struct loop_task resume;
	struct loop_timer start_timer;
	unsigned slow_ms;
	unsigned start_ticks, idle_ticks; /* since the start, and those without work */
	uint64_t worked_ns;		  /* its processor time at the last one */
	struct buf in, to;		  /* lines from it and to it */
	size_t scanned;			  /* bytes of in without a newline */
	uint8_t cut[2][4];		  /* the beginning of a character, of each pipe */
	size_t ncut[2];
	bool paused, exited;
	bool drained;		  /* pipes were emptied since the socket was read */
	unsigned run;		  /* counts the starts, to find callbacks of an earlier one */
	struct kernel **asked_by; /* the request to the parent that it waits for, or NULL */
};

/* The other ends of the channels: for the process. Close-on-exec. */
struct kernel_ends {
	int channel, out[2];
};

struct kernel_start {
	const struct language *language;
	const char *program; /* its path */
	const char *kernels; /* the folder of kernels */
	const char *cwd;
	char **env; /* NULL-terminated. NULL: that of the server */
};

/* slow_ms: a kernel not ready then, and idle, has failed. */
void kernel_init(struct kernel *k, struct loop *loop, unsigned slow_ms,
		 const struct kernel_calls *calls);
/* End it without a report, and release its resources. */
void kernel_release(struct kernel *k);

/* Make the channels. The caller closes *ret. KERNEL_STARTING from here on. */
int kernel_open(struct kernel *k, struct kernel_ends *ret, struct err *e) MUST_USE;
/* Start the program of a language without forks. */
int kernel_exec(struct kernel *k, const struct kernel_start *start, struct err *e) MUST_USE;
/* The process is known: made by a parent, or by kernel_exec(). */
void kernel_take(struct kernel *k, pid_t pid);
/* It could not start: reported as its end. */
void kernel_fail(struct kernel *k, const char *why);

/* Was on_slow() called for this start? */
bool kernel_start_is_slow(const struct kernel *k);

/* Send a line (with its newline), or keep it until the kernel reads. */
void kernel_send(struct kernel *k, const void *line, size_t n);
void kernel_interrupt(struct kernel *k);
/* Break off a system call of the kernel, of which an interrupt that came before it is not noticed:
 * by SIGURG, which does nothing else, also where a kernel has no handler for it. */
void kernel_nudge(struct kernel *k);
/* SIGKILL to its process group. Its end is reported later. */
void kernel_kill(struct kernel *k);
/* While paused it is not read. */
void kernel_pause(struct kernel *k, bool paused);
