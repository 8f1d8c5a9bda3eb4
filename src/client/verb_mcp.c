/* verb_mcp.c - cordon mcp: a server of the Model Context Protocol on standard input and output, for
 * clients that start their servers. One JSON message per line; everything else goes to stderr.
 *
 * Each message is posted to /mcp of the server by a process of its own, so that calls do not wait
 * for each other, and a call is cancelled by ending its process: the server sees that the
 * connection is closed. In the legacy era that means nothing, so the notification is passed on,
 * too. At the end of the input those that are under way have a moment to be answered, so that
 * `echo ... | cordon mcp` works; then they are ended. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "args.h"
#include "io.h"
#include "mcp_local.h"
#include "mcp_post.h"
#include "mcp_write.h"
#include "rand.h"
#include "verbs.h"

#define CALLS_MAX 64
#define END_MS 2000 /* how long calls may take that are under way at the end of the input */
#define END_STEP_MS 20

struct fields {
	struct args_common common;
	bool run;
};

/* clang-format off */
static const struct option options[] = {
	{ "run", NULL, OPTION_FLAG, offsetof(struct fields, run), 0, 0,
	  "offers one tool, run, on cordon run; no server is needed" },
	{ "server", "URL", OPTION_TEXT, offsetof(struct fields, common.server), 0, 0,
	  "http://, https:// or unix:/path (else CORDON_SERVER, http://127.0.0.1:4983)" },
	ARGS_CONNECTION(struct fields),
};
/* clang-format on */

struct bridge {
	const struct args_common *common;
	bool local; /* without a server */
	bool legacy;
	int lock_fd;
	pid_t pid; /* of the process that reads */
	char session[40];
	struct {
		pid_t pid; /* 0: free */
		char id[MCP_ID_MAX + 2];
	} calls[CALLS_MAX];
};

/* Processes that have ended give their places back. */
static void reap(struct bridge *b)
{
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		for (size_t i = 0; i < CALLS_MAX; i++)
			if (b->calls[i].pid == pid)
				b->calls[i].pid = 0;
}

static void refuse(const struct bridge *b, const struct mcp_request *q, const struct mcp_fault *f)
{
	struct json j;
	struct err e;

	json_init_heap(&j, 65536);
	mcp_write_error(&j, q, f);
	if (json_ok(&j))
		IGNORED(mcp_post_line(b->lock_fd, j.text, j.len, &e), "standard output is closed");
	json_release(&j);
}

/* In the process of one message. */
static NORETURN void run_call(const struct bridge *b, const struct mcp_request *q, const char *line,
			      size_t n)
{
	struct err e = { 0 };
	int done;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != b->pid)
		_exit(1); /* it has died before that */
	done = b->local ? mcp_local(q, b->lock_fd, &e)
			: mcp_post(b->common, q, line, n, b->session, b->lock_fd, &e);
	_exit(done < 0 ? 1 : 0);
}

static void cancel(struct bridge *b, const struct mcp_request *q)
{
	const struct json_node *id = json_tree_get(q->params, "requestId");

	for (size_t i = 0; id != NULL && i < CALLS_MAX; i++)
		if (b->calls[i].pid > 0 && strlen(b->calls[i].id) == id->raw.n &&
		    memcmp(b->calls[i].id, id->raw.p, id->raw.n) == 0)
			(void)kill(b->calls[i].pid, SIGTERM);
}

static void start_call(struct bridge *b, const struct mcp_request *q, const char *line, size_t n)
{
	struct mcp_fault f = { 0 };
	size_t i = 0;
	pid_t pid;

	while (i < CALLS_MAX && b->calls[i].pid != 0)
		i++;
	pid = i == CALLS_MAX ? -1 : fork();
	if (pid == 0)
		run_call(b, q, line, n);
	if (pid < 0) {
		IGNORED(mcp_fault_set(&f, MCP_INTERNAL_ERROR, "too many requests at once"),
			"written");
		if (q->kind == MCP_REQUEST)
			refuse(b, q, &f);
		return;
	}
	b->calls[i].pid = pid;
	(void)snprintf(b->calls[i].id, sizeof(b->calls[i].id), "%.*s", (int)q->id.n,
		       q->id.p == NULL ? "" : q->id.p);
}

