#include "show_json.h"

#include <stdint.h>

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

void show_json_pairs(const json_t *object, char *ret, size_t cap)
{
	const char *key;
	json_t *value;
	size_t at = 0;

	ret[0] = '\0';
	json_object_foreach((json_t *)(uintptr_t)object, key, value)
	{
		const char *text = json_string_value(value);
		int n = snprintf(ret + at, cap - at, "%s%s=%s", at > 0 ? "," : "", key,
				 text == NULL ? "?" : text);

		if (n < 0 || (size_t)n >= cap - at)
			return;
		at += (size_t)n;
	}
}
