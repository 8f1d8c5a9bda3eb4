/* replay.c - every fuzz target is an ordinary test, too: runs it over the files of the directories
 * given, one process for each, and prints TAP.
 *
 * Two lines for each directory: that all inputs hold, and that at least one of them is well-formed.
 * Without the second, a corpus that no longer fits its format would test nothing, and no one would
 * notice. The empty input is always among them. */
#include "fuzz.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define INPUT_MAX (1U << 20)
#define REFUSED 10 /* exit status of a run in which the parser never said yes */

struct tally {
	unsigned files, failed, accepted;
};

/* Runs the target on a file, or on nothing if there is none; ends the process. */
static void run_input(const char *path)
{
	uint8_t *bytes = malloc(INPUT_MAX);
	FILE *from = path == NULL ? NULL : fopen(path, "rbe");
	size_t n;

	if (bytes == NULL || (path != NULL && from == NULL)) {
		perror(path);
		exit(1);
	}
	n = from == NULL ? 0 : fread(bytes, 1, INPUT_MAX, from);
	if (from != NULL)
		(void)fclose(from);
	(void)alarm(60);
	(void)LLVMFuzzerTestOneInput(bytes, n);
	free(bytes);
	exit(fuzz_accepted > 0 ? 0 : REFUSED); /* exit, not _exit: leak checkers report here */
}

static void count_input(const char *path, struct tally *t)
{
	int status = -1;
	pid_t pid;

	(void)fflush(stdout);
	pid = fork();
	if (pid == 0)
		run_input(path);
	if (pid > 0)
		(void)waitpid(pid, &status, 0);
	t->files++;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		t->accepted++;
	} else if (!WIFEXITED(status) || WEXITSTATUS(status) != REFUSED) {
		t->failed++;
		printf("# %s: status %#x\n", path == NULL ? "empty input" : path, (unsigned)status);
	}
}

static int count_directory(const char *dir, struct tally *t)
{
	DIR *d = opendir(dir);

	if (d == NULL)
		return -1;
	count_input(NULL, t);
	for (struct dirent *entry; (entry = readdir(d)) != NULL;) {
		char path[PATH_MAX];

		if (entry->d_name[0] == '.')
			continue;
		(void)snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		count_input(path, t);
	}
	(void)closedir(d);
	return 0;
}

int main(int argc, char **argv)
{
	int failures = 0;

	printf("1..%d\n", 2 * (argc - 1));
	for (int i = 1; i < argc; i++) {
		struct tally t = { 0, 0, 0 };
		const char *slash = strrchr(argv[i], '/');
		const char *name = slash == NULL ? argv[i] : slash + 1;
		int good = count_directory(argv[i], &t) == 0 && t.files > 1 && t.failed == 0;

		printf("%sok %d - %s: %u inputs hold\n", good ? "" : "not ", 2 * i - 1, name,
		       t.files);
		printf("%sok %d - %s: %u of them are well-formed\n", t.accepted > 0 ? "" : "not ",
		       2 * i, name, t.accepted);
		failures += !good + (t.accepted == 0);
	}
	return failures == 0 && argc > 1 ? 0 : 1;
}
