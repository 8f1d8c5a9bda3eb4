/* Any text as a configuration file: what is taken is within the table's bounds and, written out, is
 * read back as the same; what is refused says in which line. */
#include "fuzz.h"

#include "lib/config/config.h"
#include "lib/config/config_table.h"
#include "lib/config/config_value.h"

unsigned long fuzz_accepted;

static void check_number(const struct config_setting *s, const struct config *c)
{
	uint64_t value;

	memcpy(&value, (const char *)c + s->offset, sizeof(value));
	assert(value >= s->min && value <= s->max);
}

static void check_setting(const struct config_setting *s, const struct config *c)
{
	const char *text = (const char *)c + s->offset;

	switch (s->kind) {
	case CONFIG_COUNT:
	case CONFIG_BYTES:
	case CONFIG_TIME:
	case CONFIG_MILLIS:
		check_number(s, c);
		return;
	case CONFIG_PATH:
		assert(text[0] == '/' || text[0] == '\0');
		assert(strstr(text, "/../") == NULL && strstr(text, "//") == NULL);
		assert(strlen(text) >= s->min && strlen(text) <= s->max);
		return;
	case CONFIG_TEXT:
		assert(strlen(text) >= s->min && strlen(text) <= s->max);
		return;
	case CONFIG_DOMAIN:
		assert(strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-.:") == strlen(text));
		assert(strlen(text) <= s->max);
		return;
	case CONFIG_ROOTS:
		assert(c->nmount_roots <= CONFIG_ROOTS_MAX);
		for (size_t i = 0; i < c->nmount_roots; i++)
			assert(c->mount_roots[i].path[0] == '/' &&
			       memchr(c->mount_roots[i].path, '\0', CONFIG_PATH_MAX) != NULL);
		return;
	case CONFIG_BOOL:
	case CONFIG_CHOICE:
	case CONFIG_KINDS:
		return;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct config_starter root = { .root = true };
	char *text = fuzz_copy(data, size), written[CONFIG_TEXT_MAX], again[CONFIG_TEXT_MAX];
	static struct config c, back;
	struct err e = { 0 };
	int n;

	config_defaults(&c, &root);
	if (config_parse(&c, "f", text, size, &e) < 0) {
		assert(e.code == ERR_INVALID && strncmp(e.msg, "f:", 2) == 0);
	} else {
		fuzz_accepted++;
		for (size_t i = 0; i < config_table_size; i++)
			check_setting(&config_table[i], &c);
		n = config_print(&c, written, sizeof(written), &e);
		assert(n > 0);
		memset(&back, 0, sizeof(back));
		assert(config_parse(&back, "w", written, (size_t)n, &e) == 0);
		assert(config_print(&back, again, sizeof(again), &e) == n);
		assert(memcmp(written, again, (size_t)n) == 0);
		if (config_check(&c, &e) < 0)
			assert(e.msg[0] != '\0' && (e.code == ERR_INVALID || e.code == ERR_DENIED));
	}
	free(text);
	return 0;
}
