#include "show_tree.h"

#include <string.h>

#include "show.h"
#include "show_json.h"
#include "units.h"

#define NAME_MAX_BYTES 160
#define PREFIX_MAX 100 /* objects below a longer name are printed as one value */

static bool ends_with(const char *name, const char *ending)
{
	size_t n = strlen(name), k = strlen(ending);

	return n > k && strcmp(name + n - k, ending) == 0;
}

static void cut(char *name, const char *ending)
{
	name[strlen(name) - strlen(ending)] = '\0';
}

/* Returns false for a value that has no unit. */
static bool with_unit(char *name, const json_t *value, char *ret, size_t cap)
{
	long long n = json_is_integer(value) ? json_integer_value(value) : -1;

	if (n < 0)
		return false;
	if (ends_with(name, "_bytes")) {
		units_format_bytes((uint64_t)n, ret, cap);
		cut(name, "_bytes");
	} else if (ends_with(name, "_ms") && n >= 1000) {
		show_span(n, ret, cap);
		cut(name, "_ms");
	} else if (ends_with(name, "_millis")) {
		(void)snprintf(ret, cap, "%.9g", (double)n / 1000);
		cut(name, "_millis");
	} else {
		return false;
	}
	return true;
}

static void print_one(char *name, const json_t *value, FILE *to)
{
	char text[1024];

	if (!with_unit(name, value, text, sizeof(text)))
		show_json_cell(value, text, sizeof(text));
	show_text(name, to);
	(void)fputs(": ", to);
	show_text(text, to);
	(void)fputc('\n', to);
}

static void print_below(const json_t *object, const char *prefix, FILE *to)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)object, key, value)
	{
		char name[NAME_MAX_BYTES];

		(void)snprintf(name, sizeof(name), "%s%s%s", prefix, *prefix == '\0' ? "" : ".",
			       key);
		if (json_object_size(value) > 0 && strlen(prefix) < PREFIX_MAX)
			print_below(value, name, to);
		else
			print_one(name, value, to);
	}
}

void show_tree(const json_t *object, FILE *to)
{
	print_below(object, "", to);
}
