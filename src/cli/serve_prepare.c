/* serve_prepare.c - what cordon serve finds, makes and opens before it starts any program: users,
 * folders, locks, sockets, cgroups, templates. Every error here ends the server with one message.
 */
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
#include <dirent.h>

#include "authority_make.h"
#include "cgroups_group.h"
#include "io.h"
#include "log.h"
#include "mount_source.h"
#include "root_check.h"
#include "nofile.h"
#include "rootless.h"
#include "serve.h"

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

/* The user of cordon-cache. A machine that was set up before there was one has none of the usual
 * name: then it is the user of cordon-egress, which can open no files. */
static int find_cache_user(struct serve *s, struct err *e)
{
	const char *name = s->config.cache_user;
	char usual[CONFIG_NAME_MAX] = "cordon-cache";

	if (s->config.user[0] >= '1' && s->config.user[0] <= '9')
		(void)snprintf(usual, sizeof(usual), "%u", s->uid + 2);
	if (name[0] == '\0' &&
	    find_user("cache_user", usual, &s->cache_uid, &s->cache_gid, e) < 0) {
		s->cache_uid = s->egress_uid;
		s->cache_gid = s->egress_gid;
		return 0;
	}
	if (name[0] != '\0' && find_user("cache_user", name, &s->cache_uid, &s->cache_gid, e) < 0)
		return -1;
	if (s->cache_uid == s->uid)
		return err_set(e, ERR_INVALID, "cache_user: '%s' is the same as user", name);
	return 0;
}

/* Finds the users that cordond, cordon-egress and cordon-cache run as. Without root: the caller's.
 */
static int find_users(struct serve *s, struct err *e)
{
	char usual[CONFIG_NAME_MAX] = "cordon-net";
	const char *name = s->config.egress_user[0] == '\0' ? usual : s->config.egress_user;

	s->uid = s->egress_uid = s->cache_uid = getuid();
	s->gid = s->egress_gid = s->cache_gid = getgid();
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
	return find_cache_user(s, e);
}

/* Raises the limit of descriptors: cordond holds a few for each session. Cells may have as many as
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

/* Makes a folder and those above it; only cordond may use the last one. */
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
	/* A supervisor that was killed while it started a child leaves the lock to the child for a
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
	for (uint32_t i = 0; i < t->nlayers; i++)
		if (add_root(s, s->template.fds[i], KEEPER_ROOT_LAYER, &t->roots[i], e) < 0)
			return -1;
	return 0;
}

/* A folder that is the setting, or `usual` in the state folder. Only the user that starts the
 * server may change it, and no other user may reach what is in it. */
static int open_private(const struct serve *s, const char *name, const char *setting,
			const char *usual, char *ret_path, int *ret_fd, struct err *e)
{
	struct stat st;

	if (setting[0] != '\0')
		(void)snprintf(ret_path, CELL_PATH_MAX, "%s", setting);
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
		(void)snprintf(s->setup.roots[i].path, CELL_PATH_MAX, "%s", r->path);
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
			s->cgroups.why,
			s->root ? "where cgroups with cpu, memory and pids are writable"
				: "inside `systemd-run --user --scope -p Delegate=yes`");
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

static int write_memfds(struct serve *s, struct err *e)
{
	s->setup.version = SERVE_VERSION;
	s->setup.nkeepers = (uint32_t)s->config.keepers;
	s->setup.negress = (uint32_t)s->config.egress_processes;
	s->setup.cgroup_version = (uint32_t)s->cgroups.version;
	s->setup.limits = s->cgroups.limits;
	memcpy(s->setup.no_limits_why, s->cgroups.why, sizeof(s->setup.no_limits_why));
	s->config_fd = memfd_create("config", MFD_CLOEXEC);
	s->setup_fd = memfd_create("setup", MFD_CLOEXEC);
	if (s->config_fd < 0 || s->setup_fd < 0)
		return err_sys(e, "memfd");
	if (config_write(&s->config, s->config_fd, e) < 0)
		return -1;
	return io_write_all(s->setup_fd, &s->setup, sizeof(s->setup), e);
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
	serve_cache(s);
	warn_nofile(s);
	return write_memfds(s, e);
}
