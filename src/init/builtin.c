#include "builtin.h"

#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "builtin_io.h"
#include "builtin_table.h"
#include "file_place.h"

static const struct builtin {
	const char *name;
	int min, max; /* arguments behind the name */
	int (*run)(int argc, char **argv, struct err *e);
} table[] = {
	{ "read", 3, 3, file_read },
	{ "write", 5, 5, file_write },
	{ "stat", 1, 2, file_change_stat },
	{ "mkdir", 3, 3, file_change_mkdir },
	{ "move", 2, 2, file_change_move },
	{ "list", 3, 3, file_list },
	{ "remove", 2, 2, file_remove },
	{ "tar-out", 2, 2, tar_out },
	{ "tar-in", 3, 3, tar_in },
	{ "watch", 2, 2, watch_directory },
	{ "processes", 0, 0, processes_list },
	{ "kill", 2, 2, processes_kill },
};

static int run(int argc, char **argv, struct err *e)
{
	if (argc >= 2 && strcmp(argv[0], "--within") == 0) {
		if (file_place_restrict(argv[1], e) < 0)
			return -1;
		argc -= 2;
		argv += 2;
	}
	for (size_t i = 0; argc > 0 && i < COUNT(table); i++) {
		const struct builtin *b = &table[i];

		if (strcmp(argv[0], b->name) != 0)
			continue;
		if (argc - 1 < b->min || argc - 1 > b->max)
			return err_set(e, ERR_INVALID, "%s: %d arguments", b->name, argc - 1);
		return b->run(argc - 1, argv + 1, e);
	}
	return err_set(e, ERR_INVALID, "no such built-in: %s", argc > 0 ? argv[0] : "");
}

int builtin_main(int argc, char **argv)
{
	struct file_msg m = { .kind = FILE_MSG_ERROR };
	int status;

	/* Who reads us may go at any time; half-made files are removed then, too. */
	(void)signal(SIGPIPE, SIG_IGN);
	(void)umask(022);
	status = run(argc, argv, &m.error);
	if (status < 0 && builtin_io_record(&m, &m.error) < 0)
		return 1;
	if (builtin_io_flush(&m.error) < 0)
		return 1;
	return status < 0 ? 1 : status;
}
