#include "storage/layer_make.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "storage/storage_jail.h"
#include "storage/tree_remove.h"

#ifdef __SANITIZE_ADDRESS__ /* its shadow memory counts, too */
#define WORKER_MEMORY RLIM_INFINITY
#else
#define WORKER_MEMORY (1ULL << 30)
#endif
#define ROOT_PLACE "0"

/* The message that a worker writes into its pipe at its end. */
struct outcome {
	struct storage_reply reply;
	struct err err;
};

/* One run of layer_make(), in the runner and in its worker. `top` is the new directory, under its
 * temporary name. */
struct layer_making {
	const struct layer_make *m;
	int layers, top;
	int lower[STORAGE_STACK_MAX]; /* owned */
	unsigned nlower;
	char temporary[64];
};

/* k->nlower counts the descriptors to close, also after an error. */
static int layer_open_lower(struct layer_making *k, struct err *e)
{
	for (; k->nlower < k->m->nlower; k->nlower++) {
		int fd = openat(k->layers, k->m->lower[k->nlower],
				O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (fd < 0)
			return err_set(e, ERR_NOT_FOUND, "layer %.60s is not there",
				       k->m->lower[k->nlower]);
		k->lower[k->nlower] = fd;
	}
	return 0;
}

static bool layer_is_same(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev;
}

/* A removal takes the name of a layer first. So data read from layers that still have their names
 * was whole. */
static int layer_check_lower(const struct layer_making *k, struct err *e)
{
	for (unsigned i = 0; i < k->nlower; i++) {
		struct stat now, then;

		if (fstat(k->lower[i], &then) < 0 ||
		    fstatat(k->layers, k->m->lower[i], &now, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !layer_is_same(&now, &then))
			return err_set(e, ERR_NOT_FOUND, "layer %.60s is not there any more",
				       k->m->lower[i]);
	}
	return 0;
}

/* ---- the worker */

/* After this the worker reaches only the new layer, the lower ones and m->read. */
static int layer_confine(const struct layer_making *k, struct err *e)
{
	const struct storage_worker_dirs dirs = { .dir = k->top,
						  .lower = k->lower,
						  .nlower = k->nlower,
						  .links = k->m->links,
						  .read = k->m->read,
						  .nread = k->m->nread };

	return storage_jail_confine_worker(&dirs, e);
}

/* The memory limit stops an archive that makes the worker grow. Every result, also an error, goes
 * through the pipe. */
static void NORETURN run_worker(const struct layer_making *k, int result)
{
	const struct rlimit memory = { WORKER_MEMORY, WORKER_MEMORY }, none = { 0, 0 };
	struct outcome o = { 0 };
	struct err e;

	fd_close(STORAGE_FD_DIR); /* the lock, which the other processes hold */
	if (setrlimit(RLIMIT_AS, &memory) < 0 || setrlimit(RLIMIT_CORE, &none) < 0)
		(void)err_sys(&o.err, "limits");
	else if (layer_confine(k, &o.err) == 0 &&
		 k->m->work(k->m->arg, k->top, k->lower, &o.reply, &o.err) == 0)
		o.err.code = ERR_NONE;
	_exit(io_write_all(result, &o, sizeof(o), &e) < 0);
}

/* The worker has handled untrusted bytes, so its message is cleaned. A worker that was killed
 * leaves a short message. */
static int layer_read_outcome(int result, struct outcome *ret, struct err *e)
{
	size_t got = 0;
	ssize_t n;

	while (got < sizeof(*ret)) {
		n = read(result, (char *)ret + got, sizeof(*ret) - got);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_set(e, ERR_SYSTEM, "the worker ended before it was done");
		got += (size_t)n;
	}
	if (ret->err.code == ERR_NONE)
		return 0;
	err_sanitize(&ret->err);
	*e = ret->err;
	return -1;
}

/* Fork the worker and wait for it. Of its answer only three members are taken over. */
static int layer_work(const struct layer_making *k, struct storage_reply *reply, struct err *e)
{
	struct outcome o;
	int ends[2], result;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	OWN_FD from = ends[0];
	OWN_FD to = ends[1];
	pid = fork();
	if (pid < 0)
		return err_sys(e, "fork");
	if (pid == 0) {
		fd_close(TAKE_FD(from));
		run_worker(k, to);
	}
	fd_close(TAKE_FD(to));
	result = layer_read_outcome(from, &o, e);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	if (result < 0)
		return -1;
	reply->bytes = o.reply.bytes;
	reply->entries = o.reply.entries;
	memcpy(reply->sha256, o.reply.sha256, sizeof(reply->sha256));
	return 0;
}

/* ---- the layer */

/* The layer's content is on disk before its name. The folder is synced last, so that cordond may
 * record the layer. */
static int layer_finish(const struct layer_making *k, struct err *e)
{
	if ((k->m->synced ? fsync(k->top) : syncfs(k->top)) < 0)
		return storage_ops_fail(e, "write the layer to disk");
	if (renameat2(k->layers, k->temporary, k->layers, k->m->id, RENAME_NOREPLACE) < 0)
		return errno == EEXIST
			       ? err_set(e, ERR_CONFLICT, "there is a layer %.60s", k->m->id)
			       : storage_ops_fail(e, "rename the layer");
	return fsync(k->layers) < 0 ? storage_ops_fail(e, "write the folder of layers to disk") : 0;
}

/* keep is false for layer_make_nothing(). A taken id is refused before any work. */
static int layer_make_in(struct layer_making *k, struct storage_run *run, bool keep, struct err *e)
{
	int result;

	if (keep && faccessat(k->layers, k->m->id, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return err_set(e, ERR_CONFLICT, "there is a layer %.60s", k->m->id);
	if (layer_open_lower(k, e) < 0)
		return -1;
	result = layer_work(k, run->reply, e);
	/* If one has gone, the worker failed for this reason. */
	if (layer_check_lower(k, e) < 0 || result < 0)
		return -1;
	return keep ? layer_finish(k, e) : 0;
}

/* The temporary name contains the job's serial number. storage_ops_clean() finds it by that number
 * after a kill. */
static int layer_make_any(struct storage_run *run, const struct layer_make *m, bool keep,
			  struct err *e)
{
	OWN_FD layers = storage_ops_open_layers(e);
	struct layer_making k = { .m = m, .layers = layers };
	struct err unused;
	int result;

	if (layers < 0)
		return -1;
	(void)snprintf(k.temporary, sizeof(k.temporary), STORAGE_NEW "%llu",
		       (unsigned long long)run->serial);
	if (mkdirat(layers, k.temporary, 0700) < 0)
		return storage_ops_fail(e, "make a directory");
	OWN_FD top = openat(layers, k.temporary, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (top < 0)
		return err_sys(e, "open a new directory");
	k.top = top;
	result = layer_make_in(&k, run, keep, e);
	if (result < 0 || !keep)
		IGNORED(tree_remove(layers, k.temporary, &unused), "removed at the next start");
	io_close_all(k.lower, k.nlower);
	return result;
}

int layer_make(struct storage_run *run, const struct layer_make *m, struct err *e)
{
	return layer_make_any(run, m, true, e);
}

int layer_make_nothing(struct storage_run *run, const struct layer_make *m, struct err *e)
{
	return layer_make_any(run, m, false, e);
}

/* The descriptors stay open until the worker exits. */
int layer_make_root(int top, const int *lower, unsigned nlower, int *ret_lower, struct err *e)
{
	int fd;

	for (unsigned i = 0; i < nlower; i++) {
		ret_lower[i] = openat(lower[i], ROOT_PLACE,
				      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (ret_lower[i] < 0)
			return err_sys(e, "open a lower layer");
	}
	if (mkdirat(top, ROOT_PLACE, 0755) < 0)
		return storage_ops_fail(e, "make a directory");
	fd = openat(top, ROOT_PLACE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open a new directory") : fd;
}
