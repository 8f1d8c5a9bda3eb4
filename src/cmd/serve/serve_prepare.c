/* serve_prepare.c - what cordon serve finds, makes and opens before it starts any program: users,
 * folders, locks, sockets, cgroups, templates. Every error here ends the server with one message.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cell/cellctl/cgroups_group.h"
#include "cell/cellctl/rootless.h"
#include "cmd/base/egress_start.h"
#include "cmd/base/level_machine.h"
#include "cmd/base/mount_source.h"
#include "cmd/base/nofile.h"
#include "cmd/base/root_check.h"
#include "cmd/serve/serve.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/str.h"

/* ---- levels
 *
 * The server offers the isolation levels that the operator wants (setting `levels`) and the machine
 * can do (level_machine.h). cordond gets the result with its other settings. A client that asks for
 * another level gets the reason. */

/* Is the level one of the setting's, whose names are separated by commas? */
static bool is_wanted(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = list; *at != '\0';) {
		size_t len = strcspn(at, ",");

		if (len == n && memcmp(at, name, n) == 0)
			return true;
		at += len + (at[len] == ',');
	}
	return false;
}

int serve_levels_check(const struct serve *s, struct err *e)
{
	for (const char *at = s->config.levels; *at != '\0';) {
		size_t len = strcspn(at, ",");
		char name[32];

		(void)snprintf(name, sizeof(name), "%.*s", (int)len, at);
		if (len == 0 || len >= sizeof(name) || cell_level_find(name) == NULL)
			return err_set(e, ERR_INVALID,
				       "levels: '%.40s' is none of " CELL_LEVEL_NAMES, name);
		at += len + (at[len] == ',');
	}
	return 0;
}

uint64_t serve_host_size(const struct serve *s)
{
	uint64_t bytes = 0, enough = s->config.guest_root_max;
	struct err e;

	if (!s->levels.states[CELL_MICROVM].is_possible)
		return 0;
	if (host_size(enough, &bytes, &e) < 0)
		log_warn("the size of the template host is not known", "error=%s", e.msg);
	return bytes > enough ? bytes : 0;
}

/* The size of the template host's root image is known before its creation. */
static void look_at_host(struct serve *s)
{
	uint64_t bytes = serve_host_size(s);

	s->setup.host.bytes = bytes;
	if (bytes > 0)
		log_info("the template host is large", "mib=%llu note=%s",
			 (unsigned long long)(bytes >> 20),
			 "its first session at level microvm takes long, and so much of "
			 "storage_dir");
}

/* Find which levels sessions can have, and open the files that their engines need. */
static int serve_levels(struct serve *s, struct err *e)
{
	const struct cell_level *l;

	if (serve_levels_check(s, e) < 0)
		return -1;
	level_machine_init(&s->levels);
	for (size_t i = 0; (l = cell_level_at(i)) != NULL; i++) {
		struct cell_level_state *state = &s->levels.states[i];

		if (is_wanted(s->config.levels, l->name))
			level_machine_find_one(l->id, s->config.runsc, s->config.state_dir,
					       &s->levels);
		else
			(void)snprintf(state->why, sizeof(state->why),
				       "the setting `levels` of the server does not name it");
		log_info("level", "name=%s possible=%u why=%s note=%s", l->name, state->is_possible,
			 state->why, state->note);
	}
	look_at_host(s);
	s->setup.use_kvm = s->levels.use_kvm;
	memcpy(s->setup.guest_key, s->levels.guest_key, sizeof(s->setup.guest_key));
	memcpy(s->setup.guest_origin, s->levels.guest_origin, sizeof(s->setup.guest_origin));
	memcpy(s->setup.levels, s->levels.states, sizeof(s->setup.levels));
	return 0;
}

/* ---- folders of cordond
 *
 * cordond runs as a user of its own, which cannot enter a folder below one that only root may enter
 * (/root, a home): it would end at each start. A child process changes to that user and tries to
 * enter the folders, so that the kernel decides (modes, access lists, mounts). */

/* In the child: writes the length of the part of the path that cannot be entered (0: all can) to
 * the pipe. An exit status would be too small for it. */
static void NORETURN try_path(const struct serve *s, const char *path, int to)
{
	char part[CONFIG_PATH_MAX];
	size_t failed = 0, n = strlen(path);
	struct err e;

	if (setgroups(0, NULL) < 0 || setresgid(s->gid, s->gid, s->gid) < 0 ||
	    setresuid(s->uid, s->uid, s->uid) < 0)
		_exit(1);
	for (size_t i = 1; i <= n && failed == 0; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		if (access(part, i == n ? R_OK | W_OK | X_OK : X_OK) < 0)
			failed = i;
	}
	_exit(io_write_all(to, &failed, sizeof(failed), &e) < 0 ? 1 : 0);
}

