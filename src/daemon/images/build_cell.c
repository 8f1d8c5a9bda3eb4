
#include "daemon/images/build_cell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/images/build_upload.h"
#include "daemon/output/output.h"
#include "daemon/template/templates.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include "lib/policy/policy_select.h"
#include "lib/wire/file_msg.h"

/* ---- operations of a build on files: COPY and WORKDIR, by built-ins of the cell's PID 1
 * (doc/file-protocol.md). See build_cell.h.
 *
 * The archive goes from its file to the cell in chunks. Only the cell looks into it. */

#define COPY_PIECE 65536
#define ENTRIES_MAX "1000000"

/* An operation in progress. */
struct transfer {
	struct buf answer; /* records received */
	uint8_t chunk[FILE_MSG_CHUNK_HEAD + COPY_PIECE];
	size_t at, len; /* of the chunk: sent, and in all */
	bool ended;	/* the last chunk is the one in `chunk` */
};

/* Free the operation's state. op has ended or is cancelled. */
static void build_copy_release_one(struct build *b)
{
	if (b->transfer != NULL)
		buf_release(&b->transfer->answer);
	free(b->transfer);
	b->transfer = NULL;
	b->op = NULL;
	fd_close(b->archive);
	b->archive = -1;
}

void build_copy_release(struct build *b)
{
	if (b->op != NULL)
		file_op_cancel(b->op);
	build_copy_release_one(b);
}

/* ---- input */

/* Fill the chunk from the file. An empty one is the end. */
static bool build_copy_fill(struct build *b, struct transfer *t)
{
	ssize_t n = read(b->archive, t->chunk + FILE_MSG_CHUNK_HEAD, COPY_PIECE);

	if (n < 0)
		return false;
	file_msg_chunk_write(t->chunk, (uint32_t)n);
	t->at = 0;
	t->len = FILE_MSG_CHUNK_HEAD + (size_t)n;
	t->ended = n == 0;
	return true;
}

/* Chunks are sent as the cell takes them. After build_fail() neither op nor b exists. */
static void on_room(struct file_op *op)
{
	struct build *b = file_op_arg(op);
	struct transfer *t = b->transfer;

	while (b->archive >= 0) {
		if (t->at == t->len && t->ended) {
			file_op_end_input(op);
			return;
		}
		if (t->at == t->len && !build_copy_fill(b, t)) {
			build_fail(b, "the uploaded archive cannot be read");
			return;
		}
		size_t n = file_op_input(op, t->chunk + t->at, t->len - t->at);

		if (n == 0)
			return;
		t->at += n;
	}
}

/* ---- output */

static size_t on_output(struct file_op *op, const uint8_t *data, size_t len)
{
	struct build *b = file_op_arg(op);

	buf_put(&b->transfer->answer, data, len); /* what does not fit shows at the end */
	return len;
}

/* The last record says how it ended. */
static int build_copy_read_answer(struct build *b, struct file_msg *ret, struct err *e)
{
	const struct buf *a = &b->transfer->answer;
	size_t at = 0;
	bool any = false;
	int n;

	while (at < a->len && (n = file_msg_next(a->data + at, a->len - at, ret, e)) > 0) {
		any = true;
		at += (size_t)n;
	}
	if (!any || at != a->len)
		return err_set(e, ERR_SYSTEM, "the cell gave no answer");
	if (ret->kind != FILE_MSG_ERROR)
		return 0;
	*e = ret->error;
	return -1;
}

/* An ENTRY is the answer of mkdir. Its real path becomes the working directory. */
static void build_copy_finish(struct build *b, const struct err *e)
{
	struct err why = { 0 };
	struct file_msg m = { 0 };
	int rc = -1;

	if (e != NULL)
		why = *e;
	else
		rc = build_copy_read_answer(b, &m, &why);
	if (rc == 0 && m.kind == FILE_MSG_ENTRY)
		str_copy(b->state.workdir, m.entry.abs);
	build_copy_release_one(b);
	if (rc < 0 && why.sys == FILE_MSG_NO_USER)
		build_fail(b, "invalid username: '%s'", b->state.user);
	else if (rc < 0)
		build_fail(b, "%s", why.msg);
	else
		b->then(b);
}

static void on_end(struct file_op *op, int status, const struct err *e)
{
	(void)status; /* the records say it, too */
	build_copy_finish(file_op_arg(op), e);
}

/* ---- the start */

