#include "cell/init/files/builtin.h"

#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "cell/init/files/builtin_io.h"
#include "cell/init/files/builtin_table.h"
#include "cell/init/files/file_resolve.h"
#include "cell/init/files/file_user.h"

/* The path arguments. */
enum paths { NONE, FIRST, TWO, ALL };

static const struct builtin {
	const char *name;
	int min, max;	  /* arguments behind the name */
	enum paths paths; /* NONE: --for is not supported */
	int (*run)(int argc, char **argv, struct err *e);
} table[] = {
	{ "read", 3, 3, FIRST, file_read },
	{ "write", 5, 6, FIRST, file_write },
	{ "stat", 1, 2, FIRST, file_change_stat },
	{ "mkdir", 3, 3, FIRST, file_change_mkdir },
	{ "move", 2, 3, TWO, file_change_move },
	{ "join", 2, 1 + BUILTIN_SOURCES_MAX, ALL, file_join },
	{ "list", 3, 3, FIRST, file_list },
	{ "remove", 2, 2, FIRST, file_remove },
	{ "watch", 2, 3, FIRST, watch_directory },
	{ "tar-out", 2, 2, NONE, tar_out },
	{ "tar-in", 3, 3, NONE, tar_in },
	{ "copy-in", 7, 7, FIRST, copy_in },
	{ "secrets", 0, 0, NONE, secret_builtin },
	{ "processes", 0, 0, NONE, processes_list },
	{ "kill", 2, 2, NONE, processes_kill },
};

/* Replace path arguments by absolute paths in the user's home. The copies are never freed. */
static int builtin_find_paths(const struct builtin *b, int argc, char **argv, struct err *e)
{
	int n = b->paths == FIRST ? 1 : b->paths == TWO ? 2 : argc;

	if (b->paths == NONE)
		return err_set(e, ERR_INVALID, "%s: --for is not supported", b->name);
	for (int i = 0; i < n; i++) {
		char path[FILE_MSG_PATH_MAX];

		if (file_user_path(argv[i], path, e) < 0)
			return -1;
		argv[i] = strdup(path);
		if (argv[i] == NULL)
			return err_sys(e, "path");
	}
	return 0;
}

static int builtin_run_one(const struct builtin *b, int argc, char **argv, struct err *e)
{
	if (argc < b->min || argc > b->max)
		return err_set(e, ERR_INVALID, "%s: %d arguments", b->name, argc);
	if (file_user_is_set() && builtin_find_paths(b, argc, argv, e) < 0)
		return -1;
	return b->run(argc, argv, e);
}

static int builtin_run(int argc, char **argv, struct err *e)
{
	if (argc >= 2 && strcmp(argv[0], "--within") == 0) {
		if (file_resolve_restrict(argv[1], e) < 0)
			return -1;
		argc -= 2;
		argv += 2;
	}
	if (argc >= 2 && strcmp(argv[0], "--without") == 0) {
		if (file_resolve_forbid(argv[1], e) < 0)
			return -1;
		argc -= 2;
		argv += 2;
	}
	if (argc >= 2 && strcmp(argv[0], "--for") == 0) {
		if (file_user_set(argv[1], e) < 0)
			return -1;
		argc -= 2;
		argv += 2;
	}
	for (size_t i = 0; argc > 0 && i < COUNT(table); i++)
		if (strcmp(argv[0], table[i].name) == 0)
			return builtin_run_one(&table[i], argc - 1, argv + 1, e);
	return err_set(e, ERR_INVALID, "no such built-in: %s", argc > 0 ? argv[0] : "");
}

int builtin_main(int argc, char **argv)
{
	struct file_msg m = { .kind = FILE_MSG_ERROR };
	int status;

	/* The reader may close its end at any time. Unfinished files are removed then, too. */
	(void)signal(SIGPIPE, SIG_IGN);
	(void)umask(022);
	status = builtin_run(argc, argv, &m.error);
	if (status < 0 && builtin_io_record(&m, &m.error) < 0)
		return 1;
	if (builtin_io_flush(&m.error) < 0)
		return 1;
	return status < 0 ? 1 : status;
}
