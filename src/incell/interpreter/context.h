/* context.h - contexts: each has a kernel, and executions that run in it one after the other, in
 * the order in which they came. Called by serve.c.
 *
 * Invariants: an execution ends exactly once, by on_end() or on_fail(), unless its client has given
 * it up before. Contexts run side by side. One that hangs or dies holds up no other. */
#pragma once

#include "incell/interpreter/kernel_process.h"
#include "incell/interpreter/python_parent.h"

#define CONTEXTS_MAX 64
#define CONTEXT_WAITING_MAX 64
#define CONTEXT_ID_MAX 40
#define CONTEXT_NAME_MAX 64
#define CONTEXT_CWD_MAX 4096

struct context_run;

struct execution_calls {
	/* The kernel is ready, or its start takes long: the answer begins. */
	void (*on_accepted)(struct context_run *x);
	/* Lines of the answer, each with its newline. Return true if no more shall come now. */
	bool (*on_lines)(struct context_run *x, const void *lines, size_t n);
	void (*on_end)(struct context_run *x);
	/* Before it was accepted. why is for the client. */
	void (*on_fail)(struct context_run *x, const char *why);
};

struct context_run {
	struct context_run *next, **link; /* in the queue of its context */
	const struct execution_calls *calls;
	struct context *context; /* NULL: in none */
	struct buf line;	 /* owned: for the kernel. Without `"id":N}` at its end */
	bool only_start;	 /* it has ended when the kernel is ready */
	bool accepted;
	bool resent;  /* to a second kernel: the first had ended before the code began */
	size_t whole; /* of line, without the id */
};

struct context {
	struct context *next, **link;
	struct contexts *all;
	const struct language *language;
	char id[CONTEXT_ID_MAX];
	char name[CONTEXT_NAME_MAX]; /* of `run`. "" */
	char cwd[CONTEXT_CWD_MAX];
	bool is_default; /* of its language */
	bool unwanted;	 /* its creation failed or was given up: contexts_sweep() removes it */
	struct kernel kernel;
	bool used;	  /* code was sent to a kernel of it: it keeps its directory */
	bool was_ready;	  /* the kernel that runs, or ran last */
	unsigned retries; /* of its start: the parent may have died, or processes were short */
	struct loop_timer retry_timer;
	struct context_run *first, **last; /* waiting */
	unsigned waiting;
	struct context_run *running; /* NULL: none, or given up by its client */
	uint64_t running_id;	     /* 0: the kernel runs nothing */
	bool has_error;		     /* of the one that runs */
	bool began;		     /* its code runs: the kernel has sent its count */
	struct loop_timer interrupt_timer;
	uint64_t interrupted_ns; /* when the cell that runs was abandoned */
	bool interrupted_again;
};

struct contexts {
	struct loop *loop;
	const char *kernels; /* borrowed */
	const char *cwd;     /* borrowed: of contexts that ask for none */
	unsigned slow_ms;    /* of kernels: kernel_init() */
	struct python_parent python;
	struct context *first, **last;
	unsigned n;
	uint64_t next_id;
	struct buf env;	 /* the session's environment: a JSON object, or empty */
	struct buf line; /* scratch */
	bool warming;	 /* the first Python kernel is on its way */
};

/* Make the contexts that exist from the start, and start Python. */
int contexts_init(struct contexts *all, struct loop *loop, const char *kernels, const char *cwd,
		  unsigned slow_ms, struct err *e) MUST_USE;
/* The session's environment, for kernels that run and those to come. */
void contexts_env(struct contexts *all, struct json_value env);
/* Can Python run code at once, or not at all? */
bool contexts_ready(const struct contexts *all);

/* Remove contexts marked as unwanted. */
void contexts_sweep(struct contexts *all);

struct context *context_find(struct contexts *all, const char *id);
/* The default context of a language, or the one with that name. Made if there is none. ERR_LIMIT,
 * ERR_INVALID: the name is one of another language's, or its code runs in another directory. */
struct context *context_get(struct contexts *all, const struct language *l, const char *name,
			    const char *cwd, struct err *e) MUST_USE;
struct context *context_add(struct contexts *all, const struct language *l, const char *cwd,
			    struct err *e) MUST_USE;
/* Its executions end with an error. */
void context_remove(struct context *c);
void context_restart(struct context *c);

void execution_init(struct context_run *x, const struct execution_calls *from);
/* Compose the message for the kernel: the code, and the environment of this call (or NONE). */
int execution_set(struct context_run *x, struct json_value code, struct json_value env,
		  struct err *e) MUST_USE;
/* Put it behind the others of the context. Callbacks may come from inside. ERR_LIMIT. */
int context_run(struct context *c, struct context_run *x, struct err *e) MUST_USE;
/* The client takes lines again. */
void execution_resume(struct context_run *x);
/* Its client is gone: no callback comes any more. Code that runs is interrupted. */
void execution_abandon(struct context_run *x);
