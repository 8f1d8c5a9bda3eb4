/* Goal: doc/configuration.md says what the table of settings says. With --print writes what it
 * should be. */
#include "lib/config/config_value.h"

#include <fcntl.h>
#include <string.h>

#include "lib/base/io.h"

#define LARGEST 65536

static int differs(const char *path, const char *want)
{
	static char have[LARGEST];
	struct err e;

	if (io_read_file(AT_FDCWD, path, have, sizeof(have), &e) < 0) {
		printf("# %s\n", e.msg);
		return 1;
	}
	return strcmp(have, want) != 0;
}

int main(int argc, char **argv)
{
	char *want = NULL;
	size_t n = 0;
	FILE *to;
	int bad;

	if (argc != 2)
		return 2;
	if (strcmp(argv[1], "--print") == 0) {
		config_doc_markdown(stdout);
		return 0;
	}
	to = open_memstream(&want, &n);
	if (to == NULL)
		return 2;
	config_doc_markdown(to);
	if (fclose(to) != 0)
		return 2;
	bad = n == 0 || differs(argv[1], want);
	printf("1..1\n%sok 1 - %s is what config_doc --print writes\n", bad ? "not " : "", argv[1]);
	free(want);
	return bad;
}
