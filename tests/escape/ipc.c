/* ipc.c - other ways to reach a neighbour: sockets without a path, System V objects, message
 * queues, shared folders, control groups, the page cache. The host's canaries and those of a
 * sibling cell are really there while these rows run; both tell afterwards whether anybody touched
 * them. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static socklen_t unix_address(struct sockaddr_un *sa, const char *name, int abstract)
{
	size_t len = strlen(name);

	memset(sa, 0, sizeof(*sa));
	sa->sun_family = AF_UNIX;
	memcpy(sa->sun_path + abstract, name, len);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)abstract + len +
			   !abstract);
}

/* arg is the key of the name; num is the socket type. */
static const char *connect_abstract(const struct attack *a)
{
	struct sockaddr_un sa;
	socklen_t len = unix_address(&sa, world(a->arg), 1);
	int fd = socket(AF_UNIX, (int)a->num | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return answer_errno(errno);
	return answer(connect(fd, (struct sockaddr *)&sa, len));
}

static const char *connect_path(const struct attack *a)
{
	struct sockaddr_un sa;
	socklen_t len = unix_address(&sa, world(a->arg), 0);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return answer_errno(errno);
	if (connect(fd, (struct sockaddr *)&sa, len) == 0)
		return "done";
	return answer_path(-1);
}

static const char *shm_by_key(const struct attack *a)
{
	return answer(shmget((key_t)world_num(a->arg), 0, 0));
}

static const char *shm_by_id(const struct attack *a)
{
	void *p = shmat((int)world_num(a->arg), NULL, SHM_RDONLY);

	return p == (void *)-1 ? answer_errno(errno) : "done";
}

static const char *remove_shm(const struct attack *a)
{
	struct shmid_ds ds;

	/* IPC_STAT: removal would need more than this, and this is harmless where it works. */
	return answer(shmctl((int)world_num(a->arg), IPC_STAT, &ds));
}

static const char *sem_by_key(const struct attack *a)
{
	return answer(semget((key_t)world_num(a->arg), 0, 0));
}

static const char *msg_by_key(const struct attack *a)
{
	return answer(msgget((key_t)world_num(a->arg), 0));
}

/* Only the heading may be there. */
static const char *list_sysv(const struct attack *a)
{
	char buf[8192];
	const char *line;

	if (slurp(a->arg, buf, sizeof(buf)) < 0)
		return answer_path(-1);
	line = strchr(buf, '\n');
	return !line || line[1] == '\0' ? "empty" : "done";
}

static const char *open_queue(const struct attack *a)
{
	/* raw mq_open: the kernel wants the name without its slash */
	long fd = syscall(SYS_mq_open, world(a->arg), (long)O_RDONLY, 0L, NULL);

	return fd < 0 && errno == ENOENT ? "hidden" : answer(fd);
}

static const char *read_sibling(const struct attack *a)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "%s/%s", (const char *)a->arg, world("sibling-name"));
	return answer_read(path);
}