/* Check that the user of cordond can enter and write the folder. */
static int serve_folder_check(const struct serve *s, const char *name, const char *path,
			      struct err *e)
{
	size_t failed = 0;
	int ends[2], status = -1;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	OWN_FD from = ends[0], to = ends[1];
	pid = fork();
	if (pid == 0)
		try_path(s, path, to);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return err_sys(e, "fork");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 ||
	    read(from, &failed, sizeof(failed)) != (ssize_t)sizeof(failed))
		return err_set(e, ERR_SYSTEM, "%s: cannot check access as user %u", name, s->uid);
	if (failed == 0)
		return 0;
	return err_set(e, ERR_DENIED,
		       "%s: user %u, which the server runs as, cannot enter %.*s; use a folder "
		       "elsewhere, or allow it",
		       name, s->uid, (int)failed, path);
}

/* ---- network settings
 *
 * `cordond --check-network` checks them before any program is started, since this program cannot
 * parse policies. So a mistake is an error of cordon serve, and not a line in the log of a program
 * that cannot start. */

/* In the child. */
static void NORETURN exec_checker(const struct serve *s, const struct serve_precheck *q)
{
	char name[] = "cordond", verb[] = "--check-network", presets[CONFIG_NAME_MAX];
	char of_builds[CONFIG_NAME_MAX], for_builds[CONFIG_NAME_MAX];
	char *argv[] = { name, verb, presets, of_builds, for_builds, NULL };

	memcpy(presets, s->config.network_default, sizeof(presets));
	memcpy(of_builds, s->config.build_network, sizeof(of_builds));
	memcpy(for_builds, s->config.build_networks, sizeof(for_builds));
	if (dup2(q->in, STDIN_FILENO) < 0 || dup2(q->stderr_fd, STDERR_FILENO) < 0)
		_exit(126);
	serve_precheck_exec(q, q->program, argv);
}

/* Opened as the user of the server, as cordond will: a file that only root can read would pass here
 * and fail there. */
static int open_as_server(const struct serve *s, const char *file)
{
	bool other = geteuid() == 0 && s->uid != 0;
	int fd, sys;

	if (other && (setegid(s->gid) < 0 || seteuid(s->uid) < 0))
		return -1;
	fd = open(file, O_RDONLY | O_CLOEXEC);
	sys = errno;
	if (other && (seteuid(0) < 0 || setegid(0) < 0))
		_exit(126); /* root can always become root again */
	errno = sys;
	return fd;
}

int serve_network(const struct serve *s, struct err *e)
{
	const char *file = s->config.egress_policy;
	struct serve_precheck q = { .name = "cordond",
				    .what = "cordond --check-network",
				    .on_child = exec_checker };

	OWN_FD policy = open_as_server(s, file[0] == '\0' ? "/dev/null" : file);
	if (policy < 0)
		return err_sys(e, "egress_policy: open %s%s", file,
			       errno == EACCES ? " as the user of the server" : "");
	q.in = policy;
	return serve_precheck_run(s, &q, e);
}

#define NOFILE_WANTED 1048576
#define LOCK_TRIES 100
#define LOCK_MS 10

/* A user name of the machine, or a number. */
static int find_user(const char *setting, const char *name, uid_t *ret_uid, gid_t *ret_gid,
		     struct err *e)
{
	char *end;
	unsigned long number = strtoul(name, &end, 10);
	const struct passwd *p;

	if (name[0] >= '1' && name[0] <= '9' && *end == '\0' && number < UINT32_MAX) {
		*ret_uid = *ret_gid = (uid_t)number;
		return 0;
	}
	p = getpwnam(name);
	if (p == NULL || p->pw_uid == 0)
		return err_set(
			e, ERR_NOT_FOUND,
			"%s: the user '%s' does not exist or is root: useradd --system %s, or "
			"give a number",
			setting, name, name);
	*ret_uid = p->pw_uid;
	*ret_gid = p->pw_gid;
	return 0;
}

/* A program's user that came after the first ones. A machine set up before lacks the usual name:
 * then it is `before`, the user of the program before it. */