/* Run a built-in as root. It acts for the user named by --for. */
static void build_copy_start(struct build *b, const char *const *argv, unsigned argc,
			     void (*then)(struct build *b))
{
	static const struct file_op_events events = { .on_output = on_output,
						      .on_room = on_room,
						      .on_end = on_end };
	struct session *s = build_cell_session(b);
	struct err e = { .msg = "the session of the build ended" };

	b->transfer = calloc(1, sizeof(*b->transfer));
	if (b->transfer != NULL)
		buf_init(&b->transfer->answer, 2 * (size_t)FILE_MSG_MAX);
	b->then = then;
	if (b->transfer != NULL && s != NULL)
		b->op = file_op_start_inside(s, "root", argv, argc, &events, b, &e);
	if (b->op == NULL) {
		build_copy_release_one(b);
		build_fail(b, "%s", e.msg);
	}
}

/* By the first two bytes. The cell finds out if the rest fits. */
static bool build_copy_is_gzip(int fd)
{
	uint8_t magic[2] = { 0 };

	return pread(fd, magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) && magic[0] == 0x1f &&
	       magic[1] == 0x8b;
}

/* The row's digest must be the one in the step's key, or the cache would keep a wrong result. */
void build_copy_run(struct build *b, const struct recipe_step *s, void (*then)(struct build *b))
{
	char entry[RECIPE_PATH_MAX], dest[RECIPE_PATH_MAX], max[24], flags[3] = "";
	struct store_build_upload row;
	struct err e;

	b->archive =
		build_upload_open(b->core, b->row.tenant, b->row.template_id, s->hash, &row, &e);
	if (b->archive < 0) {
		build_fail(b, "the files of COPY %.200s were not uploaded", s->args[0]);
		return;
	}
	if (strcmp(row.digest, b->archive_digest) != 0) { /* the cache would keep it as the other */
		build_fail(b, "the files of COPY %.200s were uploaded again meanwhile", s->args[0]);
		return;
	}
	if (recipe_copy_entry(s->args[0], entry, &e) < 0) {
		build_fail(b, "%s", e.msg);
		return;
	}
	/* Without a working directory a relative path is in the user's home: the cell knows it. */
	if (s->args[1][0] == '/' || b->state.workdir[0] != '\0') {
		if (recipe_state_path(&b->state, s->args[1], "/", dest, &e) < 0) {
			build_fail(b, "%s", e.msg);
			return;
		}
	} else {
		str_copy(dest, s->args[1]);
	}
	(void)snprintf(flags, sizeof(flags), "%s%s", build_copy_is_gzip(b->archive) ? "z" : "",
		       dest[strlen(dest) - 1] == '/' || strcmp(s->args[1], ".") == 0 ? "/" : "");
	(void)snprintf(max, sizeof(max), "%llu",
		       (unsigned long long)core_config(b->core)->disk_max);
	{
		const char *owner = s->argc > 2 && s->args[2][0] != '\0' ? s->args[2] : "-";
		const char *mode = s->argc > 3 && s->args[3][0] != '\0' ? s->args[3] : "-";
		const char *argv[] = {
			"--for", b->state.user, "copy-in", dest, flags[0] == '\0' ? "-" : flags,
			entry,	 owner,		mode,	   max,	 ENTRIES_MAX
		};

		build_copy_start(b, argv, COUNT(argv), then);
	}
}

void build_copy_workdir(struct build *b, const char *path, void (*then)(struct build *b))
{
	char real[RECIPE_PATH_MAX];
	const char *argv[] = { "--for", b->state.user, "mkdir", real, "-", "p" };
	struct err e;
	size_t n;

	if (recipe_state_path(&b->state, path, "/", real, &e) < 0) {
		build_fail(b, "%s", e.msg);
		return;
	}
	if (strcmp(real, "/") == 0) {
		(void)snprintf(b->state.workdir, sizeof(b->state.workdir), "/");
		build_go_on(b, then);
		return;
	}
	n = strlen(real);
	if (n > 1 && real[n - 1] == '/')
		real[n - 1] = '\0';
	build_copy_start(b, argv, COUNT(argv), then);
}

/* ---- a command of a build in its session: started, its output put into the log line by
 * line, its end reported. See build_cell.h.
 *
 * Output is read from the log of the execution, as for any client, so that a command cannot outrun
 * the bounds of outputs. */

#define PIECE 128
#define ROUNDS 64	/* pieces in a turn, */
#define TURN_ENTRIES 32 /* or fewer: a line may have one byte, and each is a row */
#define COMMAND_MS 3600000ULL
#define ROOM_MS 60000 /* for PID 1 to read its messages */
#define ROOM_EVERY_MS 20
#define OUTPUT_MAX (8U << 20) /* of a command */
#define PATHS "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* ---- output */

