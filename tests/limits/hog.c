/*
 * hog: runs into one limit on purpose.
 *
 * Theory of operation
 *
 * One verb, one limit. A verb ends in one of three ways: the kernel or Cordon kills it, or it is
 * refused and leaves with the exit code that stands for that refusal, or it was never limited and
 * leaves with a code no test expects. Where a number tells how far it came (children, bytes,
 * files, descriptors), the verb prints it, alone on one line, so that the driver can compare it
 * with the limit that was set.
 *
 * The dangerous verbs run only as a child of PID 1, or as PID 1: that is how Cordon starts a
 * command, and how nobody's shell does. An argument that starts with '@' is ignored: the driver
 * marks its processes with one, to find those that outlived their cell.
 *
 * It needs nothing from the system it runs on, so it is linked statically.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum hog_exit {
	HOG_SURVIVED = 3, /* a child was killed for memory, this process was not */
	HOG_NO_FORK = 4,
	HOG_NO_DISK = 5,
	HOG_NO_INODES = 6,
	HOG_NO_THREAD = 7,
	HOG_NO_MEMORY = 8, /* mmap refused: not how a memory cgroup answers */
	HOG_FAULT = 99,	   /* something else went wrong; stderr says what */
	HOG_USAGE = 64,
};

struct verb {
	const char *name;
	int (*run)(int argc, char **argv);
	int arguments; /* how many it must have at least */
	bool dangerous;
};

static const size_t page = 4096;

static int fault(const char *what)
{
	(void)fprintf(stderr, "hog: %s: %s\n", what, strerror(errno));
	return HOG_FAULT;
}

static void report(long long number)
{
	(void)printf("%lld\n", number);
	(void)fflush(stdout);
}

static long number(const char *text)
{
	char *end = NULL;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < 0) {
		(void)fprintf(stderr, "hog: not a number: %s\n", text);
		exit(HOG_USAGE);
	}
	return value;
}

static long long clock_ms(clockid_t clock)
{
	struct timespec now = { 0 };

	(void)clock_gettime(clock, &now);
	return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Maps and writes `size` bytes; NULL if the kernel refuses the mapping itself. */
static void *touch(size_t size)
{
	volatile char *memory =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	for (size_t at = 0; at < size; at += page)
		memory[at] = 1;
	return (void *)(size_t)memory;
}

static int hog_memory(int argc, char **argv)
{
	while (touch(1 << 20))
		;
	return HOG_NO_MEMORY;
}

static int hog_touch(int argc, char **argv)
{
	return touch((size_t)number(argv[0]) << 20) ? 0 : HOG_NO_MEMORY;
}

static int hog_memory_child(int argc, char **argv)
{
	int status = 0;
	pid_t child = fork();

	if (child == -1)
		return fault("fork");
	if (child == 0)
		_exit(hog_memory(argc, argv));
	if (waitpid(child, &status, 0) == -1)
		return fault("waitpid");
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
		(void)fprintf(stderr, "hog: the child was not killed, status %#x\n",
			      (unsigned)status);
		return HOG_FAULT;
	}
	return HOG_SURVIVED;
}

/*
 * The children wait on a pipe whose other end only this process holds, so they go when it goes,
 * in a cell or not.
 */
static int hog_fork(int argc, char **argv)
{
	int leash[2];
	long long children = 0;
	char none;

	if (pipe2(leash, O_CLOEXEC) == -1)
		return fault("pipe2");
	for (;;) {
		pid_t child = fork();

		if (child == -1)
			break;
		if (child == 0) {
			(void)close(leash[1]);
			_exit(read(leash[0], &none, 1) == 0 ? 0 : HOG_FAULT);
		}
		children++;
	}
	if (errno != EAGAIN)
		return fault("fork");
	report(children);
	return HOG_NO_FORK;
}

static int hog_fork_bomb(int argc, char **argv)
{
	for (;;)
		(void)fork();
	return HOG_FAULT;
}

static void *idle(void *cookie)
{
	for (;;)
		(void)pause();
	return NULL;
}