struct later_user {
	const char *setting, *name; /* "": the usual name */
	char usual[CONFIG_NAME_MAX];
	unsigned number; /* where user is a number: how many after it */
	uid_t uid;
	gid_t gid; /* before, and then the one found */
};

static int find_later_user(const struct serve *s, struct later_user *u, struct err *e)
{
	struct err none;

	if (s->config.user[0] >= '1' && s->config.user[0] <= '9')
		(void)snprintf(u->usual, sizeof(u->usual), "%u", s->uid + u->number);
	if (u->name[0] == '\0') {
		IGNORED(find_user(u->setting, u->usual, &u->uid, &u->gid, &none),
			"the user before it is taken");
		return 0;
	}
	if (find_user(u->setting, u->name, &u->uid, &u->gid, e) < 0)
		return -1;
	if (u->uid == s->uid)
		return err_set(e, ERR_INVALID, "%s: '%s' is the same as user", u->setting, u->name);
	return 0;
}

static int find_later_users(struct serve *s, struct err *e)
{
	struct later_user cache = { "cache_user",  s->config.cache_user, "cordon-cache", 2,
				    s->egress_uid, s->egress_gid };
	struct later_user notary = { "notary_user", s->config.notary_user, "cordon-notary", 3 };

	if (find_later_user(s, &cache, e) < 0)
		return -1;
	s->cache_uid = notary.uid = cache.uid;
	s->cache_gid = notary.gid = cache.gid;
	if (find_later_user(s, &notary, e) < 0)
		return -1;
	s->notary_uid = notary.uid;
	s->notary_gid = notary.gid;
	return 0;
}

/* Find the users that cordond and the programs beside it run as. Without root: the caller's. */
static int find_users(struct serve *s, struct err *e)
{
	char usual[CONFIG_NAME_MAX] = "cordon-net";
	const char *name = s->config.egress_user[0] == '\0' ? usual : s->config.egress_user;

	s->uid = s->egress_uid = s->cache_uid = s->notary_uid = getuid();
	s->gid = s->egress_gid = s->cache_gid = s->notary_gid = getgid();
	if (!s->root)
		return 0;
	if (find_user("user", s->config.user, &s->uid, &s->gid, e) < 0)
		return -1;
	if (s->config.user[0] >= '1' &&
	    s->config.user[0] <=
		    '9') /* a number needs no account, so the next one needs none either */
		(void)snprintf(usual, sizeof(usual), "%u", s->uid + 1);
	if (find_user("egress_user", name, &s->egress_uid, &s->egress_gid, e) < 0)
		return -1;
	if (s->egress_uid == s->uid)
		return err_set(e, ERR_INVALID, "egress_user: '%s' is the same as user", name);
	return find_later_users(s, e);
}

/* Raise the limit of descriptors: cordond holds a few for each session. Cells may have as many as
 * the configuration says, but not more than this process. */
static void raise_nofile(struct serve *s)
{
	struct rlimit limit = { NOFILE_WANTED, NOFILE_WANTED };

	if (setrlimit(RLIMIT_NOFILE, &limit) < 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	if (s->config.nofile_max > limit.rlim_max)
		s->config.nofile_max = limit.rlim_max;
	if (s->config.nofile_default > limit.rlim_max)
		s->config.nofile_default = limit.rlim_max;
}

/* Logged after all checks: a server that does not start prints one message. */
static void warn_nofile(const struct serve *s)
{
	uint64_t wanted = nofile_wanted(s->config.node_max_sessions);
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < wanted)
		log_warn("the limit of descriptors is too low for node_max_sessions",
			 "limit=%llu wanted=%llu node_max_sessions=%llu",
			 (unsigned long long)limit.rlim_cur, (unsigned long long)wanted,
			 (unsigned long long)s->config.node_max_sessions);
}

/* Make a folder and those above it. Only cordond may use the last one. */
static int make_folder(const struct serve *s, const char *name, const char *path, struct err *e)
{
	char part[CONFIG_PATH_MAX];
	struct stat st;

	if (path[0] != '/')
		return err_set(e, ERR_INVALID, "%s: '%s' is not absolute", name, path);
	for (size_t i = 1; path[i] != '\0'; i++)
		if (path[i] == '/') {
			(void)snprintf(part, sizeof(part), "%.*s", (int)i, path);
			if (mkdir(part, 0755) < 0 && errno != EEXIST)
				return err_sys(e, "%s: make %s", name, part);
		}
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "%s: make %s", name, path);
	OWN_FD fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "%s: open %s", name, path);
	if (st.st_uid != s->uid && st.st_uid != getuid())
		return err_set(e, ERR_DENIED, "%s: %s belongs to user %u", name, path, st.st_uid);
	if (fchown(fd, s->uid, s->gid) < 0 || fchmod(fd, 0711) < 0)
		return err_sys(e, "%s: %s", name, path);
	return 0;
}

