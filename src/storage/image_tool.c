/* image_tool.c - see image_tool.h. */
#include "image_tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "erofs_image.h"
#include "exit_codes.h"
#include "root_walk.h"

enum { IMAGE_FD = 3, DIRS_FD };

static int read_word(const char *word, uint64_t *ret_max, char at[][STORAGE_PLACE_MAX],
		     unsigned *ret_n, struct err *e)
{
	char text[STORAGE_HOST_MAX * STORAGE_PLACE_MAX], *left = text, *name;
	unsigned n = 1; /* "/" */

	(void)snprintf(text, sizeof(text), "%s", word);
	/* NOLINTNEXTLINE(cert-err34-c): 19 digits fit */
	if (sscanf(strsep(&left, ":"), "%19" SCNu64, ret_max) != 1)
		return err_set(e, ERR_INVALID, "no size of an image");
	for (; (name = strsep(&left, ":")) != NULL; n++) {
		if (n >= STORAGE_HOST_MAX)
			return err_set(e, ERR_INVALID, "too many places");
		(void)snprintf(at[n], STORAGE_PLACE_MAX, "%s", name);
	}
	*ret_n = n;
	return 0;
}

static int make(uint64_t max, char at[][STORAGE_PLACE_MAX], unsigned n, struct err *e)
{
	static struct root_place places[STORAGE_HOST_MAX]; /* large */
	struct root_walk w = {
		.copy = { .to = IMAGE_FD, .reserve_percent = 100, .bytes_max = UINT64_MAX },
		.bytes_max = max,
		.next_block = 1,
		.places = places,
		.nplaces = n
	};
	uint64_t bytes;
	int result;

	for (unsigned i = 0; i < n; i++)
		places[i] = (struct root_place){ .name = i == 0 ? NULL : at[i],
						 .n = 1,
						 .dirs = { DIRS_FD + (int)i },
						 .has_base = true };
	erofs_tree_init(&w.tree);
	result = root_walk(&w, e);
	if (result == 0)
		result = erofs_image_write(&w.tree, IMAGE_FD, w.next_block, max, &bytes, e);
	erofs_tree_release(&w.tree);
	return result;
}

int image_tool_main(const char *word)
{
	char at[STORAGE_HOST_MAX][STORAGE_PLACE_MAX] = { 0 };
	struct err e = { 0 };
	uint64_t max = 0;
	unsigned n = 0;

	if (read_word(word, &max, at, &n, &e) == 0 && make(max, at, n, &e) == 0)
		return 0;
	(void)fprintf(stderr, "cordon: root image: %s\n", e.msg);
	return EXIT_CORDON;
}
