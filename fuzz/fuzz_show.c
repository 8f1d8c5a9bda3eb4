/* Any bytes as words of a server, as SESSION:PATH and as a part of a target: what is shown is UTF-8
 * without control characters, of the width that was said, and the same by both ways; what is split
 * was whole before; a target has no byte in it that means something else. */
#include "fuzz.h"

#include <stdio.h>

#include "cmd/client/show.h"
#include "cmd/client/target.h"
#include "lib/base/utf8.h"

unsigned long fuzz_accepted;

static void check_shown(const char *text)
{
	size_t cap = 6 * strlen(text) + 1, columns = 0;
	char *shown = malloc(cap), *cut = malloc(cap / 2 + 1);

	assert(shown != NULL && cut != NULL);
	size_t said = show_escape(text, shown, cap);

	for (const uint8_t *p = (const uint8_t *)shown; *p != '\0'; columns++) {
		size_t n = utf8_length(p, strlen((const char *)p));

		assert(n > 0 && *p >= 0x20 && *p != 0x7f && !(p[0] == 0xc2 && p[1] < 0xa0));
		p += n;
	}
	assert(columns == said);
	(void)show_escape(text, cut, cap / 2 + 1);
	assert(strncmp(shown, cut, strlen(cut)) == 0);
	fuzz_accepted += strcmp(shown, text) == 0;
	free(shown);
	free(cut);
}

static void check_place(const char *text)
{
	char id[40], name[64];
	const char *path = NULL;

	if (session_path_split(text, id, sizeof(id), &path)) {
		fuzz_accepted++;
		assert(id[0] != '\0' && strpbrk(id, "/.:%") == NULL);
		assert(strncmp(text, id, strlen(id)) == 0 && text[strlen(id)] == ':');
		assert(*path != '\0');
	}
	if (session_path_name(text, name, sizeof(name))) {
		assert(name[0] != '\0' && strchr(name, '/') == NULL);
		assert(strcmp(name, ".") != 0 && strcmp(name, "..") != 0);
		assert(strstr(text, name) != NULL);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct target t;
	struct err e = { 0 };
	char *text = fuzz_text(data, size);
	const char *whole;

	check_shown(text);
	check_place(text);
	target_init(&t, "/v1");
	target_part(&t, text);
	target_query(&t, text, text);
	whole = target_text(&t, &e);
	assert(whole != NULL || strlen(text) * 9 + 10 > sizeof(t.text));
	if (whole != NULL) {
		assert(whole[strspn(whole, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					   "0123456789-._~%/?=&")] == '\0');
		assert(strchr(whole, '?') == strrchr(whole, '?'));
	}
	free(text);
	return 0;
}