static int hog_threads(int argc, char **argv)
{
	pthread_attr_t attributes;
	long long threads = 0;
	int failure;

	/* small stacks, so that it is not memory that runs out */
	if (pthread_attr_init(&attributes) || pthread_attr_setstacksize(&attributes, 64 << 10))
		return fault("pthread_attr");
	for (;;) {
		pthread_t thread;

		failure = pthread_create(&thread, &attributes, idle, NULL);
		if (failure)
			break;
		threads++;
	}
	errno = failure;
	if (failure != EAGAIN)
		return fault("pthread_create");
	report(threads);
	return HOG_NO_THREAD;
}

/*
 * Fills one new file in `folder`. Returns the bytes it holds once the file system is full, or -1
 * for any other failure. The bytes are not zeroes, lest a file system store none of them.
 */
static long long fill(const char *folder, char *name, size_t size)
{
	static char block[64 << 10];
	long long total = 0;
	int file;

	memset(block, 0xa5, sizeof(block));
	if (snprintf(name, size, "%s/hog.XXXXXX", folder) >= (int)size)
		return -1;
	file = mkostemp(name, O_CLOEXEC);
	if (file == -1)
		return errno == ENOSPC ? 0 : -1;
	for (;;) {
		ssize_t written = write(file, block, sizeof(block));

		if (written > 0)
			total += written;
		else if (errno != EINTR)
			break;
	}
	if (errno != ENOSPC)
		total = -1;
	(void)close(file);
	return total;
}

/* Fills every folder in turn: under one quota, all together hold no more than the quota. */
static int hog_disk(int argc, char **argv)
{
	char name[PATH_MAX];
	long long total = 0;

	for (int i = 0; i < argc; i++) {
		long long bytes = fill(argv[i], name, sizeof(name));

		if (bytes == -1)
			return fault(argv[i]);
		total += bytes;
	}
	report(total);
	return HOG_NO_DISK;
}

static int hog_shm(int argc, char **argv)
{
	char folder[] = "/dev/shm";
	char *folders[] = { folder, NULL };

	return hog_disk(1, folders);
}

/* What is deleted can be used again: the second filling comes as far as the first. */
static int hog_disk_then_delete(int argc, char **argv)
{
	char name[PATH_MAX];
	long long first = fill(argv[0], name, sizeof(name));
	long long second;

	if (first == -1 || unlink(name) == -1)
		return fault(argv[0]);
	second = fill(argv[0], name, sizeof(name));
	if (second == -1 || unlink(name) == -1)
		return fault(argv[0]);
	report(first);
	if (second < first - first / 8) {
		(void)fprintf(stderr, "hog: first %lld bytes, then only %lld\n", first, second);
		return HOG_FAULT;
	}
	return 0;
}

