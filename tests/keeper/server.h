/* server.h - what a test of the server's keeper needs: a keeper, cells, programs in them. */
#ifndef CORDON_TESTS_KEEPER_SERVER_H
#define CORDON_TESTS_KEEPER_SERVER_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "lib/base/rand.h"
#include "../unit/support.h"
#include "cell/cellctl/agent_client.h"
#include "lib/base/io.h"
#include "cell/cellctl/keeper_client.h"
#include "cell/template/template.h"

/* Roots behind the template's layers. */
#define OUTPUT_MAX (16U << 20) /* of a script */
#define HOST_ROOTS 8	       /* roots of the host template */
enum { ROOT_READ = HOST_ROOTS, ROOT_WRITE, ROOT_TEMPLATES, ROOT_DISKS, ROOT_LAYERS, ROOTS };

struct server {
	struct keeper_client k;
	struct template t;
	struct keeper_root roots[ROOTS];
	char folder[64]; /* holds the roots: read, write, templates, disks, layers */
	int userns;
};

struct cell {
	char id[CELL_ID_MAX];
	struct agent agent;
	uint32_t pid;
	int pidfd;
};

#define MUST(call)                                          \
	do {                                                \
		struct err e = { 0 };                       \
		if ((call) < 0) {                           \
			print_text("# error: ", e.msg);     \
			fail_at(__FILE__, __LINE__, #call); \
		}                                           \
	} while (0)

/* The keeper refuses with this code, in words that contain `part`, and goes on. */
#define REFUSED(name, call, want, part)                 \
	do {                                            \
		struct err e = { 0 };                   \
		CHECK_CASE(name, (call) < 0);           \
		if (e.code != (want))                   \
			print_text("# error: ", e.msg); \
		CHECK_CASE(name, e.code == (want));     \
		CHECK_HAS(name, e.msg, part);           \
	} while (0)

static inline void spawn_keeper(struct server *s)
{
	struct keeper_start how = { .userns = s->userns,
				    .cgroups = &s->k.cgroups,
				    .serve = true,
				    .engines = true,
				    .nroots = ROOTS,
				    .roots = s->roots };
	int pair[2];

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	s->k.sock = how.client_end = pair[0];
	how.keeper_end = pair[1];
	MUST(keeper_client_spawn(&how, &s->k.pid, &e));
	(void)close(pair[1]);
	MUST(keeper_client_hello(&s->k, &e));
}

static inline int make_folder(const char *in, const char *name)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", in, name);
	CHECK(mkdir(path, 0755) == 0);
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static inline void start_server(struct server *s, bool unified)
{
	memset(s, 0, sizeof(*s));
	s->userns = -1;
	MUST(template_open("host", NULL, &s->t, &e));
	(void)snprintf(s->folder, sizeof(s->folder), "/tmp/cordon-keeper-test-XXXXXX");
	CHECK(mkdtemp(s->folder) != NULL && chmod(s->folder, 0755) == 0);
	for (unsigned i = 0; i < HOST_ROOTS; i++)
		s->roots[i] = (struct keeper_root){ i < s->t.nlayers ? s->t.fds[i] : -1,
						    KEEPER_ROOT_LAYER };
	s->roots[ROOT_READ] =
		(struct keeper_root){ make_folder(s->folder, "read"), KEEPER_ROOT_READ };
	s->roots[ROOT_WRITE] = (struct keeper_root){ make_folder(s->folder, "write"),
						     KEEPER_ROOT_READ | KEEPER_ROOT_WRITE };
	s->roots[ROOT_TEMPLATES] =
		(struct keeper_root){ make_folder(s->folder, "templates"), KEEPER_ROOT_TEMPLATES };
	s->roots[ROOT_DISKS] =
		(struct keeper_root){ make_folder(s->folder, "disks"), KEEPER_ROOT_DISKS };
	s->roots[ROOT_LAYERS] =
		(struct keeper_root){ make_folder(s->folder, "layers"), KEEPER_ROOT_LAYERS };
	cgroups_find(&s->k.cgroups);
	if (unified)
		cgroups_find_unified(&s->k.cgroups);
	spawn_keeper(s);
}

/* As if it had crashed. */
static inline void kill_keeper(struct server *s)
{
	CHECK(kill(s->k.pid, SIGKILL) == 0 && waitpid(s->k.pid, NULL, 0) == s->k.pid);
	io_close_all(&s->k.sock, 1);
}

static inline void stop_server(struct server *s)
{
	char command[128];
	pid_t pid;

	keeper_client_stop(&s->k, NULL);
	template_release(&s->t);
	(void)snprintf(command, sizeof(command), "%s", s->folder);
	pid = fork();
	if (pid == 0) {
		(void)execl("/bin/rm", "rm", "-rf", command, (char *)NULL);
		_exit(1);
	}
	(void)waitpid(pid, NULL, 0);
}

static inline struct keeper_create plan(const struct server *s, const char *id)
{
	struct keeper_create r;
	unsigned can = s->k.cgroups.limits;

	memset(&r, 0, sizeof(r));
	r.op = KEEPER_CREATE;
	r.flags = CELL_LINGER;
	r.uid = r.gid = 1000;
	r.limits = (struct cell_limits){ .memory_bytes = can & CELL_LIMIT_MEMORY ? 256U << 20 : 0,
					 .cpu_millis = can & CELL_LIMIT_CPU ? 2000 : 0,
					 .pids = can & CELL_LIMIT_PIDS ? 100 : 0,
					 .disk_bytes = 64U << 20,
					 .inodes = 16384,
					 .nofile = 1024 };
	(void)snprintf(r.id, sizeof(r.id), "%s-%d", id, (int)getpid());
	(void)snprintf(r.hostname, sizeof(r.hostname), "cell");
	rand_machine_id(r.machine_id);
	r.nlayers = s->t.nlayers;
	memcpy(r.layer_at, s->t.at, sizeof(r.layer_at));
	for (uint32_t i = 0; i < r.nlayers; i++)
		r.layer_from[i].root = i;
	return r;
}

static inline int try_create(struct server *s, const struct keeper_create *r, struct cell *ret,
			     struct err *e)
{
	struct keeper_reply reply;
	int pair[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	OWN_FD ours = pair[0];
	OWN_FD theirs = pair[1];
	memcpy(ret->id, r->id, sizeof(ret->id));
	if (keeper_client_call(&s->k, r, sizeof(*r), &theirs, 1, &reply, &ret->pidfd, e) < 0)
		return -1;
	agent_init(&ret->agent, TAKE_FD(ours));
	ret->pid = reply.pid;
	CHECK(ret->pid > 1 && ret->pidfd >= 0);
	return 0;
}

static inline void hear(struct cell *c, enum agent_type want, struct agent_event *ret)
{
	enum agent_type type = 0;

	MUST(agent_next(&c->agent, 20000, &type, ret, &e) - 1);
	CHECK(type == want);
}

static inline void make_plan(struct server *s, const struct keeper_create *r, struct cell *ret)
{
	struct agent_event v;

	MUST(try_create(s, r, ret, &e));
	hear(ret, AGENT_READY, &v);
}

static inline void make_cell(struct server *s, const char *id, struct cell *ret)
{
	struct keeper_create r = plan(s, id);

	make_plan(s, &r, ret);
}

/* Starts a shell in the cell; the caller reads its output from *ret_out. */
static inline void start_shell(struct cell *c, const char *script, const char *user, int *ret_out)
{
	char strings[16384];
	int n = snprintf(strings, sizeof(strings), "/bin/sh%c-c%c%s", 0, 0, script) + 1;
	const struct agent_spawn spawn = { .handle = 1,
					   .flags = AGENT_NO_STDIN,
					   .argc = 3,
					   .user = user,
					   .cwd = "/",
					   .strings = strings,
					   .strings_len = (size_t)n };
	struct agent_event v;

	MUST(agent_send_spawn(&c->agent, &spawn, &e));
	hear(c, AGENT_STARTED, &v);
	CHECK(c->agent.nfds == 2);
	*ret_out = c->agent.fds[0];
	(void)close(c->agent.fds[1]);
	c->agent.nfds = 0;
	CHECK(fcntl(*ret_out, F_SETFL, 0) == 0);
}

/* Runs a script to its end; returns its output, to be freed. */
static inline char *run_shell(struct cell *c, const char *script, const char *user)
{
	char *text = calloc(1, OUTPUT_MAX);
	size_t have = 0;
	struct agent_event v;
	ssize_t n;
	int out;

	start_shell(c, script, user, &out);
	while ((n = read(out, text + have, OUTPUT_MAX - 1 - have)) > 0)
		have += (size_t)n;
	(void)close(out);
	hear(c, AGENT_EXITED, &v);
	CHECK_CASE(script, v.exit_code == 0 && v.signal == 0);
	return text;
}

static inline int ask_named(struct server *s, enum keeper_op op, const char *id, uint32_t pid,
			    uint32_t on, struct err *e)
{
	struct keeper_named r = { .op = op, .pid = pid, .on = on };
	struct keeper_reply reply;

	(void)snprintf(r.id, sizeof(r.id), "%s", id);
	return keeper_client_call(&s->k, &r, sizeof(r), NULL, 0, &reply, NULL, e);
}

/* Asks for the cell's changes; the caller owns *ret_from. */
static inline int ask_diff(struct server *s, const char *id, uint32_t pid, int *ret_from,
			   struct err *e)
{
	struct keeper_create p = plan(s, "any");
	struct keeper_diff r;
	struct keeper_reply reply;
	int ends[2], result;

	memset(&r, 0, sizeof(r));
	r.named.op = KEEPER_DIFF;
	r.named.pid = pid;
	(void)snprintf(r.named.id, sizeof(r.named.id), "%s", id);
	r.nlayers = p.nlayers;
	memcpy(r.layer_at, p.layer_at, sizeof(r.layer_at));
	memcpy(r.layer_from, p.layer_from, sizeof(r.layer_from));
	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	result = keeper_client_call(&s->k, &r, sizeof(r), &ends[1], 1, &reply, NULL, e);
	(void)close(ends[1]);
	if (result < 0)
		(void)close(ends[0]);
	else
		*ret_from = ends[0];
	return result;
}

/* Removes the fourth field of a record, the time of the change, which tests cannot know. */
static inline void remove_times(char *text)
{
	unsigned field = 0;
	char *to = text;

	for (const char *p = text; *p != '\0'; p++) {
		if (field != 3)
			*to++ = *p;
		field = *p == '\n' ? 0 : field + (*p == '\t');
	}
	*to = '\0';
}

/* The whole list, a record a line, to be freed. */
static inline char *read_list(int from)
{
	char *text = calloc(1, 1 << 20);
	size_t have = 0;
	ssize_t n;

	while ((n = read(from, text + have, (1 << 20) - 1 - have)) > 0)
		have += (size_t)n;
	(void)close(from);
	for (size_t i = 0; i < have; i++)
		text[i] = text[i] == '\0' ? '\n' : text[i];
	remove_times(text);
	return text;
}

static inline bool ended(int pidfd, int wait_ms)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return poll(&p, 1, wait_ms) == 1;
}

/* How many of the cell's cgroup directories there are. */
static inline unsigned count_dirs(const struct server *s, const char *id)
{
	char name[64];
	unsigned n = 0;

	(void)snprintf(name, sizeof(name), CELL_CGROUP_PREFIX "%s", id);
	for (unsigned i = 0; i < CELL_CGROUP_DIRS; i++)
		n += s->k.cgroups.dirs[i] >= 0 &&
		     faccessat(s->k.cgroups.dirs[i], name, F_OK, 0) == 0;
	return n;
}

/* As the server does: asks again while the cell is ending. */
static inline void destroy(struct server *s, struct cell *c, uint32_t pid)
{
	struct err e = { 0 };
	int tries = 0;

	while (ask_named(s, KEEPER_DESTROY, c->id, pid, 0, &e) < 0) {
		CHECK_CASE(e.msg, e.code == ERR_CONFLICT && tries++ < 200);
	}
	CHECK(count_dirs(s, c->id) == 0);
	CHECK(ended(c->pidfd, 10000));
	agent_release(&c->agent);
	io_close_all(&c->pidfd, 1);
}

#endif
