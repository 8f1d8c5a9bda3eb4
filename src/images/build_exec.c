/* build_exec.c - a command of a build in its session: started, its output put into the log line by
 * line, its end reported. See build_cell.h.
 *
 * Output is read from the log of the execution, as for any client, so that a command cannot outrun
 * the bounds of outputs. */
#include <stdio.h>
#include <string.h>

#include "build_cell.h"
#include "output.h"

#define PIECE 128
#define ROUNDS 64	/* pieces in a turn, */
#define TURN_ENTRIES 32 /* or fewer: a line may have one byte, and each is a row */
#define COMMAND_MS 3600000ULL
#define OUTPUT_MAX (8U << 20) /* of a command */
#define PATHS "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* ---- output */

static void put_line(struct build *b, struct buf *line, bool is_err)
{
	const char *text = buf_text(line);
	char prefix[40];
	size_t n = strlen(text);

	while (n > 0 && strchr(" \t\r\n", text[n - 1]) != NULL)
		n--;
	text += strspn(text, " \t\r") < n ? 0 : n;
	if (n > 0 && *text != '\0')
		build_log(b, BUILD_INFO, "%s [%s]: %.*s", build_log_prefix(b, prefix),
			  is_err ? "stderr" : "stdout", (int)n, text);
	buf_clear(line);
}

static void take(struct build *b, struct build_exec *x, const struct output_chunk *c,
		 const uint8_t *bytes)
{
	bool is_err = c->stream == OUTPUT_STDERR;
	struct buf *line = &x->line[is_err];

	for (size_t i = 0; i < c->len; i++) {
		if (bytes[i] != '\n' && bytes[i] != '\0')
			buf_put(line, &bytes[i], 1);
		if (bytes[i] == '\n' || line->len + 1 >= BUILD_LINE_MAX - 80)
			put_line(b, line, is_err);
	}
}

/* Reads what is there; true: there is more. */
static bool read_some(struct build *b, struct build_exec *x)
{
	uint64_t before = b->entries;
	uint8_t bytes[PIECE];
	struct output_chunk c;
	struct err e;

	if (x->log < 0 && execution_log(b->core, b->session_id, x->id, &x->log, &e) < 0)
		return false;
	for (unsigned i = 0; i < ROUNDS && b->entries - before < TURN_ENTRIES; i++) {
		if (output_read(x->log, &x->cursor, &c, bytes, sizeof(bytes), &e) <= 0)
			return false;
		if ((c.stream == OUTPUT_STDOUT || c.stream == OUTPUT_STDERR) && !x->quiet)
			take(b, x, &c, bytes);
	}
	return true;
}

/* Entries of one turn are one transaction. */
static bool read_output(struct build *b, struct build_exec *x)
{
	struct err e;
	bool more;

	if (x->quiet)
		return false;
	if (store_begin(core_store(b->core), &e) < 0)
		return read_some(b, x);
	more = read_some(b, x);
	IGNORED(store_commit(core_store(b->core), &e), "some lines are missing then");
	return more;
}

static void fail_start(struct build *b)
{
	build_fail(b, "start command failed: exit status %d", build_exec_status(b, &b->start));
}

/* All of its output is in the log. */
static void end(struct build *b, struct build_exec *x)
{
	int code = x->code;

	for (int i = 0; i < 2 && !x->quiet; i++)
		put_line(b, &x->line[i], i == 1);
	build_exec_release(b, x);
	b->then_exit(b, code);
}

static void read_next(struct build *b, struct build_exec *x)
{
	if (read_output(b, x))
		loop_defer(core_loop(b->core), &x->read);
	else if (x->ended)
		end(b, x);
}

static void on_read(struct loop_task *t)
{
	struct build *b = t->arg;

	read_next(b, t == &b->start.read ? &b->start : &b->exec);
}

static void on_progress(struct execution_follower *f)
{
	struct build *b = f->arg;

	loop_defer(core_loop(b->core), f == &b->start.follower ? &b->start.read : &b->exec.read);
	if (f == &b->start.follower && build_exec_status(b, &b->start) > 0)
		build_go_on(b, fail_start);
}

/* ---- the end */

static void fail_to_start(struct build *b, const struct execution *x)
{
	const struct store_execution *row = execution_row(x);
	enum execution_fault fault = execution_fault(x, &(int){ 0 });

	if (fault == EXECUTION_NO_USER)
		build_fail(b,
			   "failed to run command '%.2000s': command failed: unauthenticated: "
			   "invalid username: '%s'",
			   b->command, row->user);
	else
		build_fail(b, "failed to run command '%.2000s': %s", b->command, row->error);
}

