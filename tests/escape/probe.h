/* probe.h - what the escape probe's tables and helpers share.
 *
 * An attack is one row: a function that makes the real attempt and returns one word for what came
 * of it, and the words it may return in each combination of profile, user and mode.
 *
 * The word is an errno name ("EPERM"), a signal name ("SIGSYS", the attempt was killed), "done" (it
 * worked), "hidden" (no such path), "empty" (there is a path, with nothing behind it), or a word
 * the row explains. "hang", "crash" and "unset" are never accepted by any row.
 *
 * The expectation is a list of clauses, separated by blanks; the first whose letters all match
 * decides. Letters: S standard, L locked; r root, u user; F rootful, M rootless with a mapped id
 * range, 1 rootless with a single id; * anything. So "Sr:done *:EPERM|ENOSYS" means that root in
 * the standard profile succeeds and everybody else is refused with one of two answers. A string
 * without a colon holds for every combination. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { ROW_SOLO = 1 }; /* may take the whole cell down: gets a cell of its own */

struct attack {
	const char *id;
	const char *section; /* the kind of attack; printed with the row, to sort a report by */
	const char *what;
	const char *(*run)(const struct attack *a);
	const char *expect;
	const char *control; /* answer for root outside any cell; NULL: never run outside */
	const void *arg;
	long num;
	unsigned flags;
};

#define ROW(id, section, what, run, expect, control, arg, num)       \
	{                                                            \
		id, section, what, run, expect, control, arg, num, 0 \
	}
#define ROW_ALONE(id, section, what, run, expect, arg, num)              \
	{                                                                \
		id, section, what, run, expect, NULL, arg, num, ROW_SOLO \
	}

/* The filter's two answers: one for calls known to be dangerous, one for calls it does not know. */
#define REFUSED "EPERM"
#define UNKNOWN "ENOSYS"

/* What a masked file of /proc looks like; hidden where the kernel does not have it. */
#define MASKED "empty|hidden"

/* What only the machine's root may open by its mode, so that no mask is needed: nobody in a cell
 * is. */
#define ROOTS_ONLY "EACCES|hidden"

/* PID 1 is not dumpable: nobody inside may look into it, whatever user it runs as. */
#define PID1_CLOSED "EACCES"

struct table {
	const struct attack *rows;
	size_t n;
};

#define TABLE(rows)                                    \
	{                                              \
		rows, sizeof(rows) / sizeof((rows)[0]) \
	}

extern const struct table paths_table, links_table, proc_table, pid1_table, mounts_table;
extern const struct table kernel_table, tty_table, process_table, ipc_table, resource_table;
extern const struct table socket_table, net_table;

/* response.c: from results to words. All return static or constant strings. */
const char *answer(long rc);	    /* "done", or the name of errno when rc < 0 */
const char *answer_errno(int err);  /* "EPERM" */
const char *answer_signal(int sig); /* "SIGSYS" */
const char *answer_path(int fd);    /* as answer(), but ENOENT is "hidden"; closes fd */
const char *answer_read(
	const char *path);	    /* reads a file or lists a folder: done, empty, hidden, errno */
const char *answer_child(long pid); /* reaps: done if it left with 0, errno if with errno */
const char *answer_text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* response.c: small helpers of the tables. */
long slurp(const char *path, char *buf, size_t size); /* whole file, NUL at the end; -1 and errno */
uint64_t hash_file(const char *path);		      /* FNV-1a; 0 when it cannot be read */
long status_field(const char *name, int base);	  /* a number of /proc/self/status; -1 if absent */
unsigned long long status_mask(const char *name); /* a capability mask of it; all ones if absent */
int namespace_inode(const char *name, unsigned long long *ret);

/* NULL if /proc/1 is the cell's own PID 1. Else the answer of every row that would look there: such
 * a /proc shows another pid namespace, and a refusal by a foreign PID 1 would prove nothing. */
const char *foreign_pid1(void);

/* probe.c: what the driver told us about the world outside. world() never fails: a missing key
 * ends the row with the answer "unset", which no row accepts. */
const char *world(const char *key);
long world_num(const char *key);

/* What the process was born with, noted before anything else is opened. */
struct birth {
	char cwd[4096];
	int extra_fds; /* open descriptors above 2 */
	char **env;
};
extern struct birth birth;

/* sibling.c: a neighbouring cell that holds canaries until its standard input ends. */
int sibling_main(void);
