/* show_json.c - see show_json.h. Three forms for three readers: a tree of lines for people, JSON
 * for programs, and cells for tables. Only show_tree() and show_json() escape their output. */
#include "cmd/client/show_json.h"

#include <stdint.h>
#include <string.h>

#include "cmd/client/show.h"
#include "lib/base/own.h"
#include "lib/base/units.h"

/* Names grow with the depth of objects. A member below the bound is cut and still shown. */
#define NAME_MAX_BYTES 160
#define PREFIX_MAX 100 /* objects below a longer name are printed as one value */

static bool ends_with(const char *name, const char *ending)
{
	size_t n = strlen(name), k = strlen(ending);

	return n > k && strcmp(name + n - k, ending) == 0;
}

static void show_json_cut(char *name, const char *ending)
{
	name[strlen(name) - strlen(ending)] = '\0';
}

/* Return false for a value without a unit. The ending of the name goes away, because the value
 * then has its unit. */
static bool with_unit(char *name, const json_t *value, char *ret, size_t cap)
{
	long long n = json_is_integer(value) ? json_integer_value(value) : -1;

	if (n < 0)
		return false;
	if (ends_with(name, "_bytes")) {
		units_format_bytes((uint64_t)n, ret, cap);
		show_json_cut(name, "_bytes");
	} else if (ends_with(name, "_ms") && n >= 1000) {
		show_span(n, ret, cap);
		show_json_cut(name, "_ms");
	} else if (ends_with(name, "_millis")) {
		(void)snprintf(ret, cap, "%.9g", (double)n / 1000);
		show_json_cut(name, "_millis");
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

/* One line for each value, with the names of the objects around it before. */
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

/* Valid JSON in both forms. DEL and the control characters from U+0080 to U+009F are escaped
 * here, because JSON allows them in a text. */
void show_json(const json_t *j, bool indented, FILE *to)
{
	OWN_MEM char *text =
		json_dumps(j, JSON_ENCODE_ANY | (indented ? JSON_INDENT(2) : JSON_COMPACT));

	for (const char *c = text; c != NULL && *c != '\0'; c++) {
		bool pair = *c == '\xc2' && (uint8_t)c[1] >= 0x80 && (uint8_t)c[1] <= 0x9f;

		if (pair || *c == 0x7f)
			(void)fprintf(to, "\\u00%02x", pair ? (uint8_t)c[1] : 0x7fU);
		else
			(void)fputc(*c, to);
		c += pair;
	}
	(void)fputc('\n', to);
}

/* Append the value to the text in ret, of cap bytes. */
static void add_value(const json_t *value, const char *key, char *ret, size_t cap)
{
	OWN_MEM char *other = json_is_string(value)
				      ? NULL
				      : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT |
								  JSON_REAL_PRECISION(6));
	const char *text = json_is_string(value) ? json_string_value(value) : other;
	size_t at = strlen(ret);

	(void)snprintf(ret + at, cap - at, "%s%s%s%s", at > 0 ? "," : "", key,
		       key[0] == '\0' ? "" : "=", text == NULL ? "?" : text);
}

/* Objects inside are written as JSON. */
void show_json_pairs(const json_t *object, char *ret, size_t cap)
{
	const char *key;
	json_t *value;

	ret[0] = '\0';
	json_object_foreach((json_t *)(uintptr_t)object, key, value)
	{
		add_value(value, key, ret, cap);
	}
}

/* The text is not escaped: columns_add() and show_text() do that. */
void show_json_cell(const json_t *value, char *ret, size_t cap)
{
	ret[0] = '\0';
	if (json_is_object(value))
		show_json_pairs(value, ret, cap);
	for (size_t i = 0; i < json_array_size(value); i++)
		add_value(json_array_get(value, i), "", ret, cap);
	if (value != NULL && !json_is_null(value) && !json_is_array(value) &&
	    !json_is_object(value))
		add_value(value, "", ret, cap);
	if (ret[0] == '\0')
		(void)snprintf(ret, cap, "-");
}