static void on_end(struct completion *w, const struct err *e)
{
	struct build *b = w->arg;
	struct build_exec *x = &b->exec;
	const struct execution *done = x->follower.execution;

	if (e != NULL || done == NULL) {
		build_fail(b, "the session of the build ended: %s", e == NULL ? "" : e->msg);
		return;
	}
	if (execution_row(done)->state == EXECUTION_FAILED) {
		if (execution_fault(done, &(int){ 0 }) == EXECUTION_NO_PROGRAM && !b->plain_shell) {
			b->plain_shell = true; /* the image has no bash */
			build_exec_again(b);
			return;
		}
		fail_to_start(b, done);
		return;
	}
	x->code = execution_row(done)->exit_code;
	x->ended = true;
	loop_defer(core_loop(b->core), &x->read);
}

int build_exec_status(struct build *b, const struct build_exec *x)
{
	const struct execution *run = x->follower.execution;

	(void)b;
	return run == NULL || !execution_ended(run) ? -1 : execution_row(run)->exit_code;
}

void build_exec_release(struct build *b, struct build_exec *x)
{
	loop_task_cancel(core_loop(b->core), &x->read);
	x->ended = false;
	completion_cancel(&x->end);
	execution_unfollow(&x->follower);
	fd_close(x->log);
	x->log = -1;
	x->cursor = 0;
	buf_release(&x->line[0]);
	buf_release(&x->line[1]);
}

/* ---- the start */

/* The directories that an image's own PATH may lack come behind it. */
static void put_env(struct build *b, struct buf *to, uint32_t *ret_n)
{
	const char *env = (const char *)b->state.env.data;
	uint32_t n = 0;

	for (size_t at = 0; at < b->state.env.len; at += strlen(env + at) + 1, n++) {
		buf_put_text(to, env + at);
		if (strncmp(env + at, "PATH=", 5) == 0)
			buf_put_text(to, ":" PATHS);
		buf_put(to, "", 1);
	}
	*ret_n = n;
}

/* False: it failed, and the build is gone. */
static bool begin(struct build *b, struct build_exec *x)
{
	const char *args[] = { b->plain_shell ? "/bin/sh" : "/bin/bash", "-l", "-c", b->command };
	struct buf strings = BUF_INIT(RECIPE_ENV_MAX + 2 * RECIPE_TEXT_MAX);
	struct execution_spec spec = { .argc = COUNT(args),
				       .user = b->command_user,
				       .cwd = b->command_cwd,
				       .timeout_ms = COMMAND_MS,
				       .keep_text = true,
				       .text = b->command,
				       .background = x == &b->start,
				       .output_limit = OUTPUT_MAX,
				       .actor = &b->actor };
	struct session *s = build_cell_session(b);
	struct execution *run = NULL;
	struct err e = { .msg = "the session of the build ended" };

	for (size_t i = 0; i < COUNT(args); i++)
		buf_put(&strings, args[i], strlen(args[i]) + 1);
	put_env(b, &strings, &spec.envc);
	spec.strings = (const char *)strings.data;
	spec.strings_len = strings.len;
	if (buf_check(&strings, &e) == 0 && s != NULL)
		run = execution_start(s, &spec, &e);
	buf_release(&strings);
	if (run == NULL) {
		build_fail(b, "failed to run command '%.2000s': %s", b->command, e.msg);
		return false;
	}
	(void)snprintf(x->id, sizeof(x->id), "%s", execution_row(run)->id);
	x->follower = (struct execution_follower){ .on_progress = on_progress, .arg = b };
	execution_follow(run, &x->follower);
	if (x == &b->exec) {
		x->end.on_done = on_end;
		x->end.arg = b;
		execution_wait(run, &x->end);
	}
	return true;
}

static void prepare(struct build *b, struct build_exec *x, bool quiet)
{
	x->read = (struct loop_task){ .on_run = on_read, .arg = b };
	x->quiet = quiet;
	buf_init(&x->line[0], BUILD_LINE_MAX);
	buf_init(&x->line[1], BUILD_LINE_MAX);
}

static void set_command(struct build *b, const char *user, const char *cwd, const char *command)
{
	b->command = command;
	b->command_user = user;
	b->command_cwd = cwd[0] != '\0' ? cwd : "~"; /* not the directory of the image */
}

void build_exec_again(struct build *b)
{
	bool quiet = b->exec.quiet;

	build_exec_release(b, &b->exec);
	prepare(b, &b->exec, quiet);
	(void)begin(b, &b->exec);
}

void build_exec_run(struct build *b, struct build_exec *x, const char *user, const char *cwd,
		    const char *command, bool quiet, void (*then)(struct build *b, int code))
{
	build_exec_release(b, x);
	prepare(b, x, quiet);
	set_command(b, user, cwd, command);
	b->then_exit = then;
	(void)begin(b, x);
}

bool build_exec_start(struct build *b)
{
	build_exec_release(b, &b->start);
	prepare(b, &b->start, false);
	set_command(b, b->state.user, b->state.workdir, b->start_command);
	return begin(b, &b->start);
}
