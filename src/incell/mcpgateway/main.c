/* mcp-gateway - MCP servers of one cell behind one port. Every cell has this program.
 *
 *	mcp-gateway --config JSON	as E2B's clients start it: port 50005 over HTTP, the
 *					token from GATEWAY_ACCESS_TOKEN, in the background
 *	mcp-gateway --stdio JSON	one server, for cordond: port 50006, lines, the token
 *					from CORDON_MCP_LINK_TOKEN, in the foreground
 *
 * It trusts its command line and nothing else: servers and clients are bounded. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "incell/mcpgateway/http_front.h"
#include "incell/mcpgateway/line_front.h"
#include "incell/mcpgateway/server_spawn.h"
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include "lib/mcp/client/link_proof.h"

/* ---- the background: mcp-gateway goes there when its servers have answered. The first process
 * waits for the second, and ends with its outcome. */

#define WORDS_MAX 4096
#define GOOD "+" /* instead of a failure */

/* The first process: the end of the pipe is the outcome. */
static void NORETURN wait_for_outcome(int fd)
{
	char words[WORDS_MAX];
	size_t n = 0;
	ssize_t got;
	struct err e;

	while (n < sizeof(words) - 1) {
		got = read(fd, words + n, sizeof(words) - 1 - n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	words[n] = '\0';
	if (strcmp(words, GOOD) == 0)
		_exit(0);
	if (n == 0)
		(void)snprintf(words, sizeof(words), "mcp-gateway: it ended unexpectedly\n");
	IGNORED(io_write_all(2, words, strlen(words), &e), "standard error is closed");
	_exit(1);
}

/* A log of its own each time. The folder may be there. */
static void use_log(const char *path)
{
	char folder[256];
	int fd;

	str_copy(folder, path);
	*strrchr(folder, '/') = '\0';
	(void)mkdir(folder, 0755);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_APPEND, 0640);
	if (fd < 0)
		fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	(void)dup2(fd, 1);
	(void)dup2(fd, 2);
	fd_close(fd > 2 ? fd : -1);
}

/* Fork. Return in the second process only, without a terminal, with an empty standard input and
 * its log as standard output and error. The first one exits 0 after daemon_report(fd, NULL). After
 * a text it prints that to standard error and exits 1, as it does if the second ends without a
 * word. Return the descriptor for daemon_report(). */
static int daemon_begin(const char *log_path, struct err *e)
{
	int fds[2], nothing;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	pid = fork();
	if (pid < 0)
		return err_sys(e, "fork");
	if (pid > 0) {
		fd_close(fds[1]);
		wait_for_outcome(fds[0]);
	}
	fd_close(fds[0]);
	(void)setsid();
	if (chdir("/") < 0)
		return err_sys(e, "chdir");
	nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
	(void)dup2(nothing, 0);
	fd_close(nothing);
	use_log(log_path);
	return fds[1];
}

/* Close the descriptor. */
static void daemon_report(int fd, const char *failure)
{
	struct err e;

	if (failure == NULL)
		failure = GOOD;
	IGNORED(io_write_all(fd, failure, strlen(failure), &e), "the first process is gone");
	fd_close(fd);
}

/* Ports, paths and names that E2B's clients know. */
#define HTTP_PORT 50005
#define LINE_PORT 50006
#define SETUP_MS 55000 /* E2B's clients wait 60 s */
#define LOG_PATH "/var/log/mcp-gateway/gateway.log"
#define LOG_MAX (1 << 20)
#define TOKEN_FOLDER "/etc/mcp-gateway"
#define TOKEN_PATH TOKEN_FOLDER "/.token"
#define TOKEN_VAR "GATEWAY_ACCESS_TOKEN"

/* The whole process. token: it serves HTTP. link: it serves lines. */
struct mcp_gateway {
	struct loop *loop;
	struct gateway_config config;
	struct stdio_server *servers;
	struct front front;
	struct loop_timer second;
	const char *token; /* NULL: lines */
	const char *link;  /* the token of lines */
	int report;	   /* -1: reported, or in the foreground */
	bool serves;	   /* lines: connections are accepted */
};

/* NULL: it is not set. */
static const char *find_var(const char *name)
{
	size_t n = strlen(name);

	for (char **v = environ; *v != NULL; v++) {
		if (strncmp(*v, name, n) == 0 && (*v)[n] == '=')
			return *v + n + 1;
	}
	return NULL;
}

/* Servers are stopped, and the words reach the caller of this program. */
static void NORETURN give_up(struct mcp_gateway *g, const char *words)
{
	for (size_t i = 0; g->servers != NULL && i < g->config.n; i++)
		server_stop(&g->servers[i], "the gateway ends");
	if (g->report >= 0)
		daemon_report(g->report, words);
	else
		(void)fputs(words, stderr);
	exit(1);
}

/* Only root reads it: servers run as another user. */
static int write_token(const char *token, struct err *e)
{
	OWN_FD fd = -1;

	if (mkdir(TOKEN_FOLDER, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "mkdir %s", TOKEN_FOLDER);
	if (unlink(TOKEN_PATH) < 0 && errno != ENOENT)
		return err_sys(e, "unlink %s", TOKEN_PATH);
	fd = open(TOKEN_PATH, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_sys(e, "open %s", TOKEN_PATH);
	return io_write_all(fd, token, strlen(token), e);
}

/* All servers have answered. Repeated for each new list. Only the first one does something. */
static void begin_service(struct mcp_gateway *g)
{
	char words[400];
	struct err e;

	if (g->token == NULL) {
		if (!g->serves && line_front_begin(&e) < 0) {
			(void)snprintf(words, sizeof(words), "mcp-gateway: %s\n", e.msg);
			give_up(g, words);
		}
		g->serves = true;
		return;
	}
	if (g->report < 0)
		return;
	if (http_front_open(g->loop, &g->front, HTTP_PORT, g->token, &e) < 0 ||
	    write_token(g->token, &e) < 0) {
		(void)snprintf(words, sizeof(words), "mcp-gateway: %s\n", e.msg);
		give_up(g, words);
	}
	daemon_report(g->report, NULL);
	g->report = -1;
	log_info("ready", "servers=%zu", g->config.n);
}

/* A server that ended after its first list still counts. */
static void check_ready(struct mcp_gateway *g)
{
	for (size_t i = 0; i < g->config.n; i++) {
		if (!g->servers[i].was_ready)
			return;
	}
	begin_service(g);
}

/* stdio_server.c calls this with each new list. */
static void on_tools(struct stdio_server *s)
{
	struct mcp_gateway *g = s->owner.arg;

	log_info("tools", "server=%s tools=%zu dropped=%zu version=%s", s->entry->name,
		 s->peer.tools.n, s->peer.tools.dropped, s->peer.version);
	if (g->serves)
		line_front_changed(); /* not the first list */
	check_ready(g);
}

/* Before all have answered, one that ends is a failure of the whole. Later the server is started
 * again, and its calls fail until then. */
static void on_ended(struct stdio_server *s, const char *why)
{
	struct mcp_gateway *g = s->owner.arg;
	char last[SERVER_WORDS + 1], words[SERVER_WORDS + 800];

	if (g->report < 0 && (g->token != NULL || g->serves))
		return;
	server_words_last(&s->words, last);
	(void)snprintf(words, sizeof(words), "mcp-gateway: server %s: %s%s%s\n", s->entry->name,
		       why, last[0] == '\0' ? "" : "; it wrote:\n", last);
	give_up(g, words);
}

/* Also cuts the log when it has grown too long. */
static void on_second(struct loop_timer *t)
{
	struct mcp_gateway *g = t->arg;
	struct stat st;

	for (size_t i = 0; i < g->config.n; i++)
		server_tick(&g->servers[i]);
	if (g->token != NULL && fstat(2, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > LOG_MAX)
		IGNORED(ftruncate(2, 0), "the log grows on");
	loop_timer_set(g->loop, t, loop_now_ns(g->loop) + 1000 * CLOCK_MS);
}

/* All are started at once. The front borrows them. */
static void start_servers(struct mcp_gateway *g)
{
	struct server_owner owner = { on_tools, on_ended, g };

	g->servers = calloc(g->config.n + 1, sizeof(*g->servers));
	if (g->servers == NULL)
		give_up(g, "mcp-gateway: out of memory\n");
	for (size_t i = 0; i < g->config.n; i++) {
		server_init(&g->servers[i], g->loop, &g->config.entries[i], owner);
		g->servers[i].peer.setup_ms = SETUP_MS;
	}
	front_init(&g->front, g->servers, g->config.n, g->token != NULL);
	for (size_t i = 0; i < g->config.n; i++)
		server_start(&g->servers[i]);
}

/* The port for lines is taken before any program runs. */
static int mcpgateway_run(struct mcp_gateway *g, struct err *e)
{
	g->loop = loop_new(e);
	if (g->loop == NULL)
		return -1;
	if (g->link != NULL && line_front_open(g->loop, &g->front, LINE_PORT, g->link, e) < 0)
		return -1;
	start_servers(g);
	check_ready(g);
	g->second = (struct loop_timer){ .on_expire = on_second, .arg = g };
	on_second(&g->second);
	return loop_run(g->loop, e);
}

/* text is wiped after it was read. */
static int mcpgateway_start(struct mcp_gateway *g, bool lines, char *text, struct err *e)
{
	if (gateway_config_read(text, strlen(text), &g->config, e) < 0)
		return -1;
	/* Every process in the cell can read others' command lines, and a server's environment may
	 * hold secrets. */
	explicit_bzero(text, strlen(text));
	if (lines && g->config.n != 1)
		return err_set(e, ERR_INVALID, "--stdio takes one server");
	if (lines) {
		server_spawn_lock();
		g->link = find_var(LINK_TOKEN_VAR);
		if (g->link == NULL || strlen(g->link) < LINK_WORD)
			return err_set(e, ERR_INVALID, LINK_TOKEN_VAR " is not set");
	}
	if (!lines) {
		g->token = find_var(TOKEN_VAR);
		if (g->token == NULL || g->token[0] == '\0')
			return err_set(e, ERR_INVALID, TOKEN_VAR " is not set");
		g->report = daemon_begin(LOG_PATH, e);
		if (g->report < 0)
			return -1;
	}
	return mcpgateway_run(g, e);
}

/* g lives as long as the process. */
int main(int argc, char **argv)
{
	struct mcp_gateway g = { .report = -1 };
	struct err e = { 0 };
	char words[400];

	if (argc >= 2 && strcmp(argv[1], "pull") == 0) {
		(void)fputs("mcp-gateway: servers of the catalogue are container images, which "
			    "are not supported here\n",
			    stderr);
		return 1;
	}
	if (argc != 3 || (strcmp(argv[1], "--config") != 0 && strcmp(argv[1], "--stdio") != 0)) {
		(void)fputs("usage: mcp-gateway --config JSON | --stdio JSON\n", stderr);
		return 2;
	}
	(void)signal(SIGPIPE, SIG_IGN);
	if (mcpgateway_start(&g, strcmp(argv[1], "--stdio") == 0, argv[2], &e) < 0) {
		(void)snprintf(words, sizeof(words), "mcp-gateway: %s\n", e.msg);
		give_up(&g, words);
	}
	return 0;
}