static int hog_inodes(int argc, char **argv)
{
	char name[PATH_MAX];
	long long files = 0;

	for (;; files++) {
		int file;

		if (snprintf(name, sizeof(name), "%s/hog.%lld", argv[0], files) >=
		    (int)sizeof(name))
			return fault("name");
		file = open(name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
		if (file == -1)
			break;
		(void)close(file);
	}
	if (errno != ENOSPC)
		return fault(name);
	report(files);
	return HOG_NO_INODES;
}

/* Writes `bytes` to stdout, or for ever if negative; returns only if it could. */
static int print(long long bytes)
{
	static char block[4096];

	memset(block, 'x', sizeof(block));
	while (bytes) {
		size_t size = sizeof(block);
		ssize_t written;

		if (bytes > 0 && (long long)size > bytes)
			size = (size_t)bytes;
		written = write(STDOUT_FILENO, block, size);
		if (written == -1 && errno != EINTR)
			return fault("stdout");
		if (written > 0 && bytes > 0)
			bytes -= written;
	}
	return 0;
}

static int hog_output(int argc, char **argv)
{
	return print(-1);
}

static int hog_print(int argc, char **argv)
{
	return print(number(argv[0]));
}

static int hog_loop(int argc, char **argv)
{
	volatile unsigned long turns = 0;

	for (;;)
		turns++;
	return HOG_FAULT;
}

static int hog_sleep(int argc, char **argv)
{
	for (;;)
		(void)pause();
	return HOG_FAULT;
}

/* Sleeps on, deaf to every signal that can be ignored. */
static int hog_stubborn(int argc, char **argv)
{
	sigset_t all;

	for (int i = 1; i < NSIG; i++)
		(void)signal(i, SIG_IGN);
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	return hog_sleep(argc, argv);
}

/* Leaves at once, but not alone: a child in its own session keeps stdout and stderr open. */
static int hog_orphan(int argc, char **argv)
{
	pid_t child = fork();

	if (child == -1)
		return fault("fork");
	if (child == 0) {
		(void)setsid();
		return hog_stubborn(argc, argv);
	}
	return 0;
}

/* Burns MS of CPU in each of PROCESSES (1 if not told), and prints how long that took. */
static int hog_cpu(int argc, char **argv)
{
	long long start = clock_ms(CLOCK_MONOTONIC);
	long budget = number(argv[0]);
	long processes = argc > 1 ? number(argv[1]) : 1;
	bool child = false;

	for (long i = 1; i < processes && !child; i++) {
		pid_t pid = fork();

		if (pid == -1)
			return fault("fork");
		child = pid == 0;
	}
	while (clock_ms(CLOCK_PROCESS_CPUTIME_ID) < budget)
		;
	if (child)
		_exit(0);
	while (wait(NULL) != -1 || errno == EINTR)
		;
	report(clock_ms(CLOCK_MONOTONIC) - start);
	return 0;
}

static int hog_exit(int argc, char **argv)
{
	return (int)number(argv[0]);
}

static int hog_signal(int argc, char **argv)
{
	if (kill(getpid(), (int)number(argv[0])) == -1)
		return fault("kill");
	return HOG_FAULT;
}

/* Asks for more first: a limit that the program itself can lift is none. */
static int hog_fds(int argc, char **argv)
{
	struct rlimit more = { .rlim_cur = 4096, .rlim_max = 4096 };
	struct rlimit limit = { 0 };
	int last = -1;

	(void)setrlimit(RLIMIT_NOFILE, &more);
	if (getrlimit(RLIMIT_NOFILE, &limit) == -1)
		return fault("getrlimit");
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
	for (;;) {
		int file = open("/dev/null", O_RDONLY | O_CLOEXEC);

		if (file == -1)
			break;
		last = file;
	}
	if (errno != EMFILE)
		return fault("/dev/null");
	report((long long)last + 1);
	return 0;
}

static const struct verb verbs[] = {
	{ "memory", hog_memory, 0, true },
	{ "memory-child", hog_memory_child, 0, true },
	{ "touch", hog_touch, 1, false },
	{ "fork", hog_fork, 0, true },
	{ "fork-bomb", hog_fork_bomb, 0, true },
	{ "threads", hog_threads, 0, true },
	{ "disk", hog_disk, 1, true },
	{ "disk-then-delete", hog_disk_then_delete, 1, true },
	{ "inodes", hog_inodes, 1, true },
	{ "shm", hog_shm, 0, true },
	{ "output", hog_output, 0, false },
	{ "print", hog_print, 1, false },
	{ "loop", hog_loop, 0, false },
	{ "sleep", hog_sleep, 0, false },
	{ "stubborn", hog_stubborn, 0, false },
	{ "orphan", hog_orphan, 0, true },
	{ "cpu", hog_cpu, 1, false },
	{ "exit", hog_exit, 1, false },
	{ "signal", hog_signal, 1, false },
	{ "fds", hog_fds, 0, false },
};

static int usage(void)
{
	(void)fprintf(stderr, "usage: hog VERB [ARGUMENT]... [@MARK]\nverbs:");
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		(void)fprintf(stderr, " %s", verbs[i].name);
	(void)fprintf(stderr, "\n");
	return HOG_USAGE;
}

int main(int argc, char **argv)
{
	while (argc > 1 && argv[argc - 1][0] == '@')
		argv[--argc] = NULL;
	if (argc < 2)
		return usage();
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strcmp(verbs[i].name, argv[1]))
			continue;
		if (argc - 2 < verbs[i].arguments)
			return usage();
		if (verbs[i].dangerous && getppid() > 1) {
			(void)fprintf(stderr, "hog: %s runs only in a cell\n", argv[1]);
			return HOG_USAGE;
		}
		return verbs[i].run(argc - 2, argv + 2);
	}
	return usage();
}