static void handle(struct bridge *b, const char *line, size_t n)
{
	struct mcp_request q = { 0 };
	struct mcp_fault f = { 0 };

	if (n > 0 && line[n - 1] == '\r')
		n--;
	if (n == 0)
		return;
	reap(b);
	if (mcp_request_read_line(&q, &b->legacy, line, n, &f) < 0) {
		refuse(b, &q, &f);
	} else if (q.method == MCP_CANCELLED && (q.era == MCP_MODERN || b->local)) {
		cancel(b, &q);
	} else {
		start_call(b, &q, line, n);
	}
	mcp_request_release(&q);
}

static void refuse_long(const struct bridge *b)
{
	const struct mcp_request none = { 0 };
	struct mcp_fault f = { 0 };

	IGNORED(mcp_fault_set(&f, MCP_INVALID_REQUEST, "the message is longer than %u bytes",
			      MCP_BODY_MAX),
		"written");
	refuse(b, &none, &f);
}

/* Reads lines until the end of the input; one that is too long is refused and skipped. */
static int read_lines(struct bridge *b, struct err *e)
{
	struct buf input = BUF_INIT(MCP_BODY_MAX + 65536);
	bool skip = false;

	for (;;) {
		uint8_t *to = buf_reserve(&input, 65536, e), *end;
		ssize_t n = to == NULL ? -1 : read(STDIN_FILENO, to, 65536);

		if (n < 0 && to != NULL && errno == EINTR)
			continue;
		if (n <= 0) {
			buf_release(&input);
			return n < 0 && to != NULL ? err_sys(e, "standard input") : (int)n;
		}
		buf_commit(&input, (size_t)n);
		while ((end = memchr(input.data, '\n', input.len)) != NULL) {
			size_t len = (size_t)(end - input.data);

			if (!skip)
				handle(b, (const char *)input.data, len);
			skip = false;
			buf_consume(&input, len + 1);
		}
		if (input.len >= MCP_BODY_MAX) {
			if (!skip)
				refuse_long(b);
			skip = true;
			buf_clear(&input);
		}
	}
}

static unsigned under_way(struct bridge *b)
{
	unsigned n = 0;

	reap(b);
	for (size_t i = 0; i < CALLS_MAX; i++)
		n += b->calls[i].pid > 0;
	return n;
}

/* Returns the number of calls that were ended without an answer. */
static unsigned end_calls(struct bridge *b)
{
	const struct timespec step = { .tv_nsec = END_STEP_MS * 1000000L };
	unsigned left;

	for (unsigned ms = 0; (left = under_way(b)) > 0 && ms < END_MS; ms += END_STEP_MS)
		(void)nanosleep(&step, NULL);
	for (size_t i = 0; i < CALLS_MAX; i++)
		if (b->calls[i].pid > 0)
			(void)kill(b->calls[i].pid, SIGKILL);
	if (left > 0)
		(void)fprintf(stderr,
			      "cordon mcp: the input has ended, and %u message%s under way: "
			      "not answered\n",
			      left, left == 1 ? " was" : "s were");
	return left;
}

static int run(int argc, char **argv)
{
	struct fields f = { 0 };
	struct args_words words;
	struct bridge b = { .common = &f.common, .pid = getpid() };
	struct err e = { 0 };
	int code = args_read(&verb_mcp, argc, argv, &f, &words, 0, 0);

	if (code != ARGS_GO)
		return code;
	b.local = f.run;
	rand_id("", b.session, sizeof(b.session));
	b.lock_fd = memfd_create("lock", MFD_CLOEXEC);
	if (b.lock_fd < 0) {
		IGNORED(err_sys(&e, "memfd_create"), "reported");
		return args_fail(&e);
	}
	code = read_lines(&b, &e) < 0 ? args_fail(&e) : ARGS_OK;
	if (end_calls(&b) > 0 && code == ARGS_OK)
		code = 1;
	fd_close(b.lock_fd);
	return code;
}

const struct verb verb_mcp = {
	.name = "mcp",
	.usage = "[options]",
	.summary = "Offers the server's tools to an agent, over standard input and output.",
	.text = "For clients of the Model Context Protocol that start their servers: one JSON "
		"message per\n"
		"line. Clients that speak HTTP use URL/mcp of the server itself. See doc/mcp.md.\n",
	.options = options,
	.noptions = COUNT(options),
	.run = run,
};
