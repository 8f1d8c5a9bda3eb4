/* Any two texts (up to the first NUL and behind it) as base and path: what comes out is absolute,
 * clean, fits, and stays as it is when it is cleaned again. */
#include "fuzz.h"

#include "cell/init/files/file_path.h"

unsigned long fuzz_accepted;

static void check_clean(const char *path)
{
	assert(path[0] == '/');
	assert(strstr(path, "//") == NULL && strstr(path, "/./") == NULL &&
	       strstr(path, "/../") == NULL);
	for (const char *p = strchr(path, '/'); p != NULL; p = strchr(p + 1, '/'))
		assert(strcmp(p, "/.") != 0 && strcmp(p, "/..") != 0 &&
		       (p == path || p[1] != '\0'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_copy(data, size);
	const char *nul = size == 0 ? NULL : memchr(text, '\0', size);
	size_t n = nul == NULL ? 0 : (size_t)(nul - text) + 1;
	char *path = malloc(size - n + 1), *ret = malloc(24), again[24];

	assert(path != NULL && ret != NULL);
	memcpy(path, text + n, size - n);
	path[size - n] = '\0';
	if (file_path_join(nul == NULL ? "" : text, path, ret, 24)) {
		fuzz_accepted++;
		check_clean(ret);
		assert(file_path_join("/x", ret, again, sizeof(again)) && strcmp(ret, again) == 0);
	}
	free(ret);
	free(path);
	free(text);
	return 0;
}
