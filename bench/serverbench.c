/* serverbench.c - how fast the server is for a client that is not slow itself.
 *
 *	serverbench ADDRESS KEYFILE turns ROUNDS PLAN
 *		In turns, in an order shuffled anew each round: one whole cycle (create, run
 *		/bin/true, delete), one execution in a session that exists, and every command of
 *		the plan (as bench.c has them: "name | options | /command args"; options are
 *		ignored, "%d" becomes a fresh number). Prints a line for each (samples.h).
 *	serverbench ADDRESS KEYFILE exec N
 *		Executions in one session, back to back, for a profile; a line as above.
 *	serverbench ADDRESS KEYFILE burst N | rate CLIENTS SECONDS | hold N | grow N ROUNDS
 *		See many.h.
 *	serverbench ADDRESS KEYFILE output BYTES | files BYTES
 *		See bulk.h.
 *
 * After a cycle the server clears up and fills its pool behind the answer. The next in turn
 * must not pay for that, so it waits until that is done; rate does not wait, and there it shows. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bulk.h"
#include "calls.h"
#include "link.h"
#include "many.h"
#include "samples.h"

#define ROWS_MAX 24
#define WORDS_MAX 128
#define LINE_LEN 8192
#define WARMUP 10

/* ---- in turns */

enum { CREATE, FIRST_RUN, CREATE_RUN, DELETE, EXEC, SERVER_ROWS };

static struct samples rows[SERVER_ROWS + ROWS_MAX] = {
	[CREATE] = { .name = "create" },
	[FIRST_RUN] = { .name = "run in a new session" },
	[CREATE_RUN] = { .name = "create + run + result" },
	[DELETE] = { .name = "delete" },
	[EXEC] = { .name = "exec in a session" },
};

struct command {
	char *words[WORDS_MAX + 1];
};

static struct command commands[ROWS_MAX];
static size_t ncommands;
static struct link l;

/* False, and counted, if something was not as it should be. */
static bool cycle(bool counts)
{
	char id[CALLS_ID_MAX], path[CALLS_PATH_MAX];
	int64_t begin = link_now_ns(), made, done, gone;

	if (link_ask(&l, "POST", "/v1/sessions", NULL) != 201) {
		rows[CREATE].failed++;
		return false;
	}
	made = link_now_ns();
	link_member(&l, "id", id, sizeof(id));
	calls_run_path(path, id);
	(void)link_ask(&l, "POST", path, CALLS_RUN);
	done = link_now_ns();
	if (!calls_ran(&l)) {
		rows[FIRST_RUN].failed++;
		return false;
	}
	calls_session_path(path, id);
	(void)link_ask(&l, "DELETE", path, NULL);
	gone = link_now_ns();
	if (l.status != 204) {
		rows[DELETE].failed++;
		return false;
	}
	if (counts) {
		samples_add(&rows[CREATE], made - begin);
		samples_add(&rows[FIRST_RUN], done - made);
		samples_add(&rows[CREATE_RUN], done - begin);
		samples_add(&rows[DELETE], gone - done);
	}
	return true;
}

static void exec_once(const char *path, bool counts)
{
	int64_t begin = link_now_ns();

	(void)link_ask(&l, "POST", path, CALLS_RUN);
	if (!calls_ran(&l))
		rows[EXEC].failed++;
	else if (counts)
		samples_add(&rows[EXEC], link_now_ns() - begin);
}