/* One server per run folder. */
static int lock_run(struct serve *s, struct err *e)
{
	char path[CONFIG_PATH_MAX + 8];

	(void)snprintf(path, sizeof(path), "%s/lock", s->config.run_dir);
	s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->lock_fd < 0)
		return err_sys(e, "open %s", path);
	/* A supervisor killed while it started a child leaves the lock to the child for a
	 * moment. */
	for (int tries = 0; flock(s->lock_fd, LOCK_EX | LOCK_NB) < 0; tries++) {
		if (errno == EWOULDBLOCK && tries < LOCK_TRIES) {
			(void)poll(NULL, 0, LOCK_MS);
			continue;
		}
		return err_set(e, ERR_CONFLICT, "run_dir: %s is used by another cordon serve",
			       s->config.run_dir);
	}
	return 0;
}

static int add_root(struct serve *s, int fd, uint32_t uses, uint32_t *ret_index, struct err *e)
{
	if (s->nroots == CELL_ROOTS_MAX)
		return err_set(e, ERR_LIMIT, "templates and mount_roots: at most %d folders",
			       CELL_ROOTS_MAX);
	s->roots[s->nroots] = (struct keeper_root){ .fd = fd, .uses = uses };
	*ret_index = s->nroots++;
	return 0;
}

/* The certificate alone, in memory: cordon-storage must not have the key. */
static int keep_certificate(struct serve *s, const struct node_ca *a, struct err *e)
{
	s->certificate_fd = memfd_create("certificate", MFD_CLOEXEC);
	if (s->certificate_fd < 0)
		return err_sys(e, "the certificate of the authority");
	if (io_write_all(s->certificate_fd, a->link, strlen(a->link), e) < 0 ||
	    io_write_all(s->certificate_fd, "\n", 1, e) < 0)
		return -1;
	return io_write_all(s->certificate_fd, a->cert, strlen(a->cert), e);
}

static int open_host(struct serve *s, struct err *e)
{
	struct serve_host *t = &s->setup.host;

	if (authority_make(&s->authority, e) < 0)
		return err_wrap(e, "the authority that cells trust");
	s->authority_fd = s->authority.fd;
	if (keep_certificate(s, &s->authority, e) < 0)
		return -1;
	if (template_open("host", &s->authority, &s->template, e) < 0)
		return err_wrap(e, "template");
	t->nlayers = s->template.nlayers;
	memcpy(t->at, s->template.at, sizeof(t->at));
	str_copy(t->name, s->template.name);
	for (uint32_t i = 0; i < t->nlayers; i++)
		if (add_root(s, s->template.fds[i], KEEPER_ROOT_LAYER, &t->roots[i], e) < 0)
			return -1;
	return 0;
}

/* The folder of the setting, or `usual` in the state folder. Only the user that starts the server
 * may change it, and no other user may reach its files. */
