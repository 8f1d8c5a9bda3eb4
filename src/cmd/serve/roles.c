/* roles.c - the table of programs that cordon serve runs, and the start of each. See supervisor.h
 * for the columns.
 *
 * Every program but cordond and cordon-egress gets one end of a channel of its own, and cordond the
 * other end. Such a program ends when that channel closes, so it ends with the cordond for which it
 * was started. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cell/cellctl/rootless.h"
#include "cmd/base/egress_start.h"
#include "cmd/serve/supervisor.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/own.h"
#include "lib/base/str.h"
#include "lib/wire/storage_msg.h"

static struct role_identity role_identity(const struct serve *s, const struct role *r)
{
	if (!s->root || r->user == ROLE_PRIVILEGED)
		return (struct role_identity){ .drop = false };
	if (r->user == ROLE_EGRESS_USER)
		return (struct role_identity){ true, s->egress_uid, s->egress_gid };
	if (r->user == ROLE_CACHE_USER)
		return (struct role_identity){ true, s->cache_uid, s->cache_gid };
	if (r->user == ROLE_NOTARY_USER)
		return (struct role_identity){ true, s->notary_uid, s->notary_gid };
	return (struct role_identity){ true, s->uid, s->gid };
}

static struct file_stamp stamp_of(const struct stat *st)
{
	return (struct file_stamp){ .device = st->st_dev,
				    .file = st->st_ino,
				    .size = st->st_size,
				    .s = st->st_mtim.tv_sec,
				    .ns = st->st_mtim.tv_nsec };
}

static bool is_same(const struct file_stamp *a, const struct file_stamp *b)
{
	return a->device == b->device && a->file == b->file && a->size == b->size && a->s == b->s &&
	       a->ns == b->ns;
}

/* ---- cordond: as the server's user, with the listeners, the cgroup directories it may read, the
 * configuration and the control socket, at the numbers of supervisor_msg.h. Channels to the other
 * programs follow over the control socket. */

static int role_cordond_start(struct supervisor *v, struct worker *w, int control, struct err *e)
{
	const struct serve *s = v->s;
	const struct role_identity who = role_identity(s, w->role);
	int fds[SERVE_FD_LISTEN + SERVE_LISTENERS_MAX - SERVE_FD_CONTROL];
	size_t n = SERVE_FD_LISTEN - SERVE_FD_CONTROL;

	fds[SERVE_FD_CONTROL - SERVE_FD_CONTROL] = control;
	fds[SERVE_FD_CONFIG - SERVE_FD_CONTROL] = s->config_fd;
	fds[SERVE_FD_SETUP - SERVE_FD_CONTROL] = s->setup_fd;
	for (int i = 0; i < CELL_CGROUP_DIRS; i++)
		fds[SERVE_FD_CGROUP - SERVE_FD_CONTROL + i] = s->cgroups.dirs[i];
	fds[SERVE_FD_CERT - SERVE_FD_CONTROL] = s->cert_fd;
	fds[SERVE_FD_KEY - SERVE_FD_CONTROL] = s->key_fd;
	fds[SERVE_FD_SECRETS - SERVE_FD_CONTROL] = s->secrets_fd;
	for (int i = 0; i < SERVE_LEVEL_FILES; i++)
		fds[SERVE_FD_LEVELS - SERVE_FD_CONTROL + i] = s->levels.files[i];
	for (uint32_t i = 0; i < s->setup.nlisteners; i++)
		fds[n++] = s->listeners[i];
	return child_process_start(&(struct child_process_start){ .name = w->role->program,
								  .fds = fds,
								  .nfds = n,
								  .drop = who.drop,
								  .uid = who.uid,
								  .gid = who.gid },
				   &w->child.pid, e);
}

/* ---- advisories
 *
 * Each cordon-egress gets the list of known malicious packages (lib/packages/advisories.h) when it
 * starts, and again whenever the file in the state directory has changed.
 *
 * The program has no files, so it gets a descriptor, as for resolv.conf. The list is long and is
 * read through a mapping. So it is copied once into sealed memory that all processes share, and no
 * process can cut it short below another. The file is an operator's, but its directory may belong
 * to the server's user, so the path may lead to anything. */

#define ADVISORIES_LOOK_MS 5000
#define ADVISORIES_MAX (256LL << 20)