static void run_command(size_t i, bool counts)
{
	static unsigned number;
	struct command *c = &commands[i];
	char *words[WORDS_MAX + 1], fresh[256];
	int64_t begin;
	int status = -1;
	pid_t pid;

	for (size_t w = 0; w <= WORDS_MAX; w++) {
		const char *mark = c->words[w] == NULL ? NULL : strstr(c->words[w], "%d");

		words[w] = c->words[w];
		if (mark == NULL)
			continue;
		(void)snprintf(fresh, sizeof(fresh), "%.*ss%u%s", (int)(mark - c->words[w]),
			       c->words[w], number++, mark + 2);
		words[w] = fresh;
	}
	begin = link_now_ns();
	pid = vfork();
	if (pid == 0) {
		(void)execv(words[0], words);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		rows[SERVER_ROWS + i].failed++;
	else if (counts)
		samples_add(&rows[SERVER_ROWS + i], link_now_ns() - begin);
}

static void read_plan(const char *path)
{
	char line[LINE_LEN];
	FILE *f = fopen(path, "re");

	if (f == NULL)
		link_die("%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), f) != NULL && ncommands < ROWS_MAX) {
		char *text = strdup(line), *bar = text == NULL ? NULL : strstr(text, " | ");
		char *rest = bar == NULL ? NULL : strchr(bar + 3, '|'), *save = NULL;
		size_t n = 0;

		if (rest == NULL)
			link_die("%s: %s", path, line);
		*bar = '\0';
		rows[SERVER_ROWS + ncommands].name = text;
		for (char *w = strtok_r(rest + 1, " \n", &save); w != NULL && n < WORDS_MAX;
		     w = strtok_r(NULL, " \n", &save))
			commands[ncommands].words[n++] = w;
		ncommands++;
	}
	(void)fclose(f);
}

static void bench_turns(unsigned rounds, const char *plan)
{
	unsigned order[ROWS_MAX + 2], n;
	char id[CALLS_ID_MAX], path[CALLS_PATH_MAX];

	read_plan(plan);
	n = (unsigned)ncommands + 2;
	link_open(&l);
	calls_create(&l, "{\"timeout\":\"1h\"}", id);
	calls_run_path(path, id);
	for (unsigned i = 0; i < n; i++)
		order[i] = i;
	srand(1);
	for (unsigned r = 0; r < rounds + WARMUP; r++)
		for (unsigned i = 0; i < n; i++) {
			unsigned other = i + (unsigned)rand() % (n - i), who = order[other];

			order[other] = order[i];
			order[i] = who;
			if (who == 0) {
				if (!cycle(r >= WARMUP))
					(void)fprintf(stderr, "serverbench: %d %s\n", l.status,
						      l.body);
				calls_settle(&l);
			} else if (who == 1) {
				exec_once(path, r >= WARMUP);
			} else {
				run_command(who - 2, r >= WARMUP);
			}
		}
	calls_delete(&l, id);
	calls_settle(&l);
	for (size_t i = 0; i < SERVER_ROWS + ncommands; i++)
		samples_report(&rows[i]);
}

static void bench_exec(unsigned n)
{
	char id[CALLS_ID_MAX], path[CALLS_PATH_MAX];

	link_open(&l);
	calls_create(&l, "{\"timeout\":\"1h\"}", id);
	calls_run_path(path, id);
	for (unsigned i = 0; i < n + WARMUP; i++)
		exec_once(path, i >= WARMUP);
	calls_delete(&l, id);
	samples_report(&rows[EXEC]);
}

static void read_key(const char *path, char *ret, size_t cap)
{
	FILE *f = fopen(path, "re");

	if (f == NULL || fgets(ret, (int)cap, f) == NULL)
		link_die("%s: %s", path, strerror(errno));
	(void)fclose(f);
}

int main(int argc, char **argv)
{
	struct rlimit files;
	char key[128];
	uint64_t n = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;

	if (n == 0) {
		(void)fprintf(
			stderr,
			"usage: serverbench ADDRESS KEYFILE turns ROUNDS PLAN | exec N | burst N | "
			"rate CLIENTS SECONDS | output BYTES | files BYTES | hold N | "
			"grow N ROUNDS\n");
		return 2;
	}
	(void)getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &files);
	read_key(argv[2], key, sizeof(key));
	link_target(argv[1], key);
	if (strcmp(argv[3], "turns") == 0 && argc == 6)
		bench_turns((unsigned)n, argv[5]);
	else if (strcmp(argv[3], "exec") == 0)
		bench_exec((unsigned)n);
	else if (strcmp(argv[3], "burst") == 0)
		many_burst((unsigned)n);
	else if (strcmp(argv[3], "rate") == 0 && argc == 6)
		many_rate((unsigned)n, (unsigned)strtoul(argv[5], NULL, 10));
	else if (strcmp(argv[3], "output") == 0)
		bulk_output(n);
	else if (strcmp(argv[3], "files") == 0)
		bulk_files(n);
	else if (strcmp(argv[3], "hold") == 0)
		many_hold((unsigned)n);
	else if (strcmp(argv[3], "grow") == 0 && argc == 6)
		many_grow((unsigned)n, (unsigned)strtoul(argv[5], NULL, 10));
	else
		link_die("no such part: %s", argv[3]);
	return 0;
}
