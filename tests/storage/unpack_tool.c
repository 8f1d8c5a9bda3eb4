/* unpack_tool.c - unpacks the archive on standard input as cordon-storage's workers do, without
 * their jail: unpack_tool [--whole] BYTES ENTRIES TOP [LOWER...]. Prints "ok BYTES ENTRIES SHA256"
 * or "error CODE MESSAGE". For test_unpack.py. */
#include "storage/unpack_image.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/hex.h"

static int open_dir(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0) {
		perror(path);
		exit(2);
	}
	return fd;
}

int main(int argc, char **argv)
{
	static int lower[LAYER_TREE_LOWER_MAX];
	struct unpack_image u = { .lower = lower };
	struct err e = { 0 };
	struct stream_in *in;
	uint8_t sum[SHA256_SIZE];
	char text[2 * SHA256_SIZE + 1];

	if (argc > 1 && strcmp(argv[1], "--whole") == 0) {
		u.whole = true;
		argv++;
		argc--;
	}
	if (argc < 4 || argc - 4 > LAYER_TREE_LOWER_MAX)
		return 2;
	u.count.bytes_max = strtoull(argv[1], NULL, 10);
	u.count.entries_max = strtoull(argv[2], NULL, 10);
	u.top = open_dir(argv[3]);
	for (int i = 4; i < argc; i++)
		lower[u.nlower++] = open_dir(argv[i]);
	in = stream_in_fd(0, UINT64_MAX, true, &e);
	if (in == NULL || unpack_image(in, &u, &e) < 0 || stream_in_finish(in, sum, &e) < 0) {
		printf("error %s %s\n", err_code_name(e.code), e.msg);
		return 1;
	}
	hex_encode(sum, sizeof(sum), text);
	printf("ok %llu %llu %s\n", (unsigned long long)u.count.bytes,
	       (unsigned long long)u.count.entries, text);
	return 0;
}