/* The last copied file. An absent one has a stamp of zeroes. */
static struct {
	struct file_stamp stamp;
	int fd; /* owned. -1: none, or an empty one is to be sent */
} advisories = { .fd = -1 };

static int roles_copy(int from, int to, off_t size)
{
	while (size > 0) {
		ssize_t n = sendfile(to, from, NULL, (size_t)size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		size -= n;
	}
	return fcntl(to, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

/* A sealed copy, empty without a file. -1: it cannot be made. */
static int make_copy(const char *path, struct file_stamp *ret)
{
	OWN_FD file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	OWN_FD to = memfd_create("advisories", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct stat st = { 0 };

	*ret = (struct file_stamp){ 0 };
	if (file >= 0 && fstat(file, &st) == 0 && S_ISREG(st.st_mode) &&
	    st.st_size <= ADVISORIES_MAX)
		*ret = stamp_of(&st);
	if (to < 0 || roles_copy(file, to, ret->size) < 0)
		return -1;
	return TAKE_FD(to);
}

/* The list as it is now, copied again only if the file has changed. */
static int roles_current(const char *path)
{
	struct stat st;
	struct file_stamp now = { 0 };

	if (lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= ADVISORIES_MAX)
		now = stamp_of(&st);
	if (advisories.fd >= 0 && is_same(&now, &advisories.stamp))
		return advisories.fd;
	fd_close(advisories.fd);
	advisories.fd = make_copy(path, &advisories.stamp);
	if (advisories.fd < 0)
		log_warn("the list of advisories cannot be copied", "path=%s", path);
	return advisories.fd;
}

static uint64_t role_advisories_look(struct supervisor *v, struct worker *w)
{
	const char word = EGRESS_CONTROL_ADVISORIES;
	uint64_t now = clock_now_ns();
	char path[256];
	struct err e;
	int fd;

	if (w->control < 0)
		return UINT64_MAX;
	if (now < w->list_ns)
		return w->list_ns;
	w->list_ns = now + ADVISORIES_LOOK_MS * CLOCK_MS;
	(void)snprintf(path, sizeof(path), "%.200s/advisories", v->s->config.state_dir);
	fd = roles_current(path);
	if (fd < 0 || is_same(&w->list, &advisories.stamp))
		return w->list_ns;
	if (io_send(w->control, &word, 1, &fd, 1, &e) < 0)
		log_warn("cannot send the list of advisories", "error=%s", e.msg);
	else
		w->list = advisories.stamp;
	return w->list_ns;
}

/* A new process has no list. */
static void role_advisories_forget(struct worker *w)
{
	w->list = (struct file_stamp){ 0 };
	w->list_ns = 0;
}

/* ---- cordon-egress
 *
 * Runs as a user of its own, with the authorities and the resolver settings of the node. It and
 * cordond are independent of each other: whichever of the two is new, a new channel C is made and
 * each gets an end of it. While it runs, it gets resolv.conf and hosts again whenever one of them
 * has changed. A process of cordon-egress knows only how many others there are. */

#define NAMES_LOOK_MS 5000

int role_egress_check(const struct serve *s, struct err *e)
{
	const char *ca = s->config.egress_ca;

	if (ca[0] != '\0' && access(ca, R_OK) < 0)
		return err_sys(e, "egress_ca: %s", ca);
	return 0;
}

static struct file_stamp roles_stamp(const char *path)
{
	struct stat st;

	return stat(path, &st) < 0 ? (struct file_stamp){ 0 } : stamp_of(&st);
}

/* Called before the files are read, so that a change in between is seen at the next look. */
static bool renew_stamps(struct worker *w)
{
	const struct file_stamp now[2] = { roles_stamp("/etc/resolv.conf"),
					   roles_stamp("/etc/hosts") };
	bool changed = false;

	for (size_t i = 0; i < COUNT(now); i++) {
		changed = changed || !is_same(&w->stamps[i], &now[i]);
		w->stamps[i] = now[i];
	}
	w->look_ns = clock_now_ns() + NAMES_LOOK_MS * CLOCK_MS;
	return changed;
}

static int role_egress_start(struct supervisor *v, struct worker *w, int control, struct err *e)
{
	const struct serve *s = v->s;
	const struct role_identity who = role_identity(s, w->role);

	(void)renew_stamps(w);
	role_advisories_forget(w);
	return egress_start(&(struct egress_start){ .control = control,
						    .channel = -1,
						    .authority = s->authority_fd,
						    .ca = s->config.egress_ca,
						    .log_format = s->config.log_format,
						    .log_level = s->config.log_level,
						    .processes = s->setup.negress,
						    .drop = who.drop,
						    .uid = who.uid,
						    .gid = who.gid },
			    &w->child.pid, e);
}

static int role_egress_join(struct supervisor *v, struct worker *w, struct err *e)
{
	const char word = EGRESS_CONTROL_CHANNEL;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return err_sys(e, "channel C");
	OWN_FD daemon_end = ends[0], egress_end = ends[1];
	/* Before the first session: none may install a refused package. */
	role_advisories_forget(w);
	(void)role_advisories_look(v, w);
	if (io_send(w->control, &word, 1, &egress_end, 1, e) < 0)
		return err_wrap(e, "channel C");
	return supervisor_give(v, w, SERVE_EGRESS, daemon_end, e) < 0 ? err_wrap(e, "channel C")
								      : 0;
}

static uint64_t role_egress_look(struct supervisor *v, struct worker *w)
{
	const char word = EGRESS_CONTROL_NAMES;
	int fds[2];
	struct err e;

	if (w->control < 0)
		return UINT64_MAX;
	if (clock_now_ns() < w->look_ns || !renew_stamps(w))
		return w->look_ns;
	egress_start_names(fds);
	if (io_send(w->control, &word, 1, fds, 2, &e) < 0)
		log_warn("cannot send resolv.conf and hosts to a program", "program=%s error=%s",
			 w->role->program, e.msg);
	io_close_all(fds, 2);
	return w->look_ns;
}

/* cordon-egress alone: the same, and the list of advisories. */
static uint64_t role_egress_look_all(struct supervisor *v, struct worker *w)
{
	uint64_t names = role_egress_look(v, w), list = role_advisories_look(v, w);

	return names < list ? names : list;
}

/* ---- cordon-pull: as the user of cordon-egress, with the authorities and the resolver settings of
 * the node. While it runs, it gets resolv.conf and hosts again whenever one of them has changed
 * (role_egress_look()). */

static int role_pull_start(struct supervisor *v, struct worker *w, int control, struct err *e)
{
	const struct serve *s = v->s;
	const struct role_identity who = role_identity(s, w->role);
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return err_sys(e, "channel of cordon-pull");
	OWN_FD daemon_end = ends[0], pull_end = ends[1];
	if (egress_start(&(struct egress_start){ .program = w->role->program,
						 .control = control,
						 .channel = pull_end,
						 .authority = -1,
						 .ca = s->config.egress_ca,
						 .log_format = s->config.log_format,
						 .log_level = s->config.log_level,
						 .processes = 1,
						 .drop = who.drop,
						 .uid = who.uid,
						 .gid = who.gid },
			 &w->child.pid, e) < 0)
		return -1;
	return supervisor_give(v, w, SERVE_PULL, daemon_end, e);
}

/* ---- cordon-cache: as a user of its own, with its folder. The server works without it. */

/* Files may be as small as this on average before their number is the limit. */
#define BYTES_PER_FILE 16384
#define FILES_MIN 4096
#define FILES_MAX 400000

static int role_cache_start(struct supervisor *v, struct worker *w, int control, struct err *e)
{
	const struct serve *s = v->s;
	const struct role_identity who = role_identity(s, w->role);
	unsigned long long size = s->config.package_cache_size, files = size / BYTES_PER_FILE;
	char word[96];
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_sys(e, "channel of cordon-cache");
	OWN_FD daemon_end = ends[0], cache_end = ends[1];
	const int fds[CACHE_FDS_END - CACHE_FD_CHANNEL] = { cache_end, s->cache_fd };

	files = files < FILES_MIN ? FILES_MIN : files > FILES_MAX ? FILES_MAX : files;
	(void)snprintf(word, sizeof(word), "--start=%u:%u:%llu:%llu:%u", s->config.log_format,
		       s->config.log_level, size, files, (unsigned)s->config.storage_reserve);
	if (child_process_start(&(struct child_process_start){ .name = w->role->program,
							       .word = word,
							       .fds = fds,
							       .nfds = COUNT(fds),
							       .drop = who.drop,
							       .uid = who.uid,
							       .gid = who.gid },
				&w->child.pid, e) < 0)
		return err_wrap(e, "start cordon-cache");
	return supervisor_give(v, w, SERVE_CACHE, daemon_end, e);
}

/* ---- cordon-notary: as a user of its own, with its folder. Without it no checkpoint is signed. */

static int role_notary_start(struct supervisor *v, struct worker *w, int control, struct err *e)
{
	const struct serve *s = v->s;
	const struct role_identity who = role_identity(s, w->role);
	char word[32];
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return err_sys(e, "channel of cordon-notary");
	OWN_FD daemon_end = ends[0], notary_end = ends[1];
	const int fds[NOTARY_FDS_END - NOTARY_FD_CHANNEL] = { notary_end, s->notary_fd };

	(void)snprintf(word, sizeof(word), "--start=%u:%u", s->config.log_format,
		       s->config.log_level);
	if (child_process_start(&(struct child_process_start){ .name = w->role->program,
							       .word = word,
							       .fds = fds,
							       .nfds = COUNT(fds),
							       .drop = who.drop,
							       .uid = who.uid,
							       .gid = who.gid },
				&w->child.pid, e) < 0)
		return err_wrap(e, "start cordon-notary");
	return supervisor_give(v, w, SERVE_NOTARY, daemon_end, e);
}

/* ---- cordon-storage: with the supervisor's rights, which it gives up itself, and the storage
 * folder. For a rootless server it runs in the user namespace of the keepers, whose ids are those
 * of files in layers. The first keeper has made that namespace, so cordon-storage starts later. */

static int role_storage_start(struct supervisor *v, struct worker *w, int control, struct err *e)
{
	const struct serve *s = v->s;
	char word[24];
	int ends[2], fds[STORAGE_FDS_END - STORAGE_FD_CHANNEL], found = -1;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_sys(e, "channel D");
	OWN_FD daemon_end = ends[0], storage_end = ends[1];
	fds[STORAGE_FD_CHANNEL - STORAGE_FD_CHANNEL] = storage_end;
	fds[STORAGE_FD_DIR - STORAGE_FD_CHANNEL] = s->storage_fd;
	fds[STORAGE_FD_AUTHORITY - STORAGE_FD_CHANNEL] = s->certificate_fd;
	fds[STORAGE_FD_TEMPLATES - STORAGE_FD_CHANNEL] = s->roots[s->setup.template_root].fd;
	if (host_roots_open(&found, e) < 0)
		return -1;
	OWN_FD roots = found;
	fds[STORAGE_FD_HOST - STORAGE_FD_CHANNEL] = roots;
	for (unsigned i = 1; i < STORAGE_HOST_MAX; i++)
		fds[STORAGE_FD_HOST - STORAGE_FD_CHANNEL + i] =
			i < s->template.nlayers ? s->template.fds[i] : -1;
	(void)snprintf(word, sizeof(word), "--start=%u:%u", s->config.log_format,
		       s->config.log_level);
	if (child_process_start(&(struct child_process_start){ .name = w->role->program,
							       .word = word,
							       .fds = fds,
							       .nfds = COUNT(fds),
							       .userns = s->userns },
				&w->child.pid, e) < 0)
		return err_wrap(e, "start cordon-storage");
	return supervisor_give(v, w, SERVE_STORAGE, daemon_end, e);
}

/* ---- cordon-keeper: with the supervisor's rights. It drops those that it does not need.
 *
 * All keepers of a rootless server share one user namespace, so that each can destroy, freeze and
 * look into the cells of the others and of those before them. The namespace is the first keeper's,
 * and can be opened only when that keeper has entered it. The others start after that. */

#define USERNS_LOOK_MS 10

static bool lacks_userns(const struct supervisor *v)
{
	return v->s->userns < 0 && rootless_needed();
}

/* Whether programs that need the keepers' user namespace can start. */
static bool role_keeper_has_userns(const struct supervisor *v, const struct worker *w)
{
	return !lacks_userns(v);
}

static bool role_keeper_can_start(const struct supervisor *v, const struct worker *w)
{
	return w->slot == 0 || !lacks_userns(v);
}

static int role_keeper_start(struct supervisor *v, struct worker *w, int control, struct err *e)
{
	struct keeper_start k = { .userns = v->s->userns,
				  .cgroups = &v->s->cgroups,
				  .serve = true,
				  .engines = true,
				  .nroots = v->s->nroots,
				  .roots = v->s->roots };
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_sys(e, "channel A");
	OWN_FD daemon_end = ends[0], keeper_end = ends[1];
	k.client_end = daemon_end;
	k.keeper_end = keeper_end;
	if (keeper_client_spawn(&k, &w->child.pid, e) < 0)
		return err_wrap(e, "start cordon-keeper");
	return supervisor_give(v, w, SERVE_KEEPER, daemon_end, e);
}

/* ---- the template "host"
 *
 * Notices that the machine's packages have changed, and gives new sessions the present template
 * "host". Called through the first keeper's look.
 *
 * /usr of that template is the machine's own, its /etc a copy (cell/template/host.c). After an
 * installation the two would not belong together. So every HOST_LOOK_MS the copied files, and the
 * databases of package managers, are compared by their times and sizes. When they have changed, but
 * not since the last look (an installation takes a while), the copy is made again under another
 * name. Live cells keep their copy. The keepers are replaced by new ones with the new directory.
 * cordond is told to make a new version of the template, which ends the cells made in advance. With
 * the message comes the name of the new directory, which cordon-storage takes for root images and
 * folds from then on, and the size of such images. A child process looks for that before, because
 * it reads all directories of /usr. */

#define HOST_LOOK_MS 2000
#define HOST_SIZE_MS 60000

static bool is_keeper(const struct worker *w)
{
	return w->role->start == role_keeper_start;
}

/* The layers have the same numbers among the keepers' roots as before. */
static int take_template(struct serve *s, struct err *e)
{
	struct template now;

	if (template_open("host", &s->authority, &now, e) < 0)
		return -1;
	if (now.nlayers != s->template.nlayers) {
		template_release(&now);
		return err_set(e, ERR_UNSUPPORTED, "the machine has other top directories");
	}
	for (uint32_t i = 0; i < now.nlayers; i++)
		s->roots[s->setup.host.roots[i]].fd = now.fds[i];
	template_release(&s->template);
	s->template = now;
	str_copy(s->setup.host.name, now.name);
	return serve_write_setup(s, e);
}

static void roles_renew(struct supervisor *v)
{
	struct err e;

	if (take_template(v->s, &e) < 0) {
		log_error("the template host stays as it was, although packages have changed; a "
			  "restart of the server makes it again",
			  "error=%s", e.msg);
		return;
	}
	log_info("packages of the machine have changed: new sessions have them", "template=%s",
		 "host");
	for (unsigned i = 0; i < v->nworkers; i++)
		if (is_keeper(&v->workers[i]) && v->workers[i].child.pid != 0) {
			(void)kill(v->workers[i].child.pid, SIGKILL);
			child_process_plan_again(&v->workers[i].child);
		}
	v->host.tell = true;
}

/* When all keepers are new ones: what cordond asks for then is made of the new directory. */
static void roles_tell(struct supervisor *v)
{
	struct serve_host_changed message = { .word = SERVE_HOST, .bytes = v->s->setup.host.bytes };
	struct err e;

	str_copy(message.name, v->s->setup.host.name);
	for (unsigned i = 0; i < v->nworkers; i++)
		if (is_keeper(&v->workers[i]) && v->workers[i].child.pid == 0)
			return;
	if (v->daemon->control >= 0 &&
	    io_send(v->daemon->control, &message, sizeof(message), NULL, 0, &e) == 0)
		v->host.tell = false;
}

/* ---- the size of its root images */

static void NORETURN measure_in_child(const struct serve *s, int to)
{
	uint64_t bytes;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		_exit(1);
	bytes = serve_host_size(s);
	_exit(write(to, &bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes) ? 0 : 1);
}

/* False: there is no child, and the size stays as it was. */
static bool roles_measure(struct supervisor *v)
{
	int ends[2];
	pid_t pid;

	if (!v->s->levels.states[CELL_MICROVM].is_possible ||
	    pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return false;
	OWN_FD ours = ends[0], its = ends[1];
	pid = fork();
	if (pid == 0)
		measure_in_child(v->s, its);
	if (pid < 0)
		return false;
	v->host.measures = pid;
	v->host.size = TAKE_FD(ours);
	v->host.late_ns = clock_now_ns() + HOST_SIZE_MS * CLOCK_MS;
	return true;
}

/* The child has ended, or is late. Its end wakes the supervisor up, which reaps it. */
static bool is_measured(struct supervisor *v)
{
	uint64_t bytes;
	ssize_t n = read(v->host.size, &bytes, sizeof(bytes));

	if (n < 0 && errno == EAGAIN) {
		if (clock_now_ns() < v->host.late_ns)
			return false;
		(void)kill(v->host.measures, SIGKILL);
	}
	if (n == (ssize_t)sizeof(bytes))
		v->s->setup.host.bytes = bytes;
	else
		log_warn("the size of the template host is not known again", "");
	io_close_all(&v->host.size, 1);
	v->host.measures = 0;
	return true;
}

/* Look if it is time to. Return when it wants to be called again. */
static uint64_t host_watch_look(struct supervisor *v)
{
	uint64_t now = clock_now_ns(), stamp;

	if (v->host.tell)
		roles_tell(v);
	if (v->host.measures != 0) {
		if (!is_measured(v))
			return v->host.late_ns;
		roles_renew(v);
		return now; /* for the start of the first keeper */
	}
	if (now < v->host.look_ns)
		return v->host.look_ns;
	stamp = host_stamp(&v->s->authority);
	if (v->host.look_ns == 0) {
		v->host.stamp = stamp;
	} else if (stamp != v->host.stamp && stamp == v->host.seen) {
		v->host.stamp = stamp;
		if (!roles_measure(v))
			roles_renew(v);
	}
	v->host.seen = stamp;
	v->host.look_ns = now + HOST_LOOK_MS * CLOCK_MS;
	return v->host.tell ? now : v->host.look_ns;
}

static uint64_t role_keeper_look(struct supervisor *v, struct worker *w)
{
	struct err e;

	if (w->slot != 0)
		return UINT64_MAX;
	if (!lacks_userns(v))
		return host_watch_look(v);
	IGNORED(rootless_open(w->child.pid, false, &v->s->userns, &e), "asked again soon");
	return v->s->userns >= 0 ? clock_now_ns() : clock_now_ns() + USERNS_LOOK_MS * CLOCK_MS;
}

/* ---- the table */

static unsigned roles_one(const struct serve *s)
{
	return 1;
}

static unsigned roles_keepers(const struct serve *s)
{
	return s->setup.nkeepers;
}

/* None, if there is to be no cache. */
static unsigned roles_caches(const struct serve *s)
{
	return s->cache_fd >= 0 ? 1 : 0;
}

/* None, if its folder cannot be used. */
static unsigned roles_notaries(const struct serve *s)
{
	return s->notary_fd >= 0 ? 1 : 0;
}

static unsigned egress_processes(const struct serve *s)
{
	return s->setup.negress;
}

const struct role supervisor_roles[] = {
	{ .program = "cordond",
	  .user = ROLE_SERVER_USER,
	  .has_control = true,
	  .count = roles_one,
	  .start = role_cordond_start },
	{ .program = "cordon-egress",
	  .user = ROLE_EGRESS_USER,
	  .has_control = true,
	  .hung = SERVE_EGRESS_HUNG,
	  .count = egress_processes,
	  .start = role_egress_start,
	  .join = role_egress_join,
	  .look = role_egress_look_all },
	{ .program = "cordon-keeper",
	  .user = ROLE_PRIVILEGED,
	  .needs_daemon = true,
	  .hung = SERVE_KEEPER_HUNG,
	  .count = roles_keepers,
	  .can_start = role_keeper_can_start,
	  .start = role_keeper_start,
	  .look = role_keeper_look },
	{ .program = "cordon-storage",
	  .user = ROLE_PRIVILEGED,
	  .needs_daemon = true,
	  .hung = SERVE_STORAGE_HUNG,
	  .count = roles_one,
	  .can_start = role_keeper_has_userns,
	  .start = role_storage_start },
	{ .program = "cordon-pull",
	  .user = ROLE_EGRESS_USER,
	  .has_control = true,
	  .needs_daemon = true,
	  .hung = SERVE_PULL_HUNG,
	  .count = roles_one,
	  .start = role_pull_start,
	  .look = role_egress_look },
	{ .program = "cordon-cache",
	  .user = ROLE_CACHE_USER,
	  .needs_daemon = true,
	  .hung = SERVE_CACHE_HUNG,
	  .count = roles_caches,
	  .start = role_cache_start },
	{ .program = "cordon-notary",
	  .user = ROLE_NOTARY_USER,
	  .needs_daemon = true,
	  .hung = SERVE_NOTARY_HUNG,
	  .count = roles_notaries,
	  .start = role_notary_start },
};
const unsigned supervisor_nroles = COUNT(supervisor_roles);