static int open_private(const struct serve *s, const char *name, const char *setting,
			const char *usual, char *ret_path, int *ret_fd, struct err *e)
{
	struct stat st;

	if (setting[0] != '\0')
		str_copy_to(ret_path, CELL_PATH_MAX, setting);
	else
		(void)snprintf(ret_path, CELL_PATH_MAX, "%.200s/%s", s->config.state_dir, usual);
	if (mkdir(ret_path, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "%s: make %s", name, ret_path);
	OWN_FD fd = open(ret_path, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "%s: open %s", name, ret_path);
	if (st.st_uid != getuid() || (st.st_mode & 077) != 0)
		return err_set(e, ERR_DENIED, "%s: %s must belong to user %u and have mode 0700",
			       name, ret_path, getuid());
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* The keeper takes any directory in it as a template, whichever cordond names. */
static int open_template_dir(struct serve *s, struct err *e)
{
	int fd = -1;

	if (open_private(s, "template_dir", s->config.template_dir, "templates",
			 s->setup.template_dir, &fd, e) < 0)
		return -1;
	return add_root(s, fd, KEEPER_ROOT_TEMPLATES, &s->setup.template_root, e);
}

static int open_storage_dir(struct serve *s, struct err *e)
{
	static const char *const folders[] = { "layers", "disks", "volumes" };
	char path[CELL_PATH_MAX];

	if (open_private(s, "storage_dir", s->config.storage_dir, "storage", path, &s->storage_fd,
			 e) < 0)
		return -1;
	for (size_t i = 0; i < COUNT(folders); i++)
		if (mkdirat(s->storage_fd, folders[i], 0700) < 0 && errno != EEXIST)
			return err_sys(e, "storage_dir: make %s/%s", path, folders[i]);
	OWN_FD fd = openat(s->storage_fd, "layers", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_sys(e, "storage_dir: open %s/layers", path);
	OWN_FD disks =
		openat(s->storage_fd, "disks", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	uint32_t any;

	if (disks < 0)
		return err_sys(e, "storage_dir: open %s/disks", path);
	if (add_root(s, TAKE_FD(disks), KEEPER_ROOT_DISKS, &any, e) < 0)
		return -1;
	if (add_root(s, TAKE_FD(fd), KEEPER_ROOT_LAYERS, &s->setup.layers_root, e) < 0)
		return -1;
	fd = openat(s->storage_fd, "volumes", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_sys(e, "storage_dir: open %s/volumes", path);
	return add_root(s, TAKE_FD(fd), KEEPER_ROOT_VOLUMES, &s->setup.volumes_root, e);
}

static int open_mount_roots(struct serve *s, struct err *e)
{
	const char *const own[] = { s->config.state_dir, s->config.run_dir, s->config.storage_dir,
				    s->config.template_dir };

	for (size_t i = 0; i < s->config.nmount_roots; i++) {
		const struct config_root *r = &s->config.mount_roots[i];
		int fd = open(r->path, O_PATH | O_DIRECTORY | O_CLOEXEC);

		if (fd < 0)
			return err_sys(e, "mount_roots: open %s", r->path);
		if (!s->config.mount_unsafe_roots &&
		    mount_source_check(fd, r->writable, own, COUNT(own), "mount_unsafe_roots = yes",
				       e) < 0) {
			fd_close(fd);
			return err_wrap(e, "mount_roots");
		}
		if (add_root(s, fd, KEEPER_ROOT_READ | (r->writable ? KEEPER_ROOT_WRITE : 0),
			     &s->setup.roots[i].root, e) < 0)
			return -1;
		s->setup.roots[i].writable = r->writable;
		str_copy(s->setup.roots[i].path, r->path);
		s->setup.nroots++;
	}
	return 0;
}

/* A group of cgroups for this server's cells, named after its run folder. */
static int make_group(struct serve *s, int run, struct err *e)
{
	char name[40];
	struct stat st;

	if (s->cgroups.version == 0)
		return 0;
	if (fstat(run, &st) < 0)
		return err_sys(e, "run_dir");
	(void)snprintf(name, sizeof(name), "%llx-%llx", (unsigned long long)st.st_dev,
		       (unsigned long long)st.st_ino);
	return cgroups_group_make(&s->cgroups, name, e);
}

/* Without limits one cell can take all of the machine's memory and processes. */
static int check_limits(const struct serve *s, struct err *e)
{
	if ((s->cgroups.limits & CELL_LIMIT_ALL) == CELL_LIMIT_ALL)
		return 0;
	if (!s->config.best_effort)
		return err_set(
			e, ERR_UNSUPPORTED,
			"cells cannot be limited here: %s. Start it %s, or set best_effort to "
			"continue without limits",
			s->cgroups.why, cgroups_advice(&s->cgroups, s->root));
	log_warn("limits of cells cannot be enforced", "reason=%s", s->cgroups.why);
	return 0;
}

/* Cells that a server of an earlier version made have directories in cpuacct, too. */
static int recall_cgroups(struct serve *s, int run)
{
	if (cgroups_recall(&s->cgroups, run, "cgroups"))
		return 0;
	cgroups_leave_out_cpuacct(&s->cgroups);
	return cgroups_recall(&s->cgroups, run, "cgroups") ? 0 : -1;
}

static int find_cgroups(struct serve *s, struct err *e)
{
	const struct cgroups_sums sums = { .memory_bytes = s->config.node_memory_limit,
					   .pids = s->config.node_pids_limit };
	OWN_FD run = open(s->config.run_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	bool bounded;

	if (run < 0)
		return err_sys(e, "open %s", s->config.run_dir);
	cgroups_find(&s->cgroups);
	cgroups_find_unified(&s->cgroups);
	if (check_limits(s, e) < 0)
		return -1;
	if (recall_cgroups(s, run) < 0 &&
	    (make_group(s, run, e) < 0 || cgroups_remember(&s->cgroups, run, "cgroups", e) < 0))
		return -1;
	if (cgroups_group_bound(&s->cgroups, &sums, &bounded, e) < 0)
		return -1;
	if (!bounded && (s->cgroups.limits & CELL_LIMIT_ALL) == CELL_LIMIT_ALL)
		log_warn("cells have no common limit of memory and processes", "reason=%s",
			 "the run folder is of an earlier version");
	if (!cgroups_group_hold(&s->cgroups))
		log_warn("another process has locked the cgroup of this server's cells",
			 "effect=%s", "cordon doctor may list them as cells of no server");
	cgroups_sweep(&s->cgroups);
	return 0;
}

/* Cells of an earlier server can be adopted only from the parent of their user namespace. */
static void find_userns(struct serve *s)
{
	char path[CONFIG_PATH_MAX + 16];
	struct dirent *d;
	struct err e;
	DIR *dir;

	s->userns = -1;
	if (!rootless_needed())
		return;
	(void)snprintf(path, sizeof(path), "%s/cells", s->config.run_dir);
	dir = opendir(path);
	while (dir != NULL && s->userns < 0 && (d = readdir(dir)) != NULL) {
		struct sockaddr_un a = { .sun_family = AF_UNIX };
		struct ucred who;
		socklen_t len = sizeof(who);
		OWN_FD sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

		(void)snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/%.60s", dirfd(dir),
			       d->d_name);
		if (sock >= 0 && connect(sock, (const struct sockaddr *)&a, sizeof(a)) == 0 &&
		    getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0)
			IGNORED(rootless_open(who.pid, true, &s->userns, &e), "try the next");
	}
	if (dir != NULL)
		(void)closedir(dir);
}

int serve_write_setup(struct serve *s, struct err *e)
{
	OWN_FD fd = memfd_create("setup", MFD_CLOEXEC);

	if (fd < 0)
		return err_sys(e, "memfd");
	if (io_write_all(fd, &s->setup, sizeof(s->setup), e) < 0)
		return -1;
	io_close_all(&s->setup_fd, 1);
	s->setup_fd = TAKE_FD(fd);
	return 0;
}

static int write_memfds(struct serve *s, struct err *e)
{
	s->setup.version = SERVE_VERSION;
	s->setup.nkeepers = (uint32_t)s->config.keepers;
	s->setup.negress = (uint32_t)s->config.egress_processes;
	s->setup.cgroup_version = (uint32_t)s->cgroups.version;
	s->setup.limits = s->cgroups.limits;
	memcpy(s->setup.no_limits_why, s->cgroups.why, sizeof(s->setup.no_limits_why));
	s->setup_fd = -1;
	s->config_fd = memfd_create("config", MFD_CLOEXEC);
	if (s->config_fd < 0)
		return err_sys(e, "memfd");
	if (config_write(&s->config, s->config_fd, e) < 0)
		return -1;
	return serve_write_setup(s, e);
}

int serve_prepare(struct serve *s, struct err *e)
{
	log_setup((enum log_format)s->config.log_format, (enum log_level)s->config.log_level);
	s->root = getuid() == 0;
	(void)umask(022);
	raise_nofile(s);
	serve_defaults(&s->config);
	if (root_check(e) < 0 || find_users(s, e) < 0 ||
	    make_folder(s, "state_dir", s->config.state_dir, e) < 0 ||
	    make_folder(s, "run_dir", s->config.run_dir, e) < 0 ||
	    (s->root && (serve_folder_check(s, "state_dir", s->config.state_dir, e) < 0 ||
			 serve_folder_check(s, "run_dir", s->config.run_dir, e) < 0)) ||
	    lock_run(s, e) < 0 || serve_listen(s, e) < 0)
		return -1;
	if (serve_tls(s, e) < 0 || role_egress_check(s, e) < 0 || serve_network(s, e) < 0 ||
	    serve_secrets(s, e) < 0 || find_cgroups(s, e) < 0)
		return -1;
	find_userns(s);
	if (open_host(s, e) < 0 || open_template_dir(s, e) < 0 || open_storage_dir(s, e) < 0 ||
	    open_mount_roots(s, e) < 0)
		return -1;
	if (serve_levels(s, e) < 0)
		return -1;
	serve_own_folders(s);
	warn_nofile(s);
	return write_memfds(s, e);
}