/* White space at the end is cut off. Empty lines give no entry. */
static void build_exec_put_line(struct build *b, struct buf *line, bool is_err)
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

/* Split the bytes of one stream into lines. NUL bytes are dropped, since entries are texts. */
static void build_exec_take(struct build *b, struct build_exec *x, const struct output_chunk *c,
			    const uint8_t *bytes)
{
	bool is_err = c->stream == OUTPUT_STDERR;
	struct buf *line = &x->line[is_err];

	for (size_t i = 0; i < c->len; i++) {
		if (bytes[i] != '\n' && bytes[i] != '\0')
			buf_put(line, &bytes[i], 1);
		if (bytes[i] == '\n' || line->len + 1 >= BUILD_LINE_MAX - 80)
			build_exec_put_line(b, line, is_err);
	}
}

/* Read the bytes already there. true: there is more. */
static bool build_exec_read_some(struct build *b, struct build_exec *x)
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
			build_exec_take(b, x, &c, bytes);
	}
	return true;
}

/* Entries of one turn are one transaction. */
static bool build_exec_read_output(struct build *b, struct build_exec *x)
{
	struct err e;
	bool more;

	if (x->quiet)
		return false;
	if (store_begin(core_store(b->core), &e) < 0)
		return build_exec_read_some(b, x);
	more = build_exec_read_some(b, x);
	IGNORED(store_commit(core_store(b->core), &e), "some lines are missing then");
	return more;
}

void build_exec_fail_start(struct build *b)
{
	const struct execution *run = b->start.follower.execution;
	char text[BUILD_LIMITS_TEXT];

	build_fail(b, "start command failed: exit status %d%s", build_exec_status(b, &b->start),
		   run == NULL ? "" : build_limits_text(b, execution_row(run)->limits_hit, text));
}

/* All of its output is in the log. The last line may have no newline. then_exit() may free b. */
static void build_exec_end(struct build *b, struct build_exec *x)
{
	int code = x->code;

	for (int i = 0; i < 2 && !x->quiet; i++)
		build_exec_put_line(b, &x->line[i], i == 1);
	build_exec_release(b, x);
	b->then_exit(b, code);
}

/* One turn's share of the output. The command's end is reported behind all of it. */
static void build_exec_read_next(struct build *b, struct build_exec *x)
{
	if (build_exec_read_output(b, x))
		loop_defer(core_loop(b->core), &x->read);
	else if (x->ended)
		build_exec_end(b, x);
}

static void on_read(struct loop_task *t)
{
	struct build *b = t->arg;

	build_exec_read_next(b, t == &b->start.read ? &b->start : &b->exec);
}

/* A start command that failed ends the build, but not within this callback. */
static void on_progress(struct execution_follower *f)
{
	struct build *b = f->arg;

	loop_defer(core_loop(b->core), f == &b->start.follower ? &b->start.read : &b->exec.read);
	if (f == &b->start.follower && build_exec_status(b, &b->start) > 0)
		build_go_on(b, build_exec_fail_start);
}

/* ---- the end */

/* The words for an unknown user are those of E2B. */
static void build_exec_fail_to_start(struct build *b, const struct execution *x)
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

/* The command has ended, or the session with it. A missing bash leads to one more attempt by
 * /bin/sh. */
static void on_exec_end(struct completion *w, const struct err *e)
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
		build_exec_fail_to_start(b, done);
		return;
	}
	x->code = execution_row(done)->exit_code;
	memcpy(x->limits_hit, execution_row(done)->limits_hit, sizeof(x->limits_hit));
	x->ended = true;
	loop_defer(core_loop(b->core), &x->read);
}

