#include "show_json.h"

#include <stdint.h>
#include <string.h>

#include "own.h"

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

/* Puts the value behind what is in ret, which has room for cap bytes. */
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