/* Every hierarchy must show the cell's own group as its root. */
static const char *cgroup_view(const struct attack *a)
{
	static char buf[16384];
	char *save = NULL;

	if (strstr(a->arg, "/1/") && foreign_pid1())
		return foreign_pid1();
	if (slurp(a->arg, buf, sizeof(buf)) < 0)
		return answer_path(-1);
	for (char *line = strtok_r(buf, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		const char *path = strrchr(line, ':');

		if (!path || strcmp(path, ":/") != 0)
			return "leaked";
	}
	return "contained";
}

static const char *open_write(const struct attack *a)
{
	return answer_path(open(a->arg, O_WRONLY | O_CLOEXEC));
}

static const char *make_group(const struct attack *a)
{
	if (mkdir(a->arg, 0755) < 0)
		return errno == ENOENT ? "hidden" : answer_errno(errno);
	return "done";
}

/* A priority-inheriting lock that a process of the host is said to hold. */
static const char *futex_pi(const struct attack *a)
{
	uint32_t *word =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct timespec until = { 0 };

	if (word == MAP_FAILED)
		return answer_errno(errno);
	*word = (uint32_t)world_num("victim");
	return answer(syscall(SYS_futex, word, (long)FUTEX_LOCK_PI, 0L, &until, NULL, 0L));
}

/* The driver opens this file of /usr over and over: does the cell hear of it? */
static const char *watch_host(const struct attack *a)
{
	int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (fd < 0)
		return answer_errno(errno);
	if (inotify_add_watch(fd, world("busy-file"), IN_OPEN | IN_ACCESS) < 0)
		return answer_path(-1);
	return poll(&p, 1, 300) > 0 ? "heard" : "quiet";
}

/* The driver pushed this file out of the page cache. Who is told so can watch others read it. */
static const char *page_cache(const struct attack *a)
{
	static unsigned char vec[16384];
	size_t len = 1 << 20, absent = 0;
	int fd = open(world("cold-file"), O_RDONLY | O_CLOEXEC);
	void *map;

	if (fd < 0)
		return answer_path(-1);
	map = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return answer_errno(errno);
	if (mincore(map, len, vec) < 0)
		return answer_errno(errno);
	for (size_t i = 0; i < len / 4096; i++)
		absent += !(vec[i] & 1);
	return absent > 0 ? "sees" : "blind";
}

#define NO_OBJECT "ENOENT"
#define NO_ID "EINVAL"
#define NOBODY_THERE "ECONNREFUSED"

/* clang-format off */
static const struct attack rows[] = {
ROW("abstract-stream", "C", "the host's abstract stream socket",
	connect_abstract, NOBODY_THERE, "done", "abstract", SOCK_STREAM),
ROW("abstract-dgram", "C", "the host's abstract datagram socket",
	connect_abstract, NOBODY_THERE, "done", "abstract-dgram", SOCK_DGRAM),
ROW("abstract-sibling", "C", "the sibling's abstract socket",
	connect_abstract, NOBODY_THERE, NULL, "sibling-abstract", SOCK_STREAM),
ROW("path-socket", "C", "a socket in a folder of the host",
	connect_path, "hidden", "done", "path-socket", 0),
ROW("shm-key", "C", "the host's shared memory, by key",
	shm_by_key, NO_OBJECT, "done", "sysv-key", 0),
ROW("shm-id", "C", "the host's shared memory, by number", shm_by_id, NO_ID, "done", "shm-id", 0),
ROW("shm-stat", "C", "state of the host's shared memory", remove_shm, NO_ID, "done", "shm-id", 0),
ROW("shm-sibling", "C", "the sibling's shared memory, by key",
	shm_by_key, NO_OBJECT, NULL, "sibling-sysv-key", 0),
ROW("sem-key", "C", "the host's semaphores, by key", sem_by_key, NO_OBJECT, "done", "sysv-key", 0),
ROW("msg-key", "C", "the host's message queue, by key",
	msg_by_key, NO_OBJECT, "done", "sysv-key", 0),
ROW("shm-list", "C", "a list of shared memory", list_sysv, "empty", "done", "/proc/sysvipc/shm", 0),
ROW("msg-list", "C", "a list of message queues",
	list_sysv, "empty", "done", "/proc/sysvipc/msg", 0),
ROW("mqueue", "C", "the host's POSIX message queue", open_queue, "hidden", "done", "mqueue", 0),
ROW("mqueue-sibling", "C", "the sibling's POSIX message queue",
	open_queue, "hidden", NULL, "sibling-mqueue", 0),
ROW("tmp-sibling", "C", "the sibling's /tmp", read_sibling, "hidden", NULL, "/tmp", 0),
ROW("shm-file-sibling", "C", "the sibling's /dev/shm", read_sibling, "hidden", NULL, "/dev/shm", 0),
ROW("cgroup-self", "C", "own place among the control groups",
	cgroup_view, "contained", NULL, "/proc/self/cgroup", 0),
ROW("cgroup-pid1", "C", "PID 1's place among the control groups",
	cgroup_view, "contained", NULL, "/proc/1/cgroup", 0),
ROW("cgroup-procs", "C", "move processes in cgroup v2",
	open_write, "hidden", NULL, "/sys/fs/cgroup/cgroup.procs", 0),
ROW("cgroup-unified", "C", "move processes in hybrid cgroup v2",
	open_write, "hidden", NULL, "/sys/fs/cgroup/unified/cgroup.procs", 0),
ROW("cgroup-memory", "C", "move processes in cgroup v1",
	open_write, "hidden", NULL, "/sys/fs/cgroup/memory/cgroup.procs", 0),
ROW("cgroup-limit", "C", "lift the memory limit",
	open_write, "hidden", NULL, "/sys/fs/cgroup/memory.max", 0),
ROW("release-agent", "A", "the host's release_agent",
	open_write, "hidden", NULL, "/sys/fs/cgroup/memory/release_agent", 0),
ROW("cgroup-mkdir", "C", "make a control group",
	make_group, "hidden", NULL, "/sys/fs/cgroup/escape", 0),
ROW("futex-pi", "C", "wait for a lock held by a process of the host",
	futex_pi, "ESRCH", NULL, NULL, 0),
ROW("inotify-usr", "C", "notice the host opening a file of /usr",
	watch_host, "quiet", "heard", NULL, 0),
ROW("mincore", "C", "see whether the host has a file in memory",
	page_cache, "L:EPERM SrF:blind|sees *:blind", "sees", NULL, 0),
};
/* clang-format on */

const struct table ipc_table = TABLE(rows);