int build_exec_status(struct build *b, const struct build_exec *x)
{
	const struct execution *run = x->follower.execution;

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
static void build_exec_put_env(struct build *b, struct buf *to, uint32_t *ret_n)
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

static void on_exec_room(struct loop_timer *t)
{
	build_exec_again(t->arg);
}

/* PID 1 has not read the large request of the start command yet, and takes no other one until then.
 * False: it takes none for too long, or something else is wrong. */
static bool build_exec_waits_for_room(struct build *b, const struct build_exec *x,
				      const struct err *e)
{
	uint64_t now = clock_now_ns();

	if (x != &b->exec || e->reason != REASON_UNAVAILABLE)
		return false;
	if (b->room_until_ns == 0)
		b->room_until_ns = now + ROOM_MS * CLOCK_MS;
	if (now > b->room_until_ns)
		return false;
	b->retry.on_expire = on_exec_room;
	b->retry.arg = b;
	loop_timer_set(core_loop(b->core), &b->retry, now + ROOM_EVERY_MS * CLOCK_MS);
	return true;
}

/* False: it has not begun. It is tried again, or it failed and the build is gone. */
static bool build_exec_begin(struct build *b, struct build_exec *x)
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
	build_exec_put_env(b, &strings, &spec.envc);
	spec.strings = (const char *)strings.data;
	spec.strings_len = strings.len;
	if (buf_check(&strings, &e) == 0 && s != NULL)
		run = execution_start(s, &spec, &e);
	buf_release(&strings);
	if (run == NULL) {
		if (!build_exec_waits_for_room(b, x, &e))
			build_fail(b, "failed to run command '%.2000s': %s", b->command, e.msg);
		return false;
	}
	b->room_until_ns = 0;
	str_copy(x->id, execution_row(run)->id);
	x->follower = (struct execution_follower){ .on_progress = on_progress, .arg = b };
	execution_follow(run, &x->follower);
	if (x == &b->exec) {
		x->end.on_done = on_exec_end;
		x->end.arg = b;
		execution_wait(run, &x->end);
	}
	return true;
}

/* Fresh state for one command. build_exec_release() has run before. */
static void build_exec_prepare(struct build *b, struct build_exec *x, bool quiet)
{
	x->read = (struct loop_task){ .on_run = on_read, .arg = b };
	x->quiet = quiet;
	x->limits_hit[0] = '\0';
	buf_init(&x->line[0], BUILD_LINE_MAX);
	buf_init(&x->line[1], BUILD_LINE_MAX);
}

static void build_exec_set_command(struct build *b, const char *user, const char *cwd,
				   const char *command)
{
	b->command = command;
	b->command_user = user;
	b->command_cwd = cwd[0] != '\0' ? cwd : "~"; /* not the directory of the image */
}

void build_exec_again(struct build *b)
{
	bool quiet = b->exec.quiet;

	build_exec_release(b, &b->exec);
	build_exec_prepare(b, &b->exec, quiet);
	(void)build_exec_begin(b, &b->exec);
}

void build_exec_run(struct build *b, struct build_exec *x, const char *user, const char *cwd,
		    const char *command, bool quiet, void (*then)(struct build *b, int code))
{
	build_exec_release(b, x);
	build_exec_prepare(b, x, quiet);
	build_exec_set_command(b, user, cwd, command);
	b->then_exit = then;
	(void)build_exec_begin(b, x);
}

bool build_exec_start(struct build *b)
{
	build_exec_release(b, &b->start);
	build_exec_prepare(b, &b->start, false);
	build_exec_set_command(b, b->state.user, b->state.workdir, b->start_command);
	return build_exec_begin(b, &b->start);
}

#define CLIENT "build "

bool build_has_session(const struct store_session *row)
{
	return row->client != NULL && strncmp(row->client, CLIENT, strlen(CLIENT)) == 0;
}

struct session *build_cell_session(struct build *b)
{
	struct err e;

	return b->session_id[0] == '\0' ? NULL
					: session_live(b->core, b->tenant, b->session_id, &e);
}

static void on_session(struct completion *w, const struct err *e)
{
	struct build *b = w->arg;
	struct session *s = b->making;

	b->making = NULL;
	if (e != NULL) {
		build_fail(b, "no session can be made for the step: %s", e->msg);
		return;
	}
	str_copy(b->session_id, session_row(s)->id);
	b->then(b);
}

/* Limits, time and network of the session. The caller frees *ret_policy. Limits beyond those of the
 * row come from settings for builds. */
static int build_cell_fill(struct build *b, struct session_spec *spec, char **ret_policy,
			   struct err *e)
{
	const struct config *g = core_config(b->core);

	spec->version = template_row(b->base)->id;
	spec->layers = (const char(*)[STORE_ID_MAX])b->stack.layers;
	spec->nlayers = b->stack.nlayers;
	spec->profile = -1;
	spec->limits.cpu_millis = b->row.cpu_millis;
	spec->limits.memory_bytes = b->row.memory_bytes;
	spec->timeout_ms =
		g->session_timeout_max_ms > 0 && g->session_timeout_max_ms < g->build_timeout_ms
			? g->session_timeout_max_ms
			: g->build_timeout_ms;
	spec->timeout_given = true;
	spec->idle_given = true;
	spec->of_build = true;
	spec->actor = &b->actor;
	if (g->build_disk > 0 && !b->no_disk) {
		spec->storage = SESSION_DISK;
		spec->storage_given = true;
		spec->limits.disk_bytes = g->build_disk;
	}
	if (b->recipe.network != NULL) {
		if (policy_select_presets(b->recipe.network, ret_policy, e) < 0)
			return err_wrap(e, "network");
		spec->policy = *ret_policy;
		return 0;
	}
	if (g->build_network[0] == '\0')
		return 0;
	if (policy_select_presets(g->build_network, ret_policy, e) < 0)
		return err_wrap(e, "build_network");
	spec->policy = *ret_policy;
	return 0;
}

/* The session is ready when `then` is called. A machine without disks leads to one more attempt
 * without a disk. */
void build_cell_open(struct build *b, void (*then)(struct build *b))
{
	char client[64], metadata[160];
	struct session_spec spec = { .client = client, .metadata = metadata };
	struct session *s = NULL;
	char *policy = NULL;
	unsigned retry_s;
	struct err e = { 0 };
	int rc;

	build_cell_close(b);
	(void)snprintf(client, sizeof(client), CLIENT "%s", b->row.id);
	(void)snprintf(metadata, sizeof(metadata),
		       "{\"label\":\"build\",\"cordon.build\":\"%s\",\"cordon.template\":\"%s\"}",
		       b->row.id, b->row.template_id);
	b->then = then;
	b->cell_wait.on_done = on_session;
	b->cell_wait.arg = b;
	rc = build_cell_fill(b, &spec, &policy, &e);
	if (rc == 0)
		rc = session_create(b->core, b->tenant, &spec, &b->cell_wait, &s, &retry_s, &e);
	free(policy);
	if (rc < 0 && e.code == ERR_UNSUPPORTED && spec.storage == SESSION_DISK) {
		b->no_disk = true; /* this machine has none */
		build_cell_open(b, then);
	} else if (rc < 0) {
		build_fail(b, "no session can be made for the step: %s", e.msg);
	}
	if (rc == 0 && completion_is_waiting(&b->cell_wait))
		b->making = s;
}

void build_cell_close(struct build *b)
{
	struct err e;

	/* A queued session has no id yet. It goes with its waiter. */
	if (b->making != NULL && completion_is_waiting(&b->cell_wait))
		str_copy(b->session_id, session_row(b->making)->id);
	b->making = NULL;
	completion_cancel(&b->cell_wait);
	session_capture_cancel(&b->capture);
	build_exec_release(b, &b->exec);
	build_exec_release(b, &b->start);
	build_copy_release(b);
	if (b->session_id[0] == '\0')
		return;
	if (session_delete(b->core, b->tenant, b->session_id, &b->actor, &e) < 0 &&
	    e.code != ERR_NOT_FOUND)
		log_warn("session of a build could not be ended", "session=%s error=%s",
			 b->session_id, e.msg);
	b->session_id[0] = '\0';
}

void build_cell_release(struct build *b)
{
	build_cell_close(b);
}

/* ---- capture */

/* The layer belongs to the build before the capture lets go of it. A step that changed nothing
 * leaves no layer. */
static int build_cell_take_layer(struct build *b, struct err *e)
{
	struct session_capture *k = &b->capture;
	char one[1][STORE_ID_MAX];

	memcpy(one[0], k->layer, sizeof(one[0]));
	if (template_stack_push(&b->stack, (const char(*)[STORE_ID_MAX])one, 1, e) < 0)
		return -1;
	if (store_layer_use(core_store(b->core), STORE_LAYER_OF_BUILD, b->row.id,
			    (const char(*)[STORE_ID_MAX])b->stack.layers, b->stack.nlayers,
			    e) < 0) {
		b->stack.nlayers--;
		return -1;
	}
	return store_layer_get(core_store(b->core), k->layer, &b->captured, e);
}

static void on_captured(struct completion *w, const struct err *e)
{
	struct build *b = w->arg;
	struct err why = { 0 };
	int rc = 0;

	if (e != NULL) {
		build_fail(b, "the changes of the step cannot be kept: %s", e->msg);
		return;
	}
	if (b->capture.entries > 0)
		rc = build_cell_take_layer(b, &why);
	session_capture_release(b->core, &b->capture);
	if (rc < 0)
		build_fail(b, "the changes of the step cannot be kept: %s", why.msg);
	else
		b->then(b);
}

/* on_captured() follows, unless build_cell_close() comes before it. */
void build_cell_capture(struct build *b, void (*then)(struct build *b))
{
	struct session *s = build_cell_session(b);

	if (s == NULL) {
		build_fail(b, "the session of the build ended");
		return;
	}
	b->then = then;
	b->capture.done.on_done = on_captured;
	b->capture.done.arg = b;
	session_capture(s, "build", false, &b->capture);
}
